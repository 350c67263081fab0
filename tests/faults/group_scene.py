"""Groups under load: members that come and go, members that stay, committers, and a writer that gives them work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.groups import Comer, Committer, Group, Stayer, Worker

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

    def __init__(self, bootstrap: str, topic: str, protocol: str) -> None:
        self.changed = threading.Condition()
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        self.groups = [
            Group(bootstrap, f"{topic}-{n}", topic, PARTITIONS, self.changed, protocol) for n in range(2 * GROUPS)
        ]
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
def scene(bootstrap: str, topic: str, protocol: str = "classic") -> Iterator[Scene]:
    """Groups that are at work; `protocol` is that of their members."""
    running = Scene(bootstrap, topic, protocol)
    try:
        running.start()
        yield running
    finally:
        running.stop()
