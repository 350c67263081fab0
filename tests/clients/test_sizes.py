"""Batches and records of every size: what is too large for one place goes into several, and comes back whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.endpoint import Endpoint, unique

LARGE = 64 << 20
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def make(endpoint: Endpoint, **configs: str) -> str:
    topic = unique("sizes")
    new = NewTopic(topic, 1, 1, config={"max.message.bytes": str(LARGE), **configs})
    admin = AdminClient({"bootstrap.servers": endpoint.kafka})
    admin.create_topics([new])[topic].result(30)
    return topic


def write(endpoint: Endpoint, topic: str, records: list[dict[str, Any]], **config: Any) -> list[int]:
    """Produce all in as few batches as the client can; the offset of each, as its delivery told."""
    producer = Producer(
        {"bootstrap.servers": endpoint.kafka, "enable.idempotence": True, "linger.ms": 20_000,
         "batch.num.messages": 1_000_000, "batch.size": LARGE, "message.max.bytes": LARGE, **config}
    )  # fmt: skip
    offsets = [-1] * len(records)

    def told(number: int) -> Callable[[KafkaError | None, Message], None]:
        def done(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            offsets[number] = message.offset()

        return done

    for number, record in enumerate(records):
        producer.produce(topic, partition=0, on_delivery=told(number), **record)
    assert producer.flush(120) == 0
    return offsets


def read(endpoint: Endpoint, topic: str, count: int, start: int = 0) -> list[Message]:
    consumer = Consumer(
        {"bootstrap.servers": endpoint.kafka, "group.id": unique("g"), "enable.auto.commit": False,
         "fetch.message.max.bytes": LARGE, "fetch.max.bytes": LARGE, "receive.message.max.bytes": LARGE + 512}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, start)])
    found: list[Message] = []
    try:
        while len(found) < count:
            messages = consumer.consume(count - len(found), 30)
            assert messages, f"{len(found)} of {count} came"
            found += messages
    finally:
        consumer.close()
    assert not [message.error() for message in found if message.error()]
    return found


def assert_same(found: list[Message], records: list[dict[str, Any]], base: int) -> None:
    for number, (message, record) in enumerate(zip(found, records, strict=True)):
        assert message.offset() == base + number
        assert message.value() == record.get("value")
        assert message.key() == record.get("key")
        assert message.headers() == record.get("headers")


@pytest.mark.parametrize("codec", CODECS)
def test_one_batch_of_100_000_records(endpoint: Endpoint, codec: str) -> None:
    topic = make(endpoint)
    records = [{"value": b"record %06d" % number, "key": b"%d" % (number % 97)} for number in range(100_000)]
    assert write(endpoint, topic, records, **{"compression.type": codec}) == list(range(100_000))
    assert_same(read(endpoint, topic, 100_000), records, 0)
    assert_same(read(endpoint, topic, 10, 65_432), records[65_432:65_442], 65_432)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_batches_larger_than_an_entry(endpoint: Endpoint, codec: str) -> None:
    topic = make(endpoint)
    records = [{"value": b"%04d" % number * 2500, "headers": [("n", b"%d" % number)]} for number in range(1500)]
    for base in (0, 1500):  # 15 MB each
        offsets = write(endpoint, topic, records, **{"compression.type": codec})
        assert offsets == list(range(base, base + 1500))
    assert_same(read(endpoint, topic, 3000), records * 2, 0)


def test_500_headers(endpoint: Endpoint) -> None:
    headers = [(f"name-{number % 400}", b"\xff%d" % number if number % 3 else None) for number in range(500)]
    records = [{"value": b"%d" % number, "key": b"k", "headers": headers} for number in range(200)]
    topic = make(endpoint)
    assert write(endpoint, topic, records) == list(range(200))
    assert_same(read(endpoint, topic, 200), records, 0)


def test_huge_keys_and_no_keys(endpoint: Endpoint) -> None:
    keys = [None, b"", b"k" * 3_000_000, b"\xff" * 3_000_000, "ü".encode() * 1_000_000, None]
    records: list[dict[str, Any]] = [{"value": b"v", "key": key} for key in keys]
    topic = make(endpoint)
    assert write(endpoint, topic, records) == list(range(len(keys)))
    assert_same(read(endpoint, topic, len(keys)), records, 0)
