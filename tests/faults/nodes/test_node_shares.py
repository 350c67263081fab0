"""Three nodes are killed and frozen while members of a share group accept records: none is lost, none comes again.

Each record is accepted at least once. One whose acceptance was answered without an error is not given again: what a
member has had longer than so many seconds after that was given after it. At last the group begins where the log ends.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.apis import describe_share_group_offsets as describe
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask_at
from tests.faults.figures import report
from tests.faults.processes import let_pass
from tests.support.java import KAFKA, NEWER, NEWEST, Jars, java_driver
from tests.support.nodes import Nodes

_JAVA: Final = Path(__file__).parent / "share_java"
_MARGIN_MS: Final = 8_000
"""For what was given before its acceptance by another node, and lay at its member meanwhile."""
_FROZEN_SECONDS: Final = 5.0
"""Longer than others wait for a node that is silent (`cluster.dead_seconds`)."""
_SECONDS: Final = 90.0
"""Nothing may take longer."""
_CONFIGS: Final = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": 15_000,
    "share.partition.max.record.locks": 200,
    "share.delivery.count.limit": 10,
}
_AWAY: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


class SharesLoad:
    """A producer, and the members of a group, in a JVM of their own."""

    def __init__(
        self, nodes: Nodes, jars: Jars, topic: str, work: Path, partitions: int, members: int, size: int, rate: int
    ) -> None:
        """`rate`: records a second."""
        self.nodes, self.topic, self.group = nodes, topic, f"{topic}-group"
        self.partitions = partitions
        self.bootstrap = nodes.bootstrap()
        self.produced = set[str]()
        self._value = b"v" * size
        self._failed = list[str]()
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        self._producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self.driver = java_driver(_JAVA, jars, self.bootstrap, work)
        self.driver.call("configure", group=self.group, configs=_CONFIGS)
        self._ended, self._pause = threading.Event(), partitions / rate
        self._producing = threading.Thread(target=self._produce, name="producer")
        self._producing.start()
        self.driver.call("start", group=self.group, topic=topic, members=members, margin_ms=_MARGIN_MS)

    def _produce(self) -> None:
        """So many to each partition, until it is told to end, so that there is always something under way."""
        while not self._ended.wait(self._pause):
            for partition in range(self.partitions):
                self._producer.produce(self.topic, self._value, partition=partition, on_delivery=self._delivered)
            self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed.append(str(error))
        else:
            self.produced.add(f"{message.partition()}-{message.offset()}")

    def status(self) -> dict[str, Any]:
        """What the members have seen."""
        found: dict[str, Any] = self.driver.call("status")
        assert not found["failures"], found
        return found

    def more(self, count: int) -> None:
        """Wait until so many more records are accepted."""
        wanted = self.status()["accepted"] + count
        self._until(lambda: self.status()["accepted"] >= wanted)

    def finish(self) -> dict[str, Any]:
        """All that was produced is accepted, and the group begins where each partition ends."""
        self.end()
        assert self._producer.flush(_SECONDS) == 0
        assert not self._failed, self._failed[:3]
        self._until(lambda: self._starts() == self._ends())
        self.driver.call("stop")
        found = self.status()
        assert set(self.driver.call("sent")) == self.produced
        return found

    def end(self) -> None:
        """Produce no more."""
        self._ended.set()
        self._producing.join()

    def _ends(self) -> list[int]:
        ends = [0] * self.partitions
        for place in self.produced:
            partition, _, offset = place.partition("-")
            ends[int(partition)] = max(ends[int(partition)], int(offset) + 1)
        return ends

    def _starts(self) -> list[int]:
        topic = describe.Topic(topic_name=self.topic, partitions=list(range(self.partitions)))
        request = describe.Request(groups=[describe.RequestGroup(group_id=self.group, topics=[topic])])
        for node in self.nodes.all:
            (group,) = ask_at(node.kafka, describe.API, request).groups
            if group.error_code not in _AWAY:
                assert group.error_code == 0, group
                return [one.start_offset for one in group.topics[0].partitions]
        return []

    def _until(self, looks: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _SECONDS
        while not looks():
            if time.monotonic() > deadline:
                raise AssertionError(json.dumps(self.status() | {"starts": self._starts(), "ends": self._ends()}))
            time.sleep(0.1)


@contextmanager
def shares_load(
    nodes: Nodes, jars: Jars, topic: str, work: Path, *, partitions: int, members: int, size: int = 100, rate: int = 600
) -> Iterator[SharesLoad]:
    """At work within."""
    running = SharesLoad(nodes, jars, topic, work, partitions, members, size, rate)
    try:
        yield running
    finally:
        running.end()
        running.driver.kill()
        running.driver.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "jars",
    [KAFKA, pytest.param(NEWER, marks=pytest.mark.soak), pytest.param(NEWEST, marks=pytest.mark.soak)],
    ids=lambda jars: jars.name,
)
def test_share_groups_when_nodes_are_killed_and_frozen(
    start_nodes: Callable[..., Nodes], jars: Jars, topic: str, tmp_path: Path
) -> None:
    nodes = start_nodes(3)
    with shares_load(nodes, jars, topic, tmp_path / "java", partitions=6, members=5) as running:
        running.more(600)
        for node in nodes.all[:2]:
            node.kill()
            running.more(600)
            node.start()
        with nodes.all[2].frozen():
            let_pass(_FROZEN_SECONDS)
        running.more(600)
        found = running.finish()
    report(**found)
    assert found["again"] == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twenty_members_under_many_faults(start_nodes: Callable[..., Nodes], topic: str, tmp_path: Path) -> None:
    nodes = start_nodes(3)
    with shares_load(
        nodes, NEWEST, topic, tmp_path / "java", partitions=12, members=20, size=1000, rate=2000
    ) as running:
        for number in range(20):
            running.more(5000)
            node = nodes.any()
            if number % 3:
                node.kill()
                running.more(5000)
                node.start()
            else:
                with node.frozen():
                    let_pass(_FROZEN_SECONDS)
        found = running.finish()
    report(**found)
    assert found["again"] == []
