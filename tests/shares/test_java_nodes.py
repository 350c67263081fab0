"""Java's KafkaShareConsumer on three nodes, each with its address or behind one for all, while nodes stop and die."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bridge.apis import describe_share_group_offsets, find_coordinator
from bridge.node.orphans import Guard
from tests.apis.wire import ask_at
from tests.shares.java_members import ALL, SOURCES, Group, Member, until
from tests.support.driver import Driver
from tests.support.java import Jars, java_driver
from tests.support.nodes import Node, Nodes
from tests.support.one_address import OneAddress
from tests.support.pulsar import PulsarAddress

pytestmark = pytest.mark.soak
PARTITIONS, RECORDS = 6, 600


@dataclass(frozen=True)
class Cluster:
    """Where clients go, and the nodes."""

    kafka: str
    nodes: Sequence[Node]


@pytest.fixture
def addresses_of_their_own(pulsar: PulsarAddress, guard: Guard, tmp_path: Path) -> Iterator[Cluster]:
    made = Nodes(pulsar, pulsar.create_namespace(), guard, tmp_path / "nodes")
    try:
        made.start()
        made.wait_until_settled()
        yield Cluster(made.bootstrap(), made.all)
    finally:
        made.close()


@pytest.fixture
def one_address(pulsar: PulsarAddress, guard: Guard, tmp_path: Path) -> Iterator[Cluster]:
    made = OneAddress(pulsar, pulsar.create_namespace(), guard, tmp_path / "nodes")
    try:
        made.start()
        yield Cluster(made.kafka, made.nodes)
    finally:
        made.close()


@pytest.fixture(params=["addresses_of_their_own", "one_address"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    made: Cluster = request.getfixturevalue(request.param)
    return made


class Work:
    """A group, a topic of some partitions with records in each, and what its members have seen."""

    def __init__(self, driver: Driver, cluster: Cluster) -> None:
        self.group = Group(driver, partitions=PARTITIONS)
        self.seen: set[str] = set()
        self._address = cluster.nodes[-1].kafka
        producer = Producer({"bootstrap.servers": cluster.kafka, "batch.num.messages": 5})
        for number in range(RECORDS):
            producer.produce(self.group.topic, str(number), partition=number % PARTITIONS)
        assert producer.flush(60) == 0

    def do(self, members: Sequence[Member], faults: Sequence[Callable[[], object]]) -> None:
        """Poll by turns until all records were seen, with the faults on the way; each poll accepts the one before."""
        to_come = list(faults)

        def all_seen() -> bool:
            for member in members:
                self.seen |= {value for _, value, _ in member.poll()}
            if to_come and len(self.seen) >= RECORDS * (1 + len(faults) - len(to_come)) // (2 + len(faults)):
                to_come.pop(0)()
            return len(self.seen) == RECORDS

        until("all records", all_seen)
        assert not to_come

    def finish(self, members: Sequence[Member]) -> None:
        """What was given before its acceptance was lost comes once more; then nothing is left."""
        until("the end", lambda: not any([member.poll() for member in members]) and self._lag() == 0)

    def _lag(self) -> int | None:
        """None where nobody tells it now."""
        request = find_coordinator.Request(coordinator_keys=[self.group.name])
        (found,) = ask_at(self._address, find_coordinator.API, request).coordinators
        if found.error_code:
            return None
        described = describe_share_group_offsets
        asked = described.Request(groups=[described.RequestGroup(group_id=self.group.name, topics=None)])
        (group,) = ask_at(f"{found.host}:{found.port}", described.API, asked).groups
        parts = [part for topic in group.topics for part in topic.partitions]
        if group.error_code or len(parts) < PARTITIONS or any(part.lag < 0 for part in parts):
            return None
        return int(sum(part.lag for part in parts))


@pytest.mark.parametrize("jars", ALL, ids=lambda jars: jars.name)
def test_members_get_all_records_whoever_leads(cluster: Cluster, jars: Jars, tmp_path: Path) -> None:
    """Each node leads partitions and may coordinate the group: one stops and starts, then another dies and starts."""
    first, second, _ = cluster.nodes
    with closing(java_driver(SOURCES, jars, cluster.kafka, tmp_path / "driver")) as driver, ExitStack() as open_members:
        work = Work(driver, cluster)
        settings = {"max.poll.records": 20}
        members = [
            open_members.enter_context(closing(Member(driver, work.group, "implicit", settings))) for _ in range(2)
        ]
        work.do(members, [first.stop, first.start, second.kill, second.start])
        work.finish(members)
