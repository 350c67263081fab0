"""Many records through librdkafka: each comes back once, in order, at the offset its producer was told."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pulsar
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.endpoint import Clients, Endpoint, unique
from tests.clients.model import attempts

PARTITIONS = 4
MIXED = 100_000
NATIVE_EVERY = 4  # one native record for so many of Kafka's
NUMBER = struct.Struct(">cq")
KAFKA, NATIVE = b"K", b"P"
PADDING = bytes(100 - NUMBER.size)
UNKNOWN = -1


class Writers:
    """How many records each writer sent and at which offset each of Kafka's was acknowledged."""

    def __init__(self, count: int) -> None:
        self.acknowledged = array("q", [UNKNOWN]) * count
        self.failed: list[str] = []

    def on_delivery(self, error: Any, message: Any) -> None:
        """Keep the offset that the produce answer told; called for each record."""
        if error is not None:
            self.failed.append(str(error))
            return
        _, number = NUMBER.unpack_from(message.value())
        self.acknowledged[number] = message.offset()


@contextmanager
def kafka_producer(endpoint: Endpoint, queue: int = 200_000) -> Iterator[Any]:
    producer = Producer(
        {
            "bootstrap.servers": endpoint.kafka,
            "linger.ms": 20,
            "queue.buffering.max.messages": queue,
            "enable.idempotence": True,
        }
    )
    yield producer
    assert producer.flush(120) == 0


def produce(producer: Any, topic: str, number: int, on_delivery: Callable[[Any, Any], None]) -> None:
    """Produce one record; where the queue is full, serve delivery reports until there is room."""
    value = NUMBER.pack(KAFKA, number) + PADDING
    for left in attempts("producing"):
        try:
            producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=on_delivery)
            return
        except BufferError:
            producer.poll(min(left, 1))


class Checker:
    """Takes records in the order of fetching and checks each of them; memory is two flags for a record."""

    def __init__(self, acknowledged: array[int], native: int) -> None:
        self._acknowledged = acknowledged
        self.following = [0] * PARTITIONS
        # each writer's next record in each partition: it wrote number n to partition n % PARTITIONS, in order
        self._next = {
            KAFKA: list(range(PARTITIONS)),
            NATIVE: list(range(PARTITIONS)),
        }
        self._left = len(acknowledged) + native
        self._last_writer = [KAFKA] * PARTITIONS
        self.changes = 0

    @property
    def done(self) -> bool:
        return self._left == 0

    def take(self, message: Any) -> None:
        """Check one record: the next offset, the next number of its writer, the offset its producer was told."""
        partition, offset = message.partition(), message.offset()
        value = message.value()
        writer, number = NUMBER.unpack_from(value)
        assert offset == self.following[partition], f"partition {partition}: {offset} is not the next offset"
        self.following[partition] = offset + 1
        following = self._next[writer]
        assert number == following[partition], f"partition {partition}: {writer!r} {number} is not the next record"
        following[partition] = number + PARTITIONS
        if writer == KAFKA:
            told = self._acknowledged[number]
            assert told == offset, f"record {number} was acknowledged at {told} and fetched at {offset}"
            assert len(value) == 100
        if writer != self._last_writer[partition]:
            self._last_writer[partition] = writer
            self.changes += 1
        self._left -= 1

    def check_ends(self, counts: dict[bytes, int]) -> None:
        """Check that every record of every writer came: the numbers follow each other up to the last."""
        for writer, following in self._next.items():
            wanted = [n + (counts[writer] - n + PARTITIONS - 1) // PARTITIONS * PARTITIONS for n in range(PARTITIONS)]
            assert following == wanted, writer


def consume(endpoint: Endpoint, topic: str, checker: Checker) -> None:
    """Read all partitions from offset 0 by assignment until every expected record came, then up to the ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": endpoint.kafka,
            "group.id": "unused",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 32_768,
        }
    )
    try:
        partitions = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
        consumer.assign(partitions)
        take = checker.take
        for left in attempts(f"reading {topic}"):
            for message in consumer.consume(20_000, timeout=min(left, 1)):
                assert message.error() is None, message.error()
                take(message)
            if checker.done:
                break
        ends = [consumer.get_watermark_offsets(partition, timeout=30) for partition in partitions]
        assert sum(high for _, high in ends) == sum(checker.following), "there is more than was written"
        assert all(low == 0 for low, _ in ends)
    finally:
        consumer.close()


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_many_records(endpoint: Endpoint, clients: Clients, count: int) -> None:
    topic = unique("many")
    clients["confluent"].create_topic(topic, PARTITIONS)
    writers = Writers(count)
    with kafka_producer(endpoint) as producer:
        for number in range(count):
            produce(producer, topic, number, writers.on_delivery)
    assert writers.failed == []
    checker = Checker(writers.acknowledged, native=0)
    consume(endpoint, topic, checker)
    checker.check_ends({KAFKA: count, NATIVE: 0})


def test_offsets_are_true_while_a_native_producer_writes(endpoint: Endpoint, clients: Clients, native: Any) -> None:
    topic = unique("mixed")
    clients["confluent"].create_topic(topic, PARTITIONS)
    base = f"persistent://{endpoint.namespace}/{topic}"
    natives = [
        native.create_producer(
            f"{base}-partition-{partition}", batching_enabled=True, block_if_queue_full=True, max_pending_messages=5000
        )
        for partition in range(PARTITIONS)
    ]
    writers, refused = Writers(MIXED), list[str]()

    def on_native(result: Any, _: Any) -> None:
        if result != pulsar.Result.Ok:
            refused.append(str(result))

    # a short queue keeps the two writers in step from the first record to the last
    with kafka_producer(endpoint, queue=2_000) as producer:
        for number in range(MIXED):
            produce(producer, topic, number, writers.on_delivery)
            if number == PARTITIONS:
                assert producer.flush(60) == 0
            if number % NATIVE_EVERY == 0:
                mine = number // NATIVE_EVERY
                natives[mine % PARTITIONS].send_async(NUMBER.pack(NATIVE, mine), on_native)
            if number % 500 == 0:
                producer.poll(0)
    for each in natives:
        each.flush()
        each.close()
    assert writers.failed == []
    assert refused == []
    sent = MIXED // NATIVE_EVERY
    checker = Checker(writers.acknowledged, native=sent)
    consume(endpoint, topic, checker)
    checker.check_ends({KAFKA: MIXED, NATIVE: sent})
    assert checker.changes > 50, "the two writers did not write at the same time"
