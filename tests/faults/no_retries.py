"""Producers that never repeat: each record has one outcome, which its client is told, and the log must agree with it.

What a client has been told failed is not in the log; what it has been told is stored stands where it was told, once. A
restart of the broker costs such clients what was on its way to the broker when it stopped to read, and nothing more.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.driver import Driver
from tests.support.java import KAFKA, java_driver
from tests.support.servers import KafkaServer

TIMEOUT_SECONDS = 60.0
ANSWERS_LOST = {"kafka-python"}
"""Clients that tell a failure though the answer came: 3.0 throws away what it reads together with the end."""
KINDS = ("librdkafka", "kafka-python", "java", "raw-5", "raw-50", "raw-idempotent")
_JAVA = Path(__file__).parent / "java"


class Sender:
    """A client in a process of its own (`no_retries_client`, or the Java producer), and what it was told."""

    def __init__(self, kind: str, bootstrap: str, work: Path) -> None:
        self.name = kind
        self.broken = ""
        self.sent = 0
        self.acked: dict[bytes, tuple[int, int]] = {}
        self.failed: dict[bytes, str] = {}
        self.times: list[float] = []  # of acknowledgements, `time.monotonic`, which is the same in all processes
        if kind == "java":
            self._driver = java_driver(_JAVA, KAFKA, bootstrap, work / kind)
        else:
            command = [sys.executable, "-m", "tests.faults.no_retries_client", kind, bootstrap]
            self._driver = Driver(command, work / f"{kind}.log")
        self._driver.listen(self.name, self._told)

    def start(self, topic: str, partitions: int, rate: int) -> None:
        """Begin to send."""
        self._driver.call("start", name=self.name, topic=topic, partitions=partitions, rate=rate)

    def end(self) -> None:
        """Send no more, and wait for every outcome."""
        self.sent = self._driver.call("end", name=self.name)
        self._driver.close()

    def close(self) -> None:
        """End the process."""
        self._driver.close()

    def _told(self, event: dict[str, Any]) -> None:
        self.broken = self.broken or event.get("failed", "")
        for number, where, offset, error, when, *_ in event.get("outcomes", ()):
            value = f"{self.name}:{number}".encode()
            if error is None:
                self.acked[value] = where, offset
                self.times.append(when)
            else:
                self.failed[value] = error


@dataclass
class Verdict:
    """What became of the records, as the clients were told and as the log says."""

    senders: Sequence[Sender]
    log: list[dict[int, bytes]]
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        counts = Counter(value for partition in self.log for value in partition.values())
        for sender in self.senders:
            told = len(sender.acked) + len(sender.failed)
            if told != sender.sent or sender.acked.keys() & sender.failed.keys():
                self.wrong.append(f"{sender.name}: {sender.sent} sent, {told} told")
            for value, (where, offset) in sender.acked.items():
                found = self.log[where].get(offset)
                if found != value:
                    self.wrong.append(f"{value!r} acked at {where}/{offset}, where there is {found!r}")
                if counts[value] != 1:
                    self.wrong.append(f"{value!r} acked, stored {counts[value]} times")
            for value, error in sender.failed.items():
                if counts[value] and sender.name not in ANSWERS_LOST:
                    self.wrong.append(f"{value!r} failed ({error}) and is stored")

    @property
    def failed(self) -> int:
        """Of all clients."""
        return sum(len(sender.failed) for sender in self.senders)

    def check(self) -> None:
        """Fail unless the log agrees with what the clients were told."""
        assert all(sender.acked for sender in self.senders), "a client wrote nothing"
        assert not self.wrong, "\n".join([f"{len(self.wrong)} wrong", *self.wrong[:10]])


class Senders:
    """Several clients at work on one topic."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, senders: Sequence[Sender]) -> None:
        self.senders = senders
        self.stops: list[float] = []
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions

    def progress(self, count: int) -> None:
        """Wait until every client has so many more acknowledgements."""
        marks = [len(sender.acked) + count for sender in self.senders]
        until = time.monotonic() + TIMEOUT_SECONDS
        while not all(len(sender.acked) >= mark for sender, mark in zip(self.senders, marks, strict=True)):
            told = ", ".join(f"{one.name} {len(one.acked)} {one.broken}" for one in self.senders)
            over = time.monotonic() > until or any(one.broken for one in self.senders)
            assert not over, f"{count} more records of each client: {told}"
            time.sleep(0.01)  # the clients are in other processes

    def end(self) -> Verdict:
        """Stop sending, read everything, judge."""
        for sender in self.senders:
            sender.end()
        return Verdict(self.senders, read_all(self._bootstrap, self._topic, self._partitions))

    def restart(self, server: KafkaServer) -> None:
        """Stop it as a rolling restart does, and start it again."""
        before = {sender.name: len(sender.failed) for sender in self.senders}
        self.stops.append(time.monotonic())
        stopped, started = server.stop(), server.start()
        self.progress(50)
        failed = {sender.name: len(sender.failed) - before[sender.name] for sender in self.senders}
        print(f"figures: stopped in {stopped:.2f} s, started in {started:.2f} s, failed {failed}", flush=True)

    def gaps(self) -> dict[str, list[float]]:
        """For each client and stop, the longest time without an acknowledgement around it."""
        found: dict[str, list[float]] = {}
        for sender in self.senders:
            times = sorted(sender.times)
            found[sender.name] = []
            for at, stop in enumerate(self.stops):
                next_stop = self.stops[at + 1] if at + 1 < len(self.stops) else float("inf")
                near = [t for t in times if stop - 1 <= t < next_stop]
                found[sender.name].append(round(max((b - a for a, b in pairwise(near)), default=0.0), 2))
        return found


@contextmanager
def sending(
    bootstrap: str, topic: str, work: Path, *, partitions: int = 3, rate: int = 500, kinds: Sequence[str] = KINDS
) -> Iterator[Senders]:
    """Clients under way: each has acknowledgements."""
    senders: list[Sender] = []
    try:
        for kind in kinds:
            senders.append(Sender(kind, bootstrap, work))
        for sender in senders:
            sender.start(topic, partitions, rate)
        running = Senders(bootstrap, topic, partitions, senders)
        running.progress(50)
        yield running
    finally:
        for sender in senders:
            sender.close()


def read_all(bootstrap: str, topic: str, partitions: int) -> list[dict[int, bytes]]:
    """Every record of a topic by partition and offset."""
    found: list[dict[int, bytes]] = [{} for _ in range(partitions)]
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer(settings | {"enable.partition.eof": True, "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    ended: set[int] = set()
    until = time.monotonic() + TIMEOUT_SECONDS
    while len(ended) < partitions:
        assert time.monotonic() < until, "the log cannot be read to its end"
        for one in consumer.consume(1000, 1.0):
            error, partition, offset, value = one.error(), one.partition(), one.offset(), one.value()
            assert partition is not None and offset is not None
            if error is None:
                assert isinstance(value, bytes)
                found[partition][offset] = value
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(partition)
    consumer.close()
    return found
