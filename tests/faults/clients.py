"""The clients of the log checker: each runs in a thread of its own, never restarted, and notes all that it is told."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError

_IN_FLIGHT = 150  # records of one writer without an outcome: enough for several requests on their way at once
_PACE = 0.02
_PER_TURN = 12
_DELIVERY_MS = 120_000
_FETCH_WAIT_MS = 40_000
Ack = tuple[int, int, bytes]
Server = str | Mapping[str, Any]
"""Where a server is: its address, or librdkafka's settings with all that a client of it needs."""


def words(server: Server) -> dict[str, Any]:
    """librdkafka's settings."""
    return {"bootstrap.servers": server} if isinstance(server, str) else dict(server)


class Writer(threading.Thread, ABC):
    """Writes `name:0`, `name:1`, … round the partitions, with at most `most_open` of them open."""

    def __init__(self, name: str, partitions: int, changed: threading.Condition, idempotent: bool) -> None:
        super().__init__(name=name, daemon=True)
        self.idempotent = idempotent
        self.partitions = partitions
        self.changed = changed
        self.sent = 0
        self.acks: list[Ack] = []
        self.errors: list[str] = []
        self.fatal = ""
        self.slowest = 0.0
        self.per_turn = _PER_TURN
        self.most_open = _IN_FLIGHT
        self.stopped = False
        self._given_up = False
        self._paced = threading.Event()
        self._acked_at: list[tuple[int, float, float]] = []  # partition, sent, acknowledged

    def run(self) -> None:
        try:
            while not self.stopped:
                for _ in range(self.per_turn):
                    if self.sent - len(self.acks) - len(self.errors) >= self.most_open:
                        break
                    value = f"{self.name}:{self.sent}".encode()
                    where = self.sent % self.partitions
                    self.sent += 1
                    self.send(where, value, time.monotonic())
                self.serve(_PACE)
            while not self._given_up and len(self.acks) + len(self.errors) < self.sent:
                self.serve(_PACE)
        except Exception as error:  # noqa: BLE001 — told to the test, which fails
            self.fail(f"{type(error).__name__}: {error}")
        finally:
            self.close()

    def finish(self) -> None:
        """Send no more; the thread ends when every record has its outcome."""
        self.stopped = True
        self._paced.set()

    def give_up(self) -> None:
        """End whatever is missing."""
        self._given_up = True
        self.finish()
        if self.ident is None:
            self.close()
        else:
            self.join(30)

    def fresh(self, since: float) -> dict[tuple[str, int], float]:
        """When each partition first acknowledged a record sent after `since`."""
        found: dict[tuple[str, int], float] = {}
        for where, sent, acked in reversed(self._acked_at):
            if sent < since and acked < since:
                break
            if sent >= since:
                found[self.name, where] = acked
        return found

    def ack_times(self, since: float) -> dict[int, list[float]]:
        """For each partition when records were acknowledged, from a moment on, in order."""
        found: dict[int, list[float]] = {partition: [] for partition in range(self.partitions)}
        with self.changed:
            for where, _, acked in self._acked_at:
                if acked >= since:
                    found[where].append(acked)
        return found

    def acked(self, where: int, offset: int, value: bytes, sent: float, when: float | None = None) -> None:
        """One record is acknowledged, now or when another process says."""
        now = time.monotonic() if when is None else when
        with self.changed:
            self.slowest = max(self.slowest, now - sent)
            self._acked_at.append((where, sent, now))
            self.acks.append((where, offset, value))
            self.changed.notify_all()

    def refused(self, error: object) -> None:
        """One record will never be acknowledged."""
        with self.changed:
            self.errors.append(str(error))
            self.changed.notify_all()

    def fail(self, reason: str) -> None:
        """The client can do no more."""
        with self.changed:
            self.fatal = reason
            self.changed.notify_all()

    @abstractmethod
    def send(self, where: int, value: bytes, now: float) -> None:
        """Hand one record to the client."""

    @abstractmethod
    def serve(self, seconds: float) -> None:
        """Let the client work for about so long."""

    @abstractmethod
    def close(self) -> None:
        """Give the client back."""


class ConfluentWriter(Writer):
    """librdkafka; without idempotence one record of a partition at a time, as order then demands.

    Its `max.in.flight` = 1 is of a connection. While a request is on its way to a former leader, which then refuses it,
    the next one goes to the new leader, and the first one is repeated after it (librdkafka issue 1969).
    """

    def __init__(
        self, name: str, server: Server, topic: str, partitions: int, changed: threading.Condition, *, idempotent: bool
    ) -> None:
        super().__init__(name, partitions, changed, idempotent)
        self.key: bytes | None = None
        """Of every record: as large as the records are to be."""
        self._topic = topic
        self._waiting: dict[int, deque[tuple[bytes, float]]] = {}
        """The records of a partition of which one is on its way, and when they were given."""
        settings: dict[str, Any] = {
            "linger.ms": 5,
            "message.timeout.ms": _DELIVERY_MS,
            "reconnect.backoff.max.ms": 500,
            "enable.idempotence": idempotent,
            "error_cb": self._on_error,
            "log_level": 0,
        }
        self._producer = Producer(settings | words(server))

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fail(str(error))

    def send(self, where: int, value: bytes, now: float) -> None:
        if where in self._waiting:
            self._waiting[where].append((value, now))
            return
        if not self.idempotent:
            self._waiting[where] = deque()
        self._produce(where, value, now)

    def _produce(self, where: int, value: bytes, now: float) -> None:
        def done(error: KafkaError | None, message: Message) -> None:
            if waiting := self._waiting.get(where):
                self._produce(where, *waiting.popleft())
            else:
                self._waiting.pop(where, None)
            if error is not None:
                self.refused(error)
            else:
                offset = message.offset()
                assert offset is not None, f"{value!r} is acknowledged without an offset"
                self.acked(where, offset, value, now)

        self._producer.produce(self._topic, value, self.key, partition=where, on_delivery=done)

    def serve(self, seconds: float) -> None:
        # poll returns at the first report: its own wait is what paces the writer while there are none
        self._producer.poll(0)
        if self.stopped:
            self._producer.poll(seconds)
        else:
            self._paced.wait(seconds)

    def close(self) -> None:
        self._producer.purge()
        self._producer.poll(0)


class KafkaPythonWriter(Writer):
    """kafka-python, with its defaults for order and repetition."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        topic: str,
        partitions: int,
        changed: threading.Condition,
        **settings: Any,
    ) -> None:
        """`settings`: more of kafka-python's, or others in their place."""
        settings = {
            "bootstrap_servers": bootstrap,
            "linger_ms": 5,
            "delivery_timeout_ms": _DELIVERY_MS,
            "max_block_ms": _DELIVERY_MS,
            "reconnect_backoff_max_ms": 500,
            "enable_idempotence": KafkaProducer.DEFAULT_CONFIG["enable_idempotence"],
            **settings,
        }
        super().__init__(name, partitions, changed, idempotent=bool(settings["enable_idempotence"]))
        self._topic = topic
        self._producer = KafkaProducer(**settings)

    def send(self, where: int, value: bytes, now: float) -> None:
        future = self._producer.send(self._topic, value, partition=where)
        future.add_callback(partial(self._acked, where, value, now))
        future.add_errback(self.refused)

    def _acked(self, where: int, value: bytes, now: float, metadata: Any) -> None:
        self.acked(where, metadata.offset, value, now)

    def serve(self, seconds: float) -> None:
        if self.stopped:
            threading.Event().wait(seconds)
        else:
            self._paced.wait(seconds)

    def known_brokers(self) -> set[str]:
        """The addresses that it knows: when it has a broker, it never asks at those of the bootstrap list again."""
        return {f"{one.host}:{one.port}" for one in self._producer._metadata.brokers()}

    def close(self) -> None:
        with suppress(KafkaTimeoutError):  # what never gets its outcome was noticed before
            self._producer.close(timeout=5)


class Follower(threading.Thread):
    """One consumer by assignment, from the first offset on, through the whole run."""

    def __init__(
        self,
        server: Server,
        topic: str,
        partitions: int,
        changed: threading.Condition,
        fetch_wait_ms: int = _FETCH_WAIT_MS,
    ) -> None:
        super().__init__(name="follower", daemon=True)
        self.records: list[dict[int, bytes]] = [{} for _ in range(partitions)]
        self.next = [0] * partitions
        self.conflicts: list[str] = []
        self.errors: list[str] = []
        self.fatal = ""
        self.total = 0
        self._read_at = 0.0
        self._changed = changed
        self._ended = False
        self._consumer = Consumer(
            {
                "group.id": "none",
                "enable.auto.commit": False,
                # an offset out of range must be told, not jumped over
                "auto.offset.reset": "error",
                # far longer than anything may take: who waits for the next record to see this one is found out
                "fetch.wait.max.ms": fetch_wait_ms,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                **words(server),
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])

    def run(self) -> None:
        try:
            while not self._ended:
                self._take(self._consumer.consume(500, 0.1))
        except KafkaException as error:
            self._fail(str(error))
        finally:
            self._consumer.close()

    def count(self) -> int:
        """Records read."""
        return self.total

    def has(self, partition: int, offset: int) -> bool:
        """Whether this one was read."""
        return self.next[partition] > offset

    def reached(self, _: float) -> float:
        """When the last record was read."""
        return self._read_at

    def finish(self) -> None:
        """Read no more."""
        self._ended = True
        if self.is_alive():
            self.join(30)

    def _take(self, messages: list[Message]) -> None:
        if not messages:
            return
        with self._changed:
            for message in messages:
                error = message.error()
                if error is None:
                    self._one(message)
                elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE) or error.fatal():
                    self.fatal = str(error)
                else:
                    self.errors.append(str(error))
            self._read_at = time.monotonic()
            self._changed.notify_all()

    def _one(self, message: Message) -> None:
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None and offset is not None and value is not None
        if offset < self.next[partition]:
            self.conflicts.append(f"{partition}/{offset} was read after {self.next[partition] - 1}")
        known = self.records[partition].setdefault(offset, value)
        if known != value:
            self.conflicts.append(f"{partition}/{offset} is {known!r} and {value!r}")
        self.next[partition] = offset + 1
        self.total += 1

    def _fail(self, reason: str) -> None:
        with self._changed:
            self.fatal = reason
            self._changed.notify_all()


@dataclass
class Cold:
    """One partition as it is read at the end, by offset."""

    records: dict[int, bytes] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    """Timestamps in ms."""


def read_cold(server: Server, topic: str, last: list[int], seconds: float = 60.0) -> list[Cold]:
    """Everything up to these offsets, by a consumer that starts afresh."""
    found = [Cold() for _ in last]
    open_partitions = {partition for partition, offset in enumerate(last) if offset >= 0}
    consumer = Consumer({"group.id": "none", "enable.auto.commit": False, **words(server)})
    deadline = time.monotonic() + seconds
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in open_partitions])
        while open_partitions and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.2):
                if message.error() is not None:
                    continue
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None and offset is not None and value is not None
                found[partition].records[offset] = value
                found[partition].times[offset] = message.timestamp()[1]
                if offset >= last[partition]:
                    open_partitions.discard(partition)
    finally:
        consumer.close()
    assert not open_partitions, f"partitions {open_partitions} could not be read to their ends {last}"
    return found


def offsets_for_times(server: Server, topic: str, asked: Iterable[list[int]]) -> list[list[int]]:
    """For times of all partitions the offsets that the server finds (−1: none), each asked after the other."""
    consumer = Consumer({"group.id": "none", **words(server)})
    try:
        found = []
        for times in asked:
            wanted = [TopicPartition(topic, partition, time) for partition, time in enumerate(times)]
            found.append([place.offset for place in consumer.offsets_for_times(wanted, 30)])
        return found
    finally:
        consumer.close()
