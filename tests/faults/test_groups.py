"""The bridge and Pulsar are killed in the middle of rebalances and commits: no committed offset is lost or moves back,
and all groups resume. `--group-kills 20` for the long run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.groups import Comer, Committer, Group, Stayer, Worker
from tests.support.bridges import BridgeChild
from tests.support.pulsar import PrivatePulsar

PARTITIONS = 4
GROUPS = 3
RECOVERY = 60.0


class Writer(threading.Thread):
    """Keeps records coming, so that there is always something to commit."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._topic = topic
        self._ended = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 500, "linger.ms": 5}
        )

    def run(self) -> None:
        number = 0
        while not self._ended.is_set():
            if len(self._producer) < 500:
                self._producer.produce(self._topic, b"%d" % number, partition=number % PARTITIONS)
                number += 1
            self._producer.poll(0)
            self._ended.wait(0.005)
        self._producer.purge()
        self._producer.poll(0)

    def finish(self) -> None:
        """Write no more."""
        self._ended.set()
        self.join(30)


class Scene:
    """Groups whose members come and go, groups that only commit, and a writer."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.changed = threading.Condition()
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        self.groups = [Group(bootstrap, f"{topic}-{n}", topic, PARTITIONS, self.changed) for n in range(2 * GROUPS)]
        self.workers: list[Worker] = []
        for group in self.groups[:GROUPS]:
            self.workers += [Stayer(group), Stayer(group), Comer(group)]
        self.workers += [Committer(group) for group in self.groups[GROUPS:]]
        self._writer = Writer(bootstrap, topic)

    def start(self) -> None:
        """Let all begin."""
        self._writer.start()
        for worker in self.workers:
            worker.start()
        self.until("every group to commit", lambda: all(group.commits for group in self.groups))

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for what the clients see."""
        with self.changed:
            held = self.changed.wait_for(lambda: condition() or bool(self._broken()), RECOVERY)
        assert not self._broken(), self._broken()
        assert held, f"{what}: not within {RECOVERY} s; {self.progress()}"

    def busy(self) -> None:
        """Wait until every group is in the middle of it: commits everywhere, and rebalances where there are members."""
        commits = [group.commits + PARTITIONS for group in self.groups]
        rebalances = [group.rebalances + 1 for group in self.groups[:GROUPS]]
        self.until(
            "commits and rebalances",
            lambda: (
                all(group.commits >= mark for group, mark in zip(self.groups, commits, strict=True))
                and all(g.rebalances >= mark for g, mark in zip(self.groups[:GROUPS], rebalances, strict=True))
            ),
        )

    def resumed(self) -> float:
        """Seconds until each group has a commit acknowledged that was sent from now on; then look at all offsets."""
        since = time.monotonic()
        self.until("all groups to resume", lambda: all(group.committed_since(since) for group in self.groups))
        took = time.monotonic() - since
        for group in self.groups:
            group.check()
        self.check()
        return took

    def check(self) -> None:
        """Nothing moved back and nothing was lost."""
        wrong = [each for group in self.groups for each in group.wrong]
        assert not wrong, wrong[:10]

    def stop(self) -> None:
        """Let all end."""
        self._writer.finish()
        for worker in self.workers:
            worker.finish()

    def progress(self) -> list[object]:
        """Where all members are."""
        groups = [(group.name, group.commits, group.rebalances, group.refused[-1:]) for group in self.groups]
        return [*groups, *((worker.name, worker.doing) for worker in self.workers if worker.doing)]

    def _broken(self) -> list[str]:
        return [worker.fatal for worker in self.workers if worker.fatal]


@contextmanager
def scene(bootstrap: str, topic: str) -> Iterator[Scene]:
    running = Scene(bootstrap, topic)
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How many kills in all."""
    return int(request.config.getoption("--group-kills", default=2))


@pytest.mark.timeout(1800)
def test_no_committed_offset_is_lost_when_the_bridge_or_pulsar_is_killed(
    broker: PrivatePulsar, bridge_child: BridgeChild, topic: str, kills: int
) -> None:
    recoveries = {"bridge": list[float](), "pulsar": list[float]()}
    with scene(bridge_child.kafka, topic) as running:
        for kill in range(kills):
            running.busy()
            victim: BridgeChild | PrivatePulsar = broker if kill % 2 else bridge_child
            victim.kill()
            victim.start()
            recoveries["pulsar" if kill % 2 else "bridge"].append(round(running.resumed(), 2))
        running.busy()
        progress = running.progress()
    running.check()
    print("figures: seconds until all groups committed again", recoveries, "commits, rebalances", progress)
