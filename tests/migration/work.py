"""Producers and consumers of three libraries at work, each in a process that is stopped and started elsewhere."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from bridge.node.orphans import Guard
from tests.support.foreign import until
from tests.support.java import KAFKA, compiled, java_command
from tests.support.sources import ROOT

LIBRARIES = ("java", "confluent", "kafka-python")
PARTITIONS = 3
TIMEOUT_SECONDS = 90.0
Content = list[tuple[int, bytes | None, bytes | None, int, tuple[tuple[str, bytes], ...]]]
"""A partition: offset, key, value, timestamp, headers of each record."""
_SOURCES = Path(__file__).parent / "java"


@dataclass(frozen=True, slots=True)
class Read:
    """A record that a consumer told."""

    partition: int
    offset: int
    at: int
    value: str


class Program:
    """One life of a client: what it says is noted as it comes."""

    def __init__(self, guard: Guard, library: str, *words: str) -> None:
        """`words` are those of tests/migration/program.py."""
        if library == "java":
            command = java_command("Program", *words, classes=compiled(_SOURCES, KAFKA))
        else:
            command = [sys.executable, "-m", "tests.migration.program", library, *words]
        self._guard = guard
        self.name = f"{library} {words[0]}"
        self.acked: list[tuple[int, int]] = []
        """(number, millis), in the order in which they were acknowledged."""
        self.read: list[Read] = []
        self._others: list[str] = []
        self._ended = False
        read, write = os.pipe()
        with os.fdopen(write, "wb") as output:
            self._process = guard.popen(command, output=output, cwd=ROOT)
        self._listener = threading.Thread(target=self._listen, args=(read,), daemon=True)
        self._listener.start()

    def check(self) -> None:
        """Fail where it has failed."""
        said = [line for line in self._others if line.startswith(("failed", "Traceback", "Exception"))]
        assert not said, f"{self.name}: {self._others[-20:]}"
        assert self._ended or self._process.poll() is None, f"{self.name} died: {self._others[-20:]}"

    def ask_to_end(self) -> None:
        """SIGTERM."""
        os.kill(self._process.pid, signal.SIGTERM)

    def until_ended(self) -> None:
        """Wait for an end in order."""
        self._process.wait(TIMEOUT_SECONDS)
        self._listener.join(TIMEOUT_SECONDS)
        self._guard.forget(self._process.pid)
        assert self._ended, f"{self.name} did not end in order: {self._others[-20:]}"
        self.check()

    def kill(self) -> None:
        """SIGKILL, whatever it does; also after its end."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._guard.forget(self._process.pid)
        self._listener.join(TIMEOUT_SECONDS)

    def _listen(self, read: int) -> None:
        with os.fdopen(read, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                what, _, rest = line.rstrip("\n").partition(" ")
                if what == "acked":
                    number, at = rest.split()
                    self.acked.append((int(number), int(at)))
                elif what == "read":
                    partition, offset, at, value = rest.split(maxsplit=3)
                    self.read.append(Read(int(partition), int(offset), int(at), value))
                elif what == "ended":
                    self._ended = True
                elif line.strip():
                    self._others.append(line.rstrip())


class Client:
    """A producer and a consumer of one library, over all their lives."""

    def __init__(self, guard: Guard, library: str, topic: str, rate: int) -> None:
        self._guard = guard
        self.library = library
        self.topic = topic
        self.group = f"{topic}-{library}"
        self._rate = rate
        self.producers: list[Program] = []
        self.consumers: list[Program] = []

    @property
    def lives(self) -> list[Program]:
        """All processes."""
        return [*self.producers, *self.consumers]

    def produce(self, bootstrap: str) -> None:
        """Start a producer, which goes on where the one before it ended."""
        first = 1 + max((number for life in self.producers for number, _ in life.acked), default=-1)
        words = (self.topic, self.library, str(first), str(PARTITIONS), str(self._rate))
        self.producers.append(Program(self._guard, self.library, "produce", bootstrap, *words))

    def consume(self, bootstrap: str) -> None:
        """Start a consumer."""
        self.consumers.append(Program(self._guard, self.library, "consume", bootstrap, self.topic, self.group))

    @property
    def acked(self) -> list[str]:
        """The values of all records that were acknowledged."""
        return [f"{self.library}:{number}" for life in self.producers for number, _ in life.acked]

    @property
    def read(self) -> Counter[str]:
        """How often each value was read, by any of its consumers."""
        return Counter(one.value for life in self.consumers for one in life.read)

    def pauses(self) -> tuple[float, float]:
        """Seconds from the last acknowledgement before the move to the first behind it, and the same of reading."""
        before, after = self.producers[-2:]
        acks = min(at for _, at in after.acked) - max(at for _, at in before.acked)
        old, new = self.consumers[-2:]
        reads = min(one.at for one in new.read) - max(one.at for one in old.read)
        return acks / 1000, reads / 1000


class Work:
    """The clients of a topic."""

    def __init__(self, guard: Guard, topic: str, rate: int, libraries: Sequence[str] = LIBRARIES) -> None:
        self.topic = topic
        self.clients = [Client(guard, library, topic, rate) for library in libraries]

    def until(self, what: str, holds: Callable[[], bool], timeout: float = TIMEOUT_SECONDS) -> None:
        """Wait for what `holds()` tells of the clients; one that fails ends the wait."""

        def looked() -> bool:
            for client in self.clients:
                for life in client.lives:
                    life.check()
            return holds()

        assert until(looked, timeout), f"{what}: {self.progress()}"

    def progress(self) -> str:
        """How far each is."""
        return ", ".join(
            f"{client.library} wrote {len(client.acked)}, read {client.read.total()}" for client in self.clients
        )

    def stop_producing(self) -> None:
        """All producers end, and are told of all they sent."""
        self._end([client.producers[-1] for client in self.clients])

    def stop_consuming(self) -> None:
        """All consumers end, and commit what they have read."""
        self._end([client.consumers[-1] for client in self.clients])

    def written(self) -> set[str]:
        """The values of all records that were acknowledged until now."""
        return {value for client in self.clients for value in client.acked}

    def until_read(self, written: set[str]) -> None:
        """Every client has read these values."""
        self.until("all to be read", lambda: all(written <= client.read.keys() for client in self.clients))

    def until_more(self, records: int) -> None:
        """The newest producer and consumer of each client have done so much."""
        self.until(
            f"{records} records of each",
            lambda: all(
                len(client.producers[-1].acked) >= records and len(client.consumers[-1].read) >= records
                for client in self.clients
            ),
        )

    def tell(self, what: str) -> None:
        """Print the pause of each client at its last move."""
        for client in self.clients:
            acks, reads = client.pauses()
            print(f"\n{what:16} {client.library:13} producer {acks:6.2f} s  consumer {reads:6.2f} s", end="")

    def check(self, bootstrap: str) -> dict[int, Content]:
        """All that was acknowledged is there once, in each producer's order, and each client has read all of it once.

        Returns what is there.
        """
        acked = Counter(value for client in self.clients for value in client.acked)
        found = contents(bootstrap, self.topic)
        there = {number: [(record[2] or b"").decode() for record in records] for number, records in found.items()}
        assert Counter(value for values in there.values() for value in values) == acked
        for values in there.values():
            for client in self.clients:
                own = [int(value.partition(":")[2]) for value in values if value.startswith(f"{client.library}:")]
                assert own == sorted(own)
        for client in self.clients:
            assert client.read == acked, f"{client.library} has not read all of it once"
        return found

    def end(self, home: str, other: str) -> None:
        """All clients end; what was moved is the same on both sides, and the rest is at home."""
        self.stop_producing()
        self.until_read(self.written())
        self.stop_consuming()
        at_home = self.check(home)
        for number, moved in contents(other, self.topic).items():
            assert at_home[number][: len(moved)] == moved  # offsets, keys, times and headers among them

    def close(self) -> None:
        """Leave nothing behind."""
        for client in self.clients:
            for life in client.lives:
                life.kill()

    @staticmethod
    def _end(lives: Sequence[Program]) -> None:
        for life in lives:
            life.ask_to_end()
        for life in lives:
            life.until_ended()


def contents(bootstrap: str, topic: str) -> dict[int, Content]:
    """All there is, as a reader of its own sees it."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "auto.offset.reset": "error"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    found: dict[int, Content] = {number: [] for number in range(PARTITIONS)}
    consumer.assign([TopicPartition(topic, number, 0) for number in found])
    open_ones = set(found)
    try:
        while open_ones:
            message = consumer.poll(TIMEOUT_SECONDS)
            assert message is not None, f"{bootstrap} gives no more of {open_ones}"
            number = message.partition()
            if message.error() is not None:
                open_ones.remove(number)
                continue
            headers = tuple(message.headers() or ())
            record = message.offset(), message.key(), message.value(), message.timestamp()[1], headers
            found[number].append(record)
    finally:
        consumer.close()
    return found


def values(content: dict[int, Content]) -> Counter[str]:
    return Counter((record[2] or b"").decode() for records in content.values() for record in records)
