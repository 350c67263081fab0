"""Clients of the group checker: members that come and go and committers, all noting what they were acknowledged."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from itertools import pairwise
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

TIMEOUT_SECONDS = 60.0
_ASK_AGAIN = (KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR)
_SETTINGS: dict[str, Any] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "heartbeat.interval.ms": 300,
    "session.timeout.ms": 8000,
    "reconnect.backoff.max.ms": 500,
    "socket.timeout.ms": 10_000,
    # a librdkafka consumer created while no broker listens waits in `wait-metadata` for its next regular refresh,
    # five minutes by default, although it has the metadata by then
    "topic.metadata.refresh.interval.ms": 2000,
    "log_level": 0,
}

_CLASSIC = {"heartbeat.interval.ms", "session.timeout.ms"}
"""The server sets these for members of the new protocol (KIP-848)."""


class Group:
    """What the members of one group were acknowledged, and whether an offset ever moved back."""

    def __init__(
        self,
        bootstrap: str,
        name: str,
        topic: str,
        partitions: int,
        changed: threading.Condition,
        protocol: str = "classic",
    ) -> None:
        self.bootstrap = bootstrap
        self.protocol = protocol
        self.name = name
        self.topic = topic
        self.partitions = partitions
        self.changed = changed
        self.acked: dict[int, int] = defaultdict(int)
        self.commits = 0
        self.rebalances = 0
        self.refused: list[str] = []
        self.wrong: list[str] = []
        self._sent: list[float] = []  # when each acknowledged commit was sent

    def commit(self, consumer: Any, offsets: list[Any] | None = None) -> None:
        """Commit and note what came of it."""
        with self.changed:
            floor = dict(self.acked)
        sent = time.monotonic()
        try:
            if offsets is None:
                done = consumer.commit(asynchronous=False)
            else:
                done = consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            with self.changed:
                self.refused.append(str(error))
            return
        with self.changed:
            for each in done:
                if each.error is not None or each.offset < 0:
                    continue
                if each.offset < floor.get(each.partition, 0):
                    self.wrong.append(
                        f"{self.name}/{each.partition} back to {each.offset} from {floor[each.partition]}"
                    )
                self.acked[each.partition] = max(self.acked[each.partition], each.offset)
                self.commits += 1
                self._sent.append(sent)
            self.changed.notify_all()

    def rebalanced(self) -> None:
        """A member that has just come was assigned partitions.

        Those that stay need not notice: in the new protocol what one that left had waits for the next one that comes.
        """
        with self.changed:
            self.rebalances += 1
            self.changed.notify_all()

    def longest_pause(self, since: float) -> float:
        """The longest time between two acknowledged commits, by when they were sent, from a moment until now."""
        with self.changed:
            marks = [since, *(sent for sent in self._sent if sent >= since), time.monotonic()]
        return max(after - before for before, after in pairwise(marks))

    def settings(self) -> dict[str, Any]:
        """A consumer's settings."""
        own = {"bootstrap.servers": self.bootstrap, "group.id": self.name, "group.protocol": self.protocol}
        if self.protocol == "classic":
            return _SETTINGS | own
        return {name: value for name, value in _SETTINGS.items() if name not in _CLASSIC} | own

    def committed_since(self, since: float) -> bool:
        """Whether a commit sent after this moment was acknowledged."""
        return bool(self._sent) and self._sent[-1] >= since

    def check(self) -> dict[int, int]:
        """Ask for the committed offsets: none may be missing or before an acknowledged one."""
        with self.changed:
            floor = dict(self.acked)
        consumer = Consumer(self.settings())
        try:
            found = self._committed(consumer)
        finally:
            consumer.close()
        for partition, offset in floor.items():
            if found[partition] < offset:
                self.wrong.append(
                    f"{self.name}/{partition}: {offset} was acknowledged, {found[partition]} is committed"
                )
        return found

    def _committed(self, consumer: Any) -> dict[int, int]:
        wanted = [TopicPartition(self.topic, partition) for partition in range(self.partitions)]
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                return {each.partition: each.offset for each in consumer.committed(wanted, timeout=TIMEOUT_SECONDS)}
            except KafkaException as error:
                # a Pulsar that has just come back may lose its bookie once more: the client is told to ask again
                if not error.args[0].retriable() and error.args[0].code() not in _ASK_AGAIN:
                    raise
                if time.monotonic() > deadline:
                    raise
                consumer.poll(0.2)


class Worker(threading.Thread, ABC):
    """One client of a group, in a thread of its own."""

    def __init__(self, group: Group) -> None:
        super().__init__(name=group.name, daemon=True)
        self.group = group
        self.fatal = ""
        self.doing = ""
        self._ended = threading.Event()

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                self.turn()
        except Exception as error:  # noqa: BLE001 — told to the test, which fails
            with self.group.changed:
                self.fatal = f"{self.group.name}: {type(error).__name__}: {error}"
                self.group.changed.notify_all()
        finally:
            self.close()

    def finish(self) -> None:
        """End, in order."""
        self._ended.set()
        self.join(TIMEOUT_SECONDS)

    def consumer(self) -> Any:
        """A consumer of the group."""
        return Consumer(self.group.settings())

    @abstractmethod
    def turn(self) -> None:
        """Do the work once."""

    @abstractmethod
    def close(self) -> None:
        """Give the client back."""


class Stayer(Worker):
    """A member that reads and commits for the whole run."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._consumer = self.consumer()
        self._consumer.subscribe([group.topic])

    def turn(self) -> None:
        messages = self._consumer.consume(50, 0.1)
        if any(message.error() is None for message in messages):
            self.group.commit(self._consumer)

    def close(self) -> None:
        self._consumer.close()


class Comer(Worker):
    """A member that joins, reads a little, commits and leaves, again and again: the group is always rebalancing."""

    def turn(self) -> None:
        consumer = self.consumer()
        assigned = threading.Event()
        consumer.subscribe([self.group.topic], on_assign=lambda _, __: assigned.set())
        try:
            self.doing = "joining"
            while not assigned.is_set() and not self._ended.is_set():
                message = consumer.poll(0.1)
                if message is not None and message.error() is not None:
                    self.doing = f"joining: {message.error()}"
            self.group.rebalanced()
            self.doing = "reading"
            if any(message.error() is None for message in consumer.consume(10, 0.2)):
                self.doing = "committing"
                self.group.commit(consumer)
        finally:
            self.doing = "leaving"
            consumer.close()

    def close(self) -> None:
        """Nothing stays open between turns."""


class Committer(Worker):
    """Commits growing offsets without being a member."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._consumer = self.consumer()
        self._consumer.assign([TopicPartition(group.topic, partition) for partition in range(group.partitions)])
        self._consumer.pause(self._consumer.assignment())
        self._next = 1

    def turn(self) -> None:
        topic, offset = self.group.topic, self._next
        self._next += 1
        self.group.commit(self._consumer, [TopicPartition(topic, p, offset) for p in range(self.group.partitions)])
        self._consumer.poll(0.01)

    def close(self) -> None:
        self._consumer.close()
