"""Producers that never repeat: each record has one outcome, which its client is told, and the log must agree with it.

What a client has been told failed is not in the log; what it has been told is stored stands where it was told, once. A
restart of the broker costs such clients what was on its way to the broker when it stopped to read, and nothing more.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from kafka import KafkaProducer

from bridge.apis import init_producer_id
from bridge.codec import NO_PRODUCER, Rebuild, Record, build_batch
from bridge.kafka import message, produce_wire
from tests.apis.wire import ask_at
from tests.support.driver import Driver
from tests.support.java import KAFKA, java_driver

RATE = 1000
LINGER_MS = 5
_TURN = 0.005
PATIENCE = 60.0
_JAVA = Path(__file__).parent / "java"


class Sender(threading.Thread, ABC):
    """Sends `name:0`, `name:1`, … round the partitions at a pace, whatever becomes of them."""

    def __init__(self, name: str, topic: str, partitions: int, rate: int) -> None:
        super().__init__(name=name, daemon=True)
        self.topic = topic
        self.partitions = partitions
        self.rate = rate
        self.sent = 0
        self.acked: dict[bytes, tuple[int, int]] = {}
        self.failed: dict[bytes, str] = {}
        self.times: list[float] = []  # of acknowledgements
        self.broken = ""
        self._ending = threading.Event()

    def run(self) -> None:
        begin = time.monotonic()
        try:
            while not self._ending.is_set():
                due = int((time.monotonic() - begin) * self.rate)
                while self.sent < due and self.room():
                    self.sent += 1
                    self.send((self.sent - 1) % self.partitions, f"{self.name}:{self.sent - 1}".encode())
                self.serve(_TURN)
                begin = max(begin, time.monotonic() - self.sent / self.rate - 1)  # what was missed stays missed
            self.finish()
        except Exception as error:  # noqa: BLE001 — told to the test, which fails
            self.broken = f"{type(error).__name__}: {error}"

    def end(self) -> None:
        """Send no more, and wait for every outcome."""
        self._ending.set()
        self.join(PATIENCE)
        assert not self.is_alive(), f"{self.name} does not come to its end"
        assert not self.broken, self.broken

    def stored(self, value: bytes, where: int, offset: int) -> None:
        """One record is acknowledged."""
        self.acked[value] = where, offset
        self.times.append(time.monotonic())

    def lost(self, value: bytes, error: object) -> None:
        """One record has failed, for ever."""
        self.failed[value] = str(error)

    def room(self) -> bool:
        """Whether the client takes one more."""
        return self.sent - len(self.acked) - len(self.failed) < 20_000

    @abstractmethod
    def send(self, where: int, value: bytes) -> None:
        """Hand one record to the client."""

    @abstractmethod
    def serve(self, seconds: float) -> None:
        """Let the client work for about so long."""

    @abstractmethod
    def finish(self) -> None:
        """Wait for what is on its way."""


class Confluent(Sender):
    """librdkafka: any number of requests in flight."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: int = RATE) -> None:
        super().__init__("librdkafka", topic, partitions, rate)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "retries": 0, "linger.ms": LINGER_MS, "log_level": 0}
        )

    def send(self, where: int, value: bytes) -> None:
        self._producer.produce(self.topic, value, partition=where, on_delivery=self._done)

    def _done(self, error: KafkaError | None, told: Message) -> None:
        value, where, offset = told.value(), told.partition(), told.offset()
        assert isinstance(value, bytes)
        if error is not None:
            self.lost(value, error)
        else:
            assert where is not None and offset is not None
            self.stored(value, where, offset)

    def serve(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._producer.poll(max(0.0, until - time.monotonic())):
            pass

    def finish(self) -> None:
        assert self._producer.flush(PATIENCE) == 0


class KafkaPython(Sender):
    """kafka-python: five requests in flight."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: int = RATE) -> None:
        super().__init__("kafka-python", topic, partitions, rate)
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, retries=0, enable_idempotence=False, linger_ms=LINGER_MS
        )

    def send(self, where: int, value: bytes) -> None:
        future = self._producer.send(self.topic, value, partition=where)
        future.add_callback(partial(self._stored, value))
        future.add_errback(partial(self.lost, value))

    def _stored(self, value: bytes, metadata: Any) -> None:
        self.stored(value, metadata.partition, metadata.offset)

    def serve(self, seconds: float) -> None:
        self._ending.wait(seconds)

    def finish(self) -> None:
        self._producer.flush(PATIENCE)
        self._producer.close(timeout=5)


class Java(Sender):
    """The Java producer: five requests in flight."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, work: Path, rate: int = RATE) -> None:
        super().__init__("java", topic, partitions, rate)
        self._driver: Driver = java_driver(_JAVA, KAFKA, bootstrap, work)
        self._driver.listen(self.name, self._told)

    def run(self) -> None:
        try:
            arguments = {"topic": self.topic, "partitions": self.partitions, "rate": self.rate}
            self._driver.call("start", name=self.name, **arguments)
            self._ending.wait()
            self.sent = self._driver.call("end", name=self.name)
            self._driver.close()
        except Exception as error:  # noqa: BLE001 — told to the test, which fails
            self.broken = f"{type(error).__name__}: {error}"

    def _told(self, event: dict[str, Any]) -> None:
        for number, where, offset, error in event.get("outcomes", ()):
            value = f"{self.name}:{number}".encode()
            if error is None:
                self.stored(value, where, offset)
            else:
                self.lost(value, error)

    def send(self, where: int, value: bytes) -> None: ...

    def serve(self, seconds: float) -> None: ...

    def finish(self) -> None: ...


@dataclass
class _Request:
    where: int
    values: list[bytes]


class Raw(Sender):
    """Requests over a socket, as many in flight as asked for; an idempotent one takes a new id with each connection."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, *, in_flight: int, idempotent: bool, rate: int = RATE
    ) -> None:
        super().__init__("raw-idempotent" if idempotent else f"raw-{in_flight}", topic, partitions, rate)
        self._address = bootstrap
        self._most = in_flight
        self._idempotent = idempotent
        self._collected: list[list[bytes]] = [[] for _ in range(partitions)]
        self._sequences: Counter[int] = Counter()
        self._producer_id = -1
        self._socket: socket.socket | None = None
        self._received = bytearray()
        self._on_their_way: list[_Request] = []  # in the order of their answers
        self._next = 0

    def send(self, where: int, value: bytes) -> None:
        self._collected[where].append(value)

    def serve(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        if self._socket is None and not self._connect():
            return
        for _ in range(self.partitions):
            self._next = (self._next + 1) % self.partitions
            if self._collected[self._next] and len(self._on_their_way) < self._most:
                values, self._collected[self._next] = self._collected[self._next], []
                self._request(self._next, values)
        while self._socket is not None and (left := until - time.monotonic()) > 0:
            if select.select([self._socket], [], [], left)[0]:
                self._receive()

    def finish(self) -> None:
        until = time.monotonic() + PATIENCE
        while (self._on_their_way or any(self._collected)) and time.monotonic() < until:
            self.serve(_TURN)
        if self._socket is not None:
            self._socket.close()

    def _connect(self) -> bool:
        host, _, port = self._address.rpartition(":")
        try:
            if self._idempotent:
                request = init_producer_id.Request(transactional_id=None, transaction_timeout_ms=-1)
                answer = ask_at(self._address, init_producer_id.API, request)
                if answer.error_code:  # Kafka has none in its first moments
                    raise ConnectionError(f"no producer id: error {answer.error_code}")
                self._producer_id = answer.producer_id
                self._sequences.clear()
            self._socket = socket.create_connection((host, int(port)), timeout=10)
        except (OSError, struct.error):
            time.sleep(0.01)
            return False
        return True

    def _request(self, where: int, values: list[bytes]) -> None:
        assert self._socket is not None
        now = int(time.time() * 1000)
        records = [Record(at, now, None, value, []) for at, value in enumerate(values)]
        producer = (self._producer_id, 0, self._sequences[where]) if self._idempotent else NO_PRODUCER
        self._sequences[where] += len(values)
        batch = build_batch(records, Rebuild(0, len(records), 0, own=True, producer=producer))
        name = self.topic.encode()
        body = struct.pack(">hhihhhii", 0, 3, 1, -1, -1, -1, 30_000, 1) + struct.pack(">h", len(name)) + name
        body += struct.pack(">iii", 1, where, len(batch)) + batch
        self._on_their_way.append(_Request(where, values))
        try:
            self._socket.sendall(struct.pack(">i", len(body)) + body)
        except OSError as error:
            self._disconnected(error)

    def _receive(self) -> None:
        assert self._socket is not None
        try:
            piece = self._socket.recv(65536)
        except OSError as error:
            return self._disconnected(error)
        if not piece:
            return self._disconnected("the broker hung up")
        self._received += piece
        while len(self._received) >= 4:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + size:
                return
            self._answered(message.decode(produce_wire.Response, bytes(self._received[8 : 4 + size]), 3, False))
            del self._received[: 4 + size]

    def _answered(self, answer: produce_wire.Response) -> None:
        request = self._on_their_way.pop(0)
        told = answer.responses[0].partition_responses[0]
        for at, value in enumerate(request.values):
            if told.error_code:
                self.lost(value, f"error {told.error_code}")
            else:
                self.stored(value, told.index, told.base_offset + at)

    def _disconnected(self, reason: object) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._received.clear()
        for request in self._on_their_way:
            for value in request.values:
                self.lost(value, reason)
        self._on_their_way.clear()


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
                if counts[value]:
                    self.wrong.append(f"{value!r} failed ({error}) and is stored")

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
        until = time.monotonic() + PATIENCE
        while not all(len(sender.acked) >= mark for sender, mark in zip(self.senders, marks, strict=True)):
            told = ", ".join(f"{one.name} {len(one.acked)} {one.broken}" for one in self.senders)
            assert time.monotonic() < until, f"{count} more records of each client: {told}"
            time.sleep(0.01)

    def end(self) -> Verdict:
        """Stop sending, read everything, judge."""
        for sender in self.senders:
            sender.end()
        return Verdict(self.senders, read_all(self._bootstrap, self._topic, self._partitions))

    def gaps(self) -> dict[str, list[float]]:
        """For each client and stop, the longest time without an acknowledgement around it."""
        found: dict[str, list[float]] = {}
        for sender in self.senders:
            times = sorted(sender.times)
            found[sender.name] = []
            for at, stop in enumerate(self.stops):
                next_stop = self.stops[at + 1] if at + 1 < len(self.stops) else float("inf")
                near = [t for t in times if stop - 1 <= t < next_stop]
                found[sender.name].append(max((b - a for a, b in pairwise(near)), default=0.0))
        return found


@contextmanager
def sending(bootstrap: str, topic: str, partitions: int, senders: Sequence[Sender]) -> Iterator[Senders]:
    """Clients under way: each has acknowledgements."""
    running = Senders(bootstrap, topic, partitions, senders)
    try:
        for sender in senders:
            sender.start()
        running.progress(50)
        yield running
    finally:
        for sender in senders:
            with suppress(AssertionError, RuntimeError):
                sender.end()


def read_all(bootstrap: str, topic: str, partitions: int) -> list[dict[int, bytes]]:
    """Every record of a topic by partition and offset."""
    found: list[dict[int, bytes]] = [{} for _ in range(partitions)]
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer(settings | {"enable.partition.eof": True, "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    ended: set[int] = set()
    until = time.monotonic() + PATIENCE
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
