"""Native Pulsar clients and Kafka clients read each other's records in the same topics."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import time_ns
from typing import Any

import pulsar
import pytest

from tests.clients.endpoint import Clients, Endpoint, Written, unique
from tests.clients.model import Delivery, Draft, Record
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import until

READERS = ("kafka-python", "confluent", "aiokafka", "kcat", "java")
COMPRESSIONS = ("LZ4", "ZLib", "ZSTD", "SNAPPY")
EVENT_TIME = 1_600_000_000_123
CHUNKED = random.Random(11).randbytes(11_000_000)  # above Pulsar's 5 MiB: three chunks


@dataclass(frozen=True, slots=True)
class Native:
    """What a native producer sends."""

    value: bytes | None
    key: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    event_time: int | None = None


VARIETIES = (
    Native(b"value", "key"),
    Native(b"no key"),
    Native("größer".encode(), "schlüssel 🔑", {"überschrift": "größe"}),
    Native(b"", "key"),
    Native(b""),
    Native(None, "gone"),
    Native(None, "gone", {"why": "deleted"}, EVENT_TIME),
    Native(bytes(range(256)), "key", {"a": "1", "b": "", "c": "3"}),
    Native(b"at a time", "key", {}, EVENT_TIME),
    Native(random.Random(500).randbytes(500_000), "big"),
    Native(b"the same words again and again; " * 100, "key"),
)


def full_name(endpoint: Endpoint, topic: str) -> str:
    return f"persistent://{endpoint.namespace}/{topic}"


@contextmanager
def producing(native: Any, topic: str, **options: Any) -> Iterator[Any]:
    producer = native.create_producer(topic, block_if_queue_full=True, **options)
    try:
        yield producer
    finally:
        producer.close()


def send(native: Any, topic: str, batch: Sequence[Native], **options: Any) -> None:
    """Send in order, all before the first receipt is awaited, so that batching has something to batch."""
    results: list[Any] = []
    with producing(native, topic, **options) as producer:
        for each in batch:
            producer.send_async(
                each.value,
                lambda result, _: results.append(result),
                partition_key=each.key,
                properties=dict(each.properties),
                event_timestamp=each.event_time,
            )
        producer.flush()
    assert results == [pulsar.Result.Ok] * len(batch)


def assert_read(batch: Sequence[Native], records: Sequence[Record], started: int, ended: int) -> None:
    """Compare what Kafka clients read with what was sent; offsets are dense and in the order of sending."""
    assert [record.offset for record in records] == list(range(len(batch)))
    for number, (each, record) in enumerate(zip(batch, records, strict=True)):
        key = None if each.key is None else each.key.encode()
        assert (number, record.key) == (number, key)
        assert record.value == each.value, number
        # Pulsar's client keeps properties sorted by name
        assert sorted(record.headers) == sorted((n, v.encode()) for n, v in each.properties.items()), number
        if each.event_time is None:
            assert started <= record.timestamp <= ended, number
        else:
            assert record.timestamp == each.event_time, number


@pytest.fixture(scope="module")
def native_written(endpoint: Endpoint, clients: Clients, native: Any) -> dict[str, tuple[str, int, int]]:
    """Topics of one partition that native producers filled, each in another way, with the time when they did."""
    ways: dict[str, dict[str, Any]] = {
        "single": {"batching_enabled": False},
        "batched": {"batching_enabled": True, "batching_max_publish_delay_ms": 100},
        "batched-by-key": {"batching_enabled": True, "batching_type": pulsar.BatchingType.KeyBased},
    }
    for name in COMPRESSIONS:
        compression = getattr(pulsar.CompressionType, name)
        ways[f"single-{name}"] = {"batching_enabled": False, "compression_type": compression}
        ways[f"batched-{name}"] = {"batching_enabled": True, "compression_type": compression}
    written: dict[str, tuple[str, int, int]] = {}
    for way, options in ways.items():
        topic = unique(f"native-{way}")
        clients["confluent"].create_topic(topic, 1)
        started = time_ns() // 1_000_000
        # batches by key come out grouped: all of one key keep the order that the test looks at
        batch = [each for each in VARIETIES if each.key == "key"] if way == "batched-by-key" else VARIETIES
        send(native, full_name(endpoint, topic) + "-partition-0", batch, **options)
        written[way] = (topic, started, time_ns() // 1_000_000)
    return written


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("way", ["single", "batched", "batched-by-key"])
def test_kafka_reads_what_a_native_producer_wrote(
    clients: Clients, native_written: dict[str, tuple[str, int, int]], way: str, reader: str
) -> None:
    topic, started, ended = native_written[way]
    batch = [each for each in VARIETIES if each.key == "key"] if way == "batched-by-key" else VARIETIES
    assert_read(batch, clients[reader].read(topic, {0: "beginning"}), started, ended)


@pytest.mark.parametrize("reader", ["confluent", "java"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("way", ["single", "batched"])
def test_kafka_reads_each_native_compression(
    clients: Clients, native_written: dict[str, tuple[str, int, int]], way: str, compression: str, reader: str
) -> None:
    topic, started, ended = native_written[f"{way}-{compression}"]
    assert_read(VARIETIES, clients[reader].read(topic, {0: "beginning"}), started, ended)


def test_kafka_reads_from_the_middle_of_a_native_batch(
    clients: Clients, native_written: dict[str, tuple[str, int, int]]
) -> None:
    topic, _, _ = native_written["batched-ZSTD"]
    for reader in READERS:
        records = clients[reader].read(topic, {0: 3})
        assert [record.offset for record in records] == list(range(3, len(VARIETIES))), reader
        assert [record.value for record in records] == [each.value for each in VARIETIES[3:]], reader


def test_kafka_reads_a_chunked_message(endpoint: Endpoint, clients: Clients, native: Any) -> None:
    topic = unique("native-chunked")
    clients["confluent"].create_topic(topic, 1)
    with producing(native, full_name(endpoint, topic) + "-partition-0", chunking_enabled=True) as producer:
        producer.send(b"before")
        producer.send(CHUNKED, partition_key="big", properties={"size": "11 MB"}, event_timestamp=EVENT_TIME)
        producer.send(b"after")
    for reader in ("confluent", "kafka-python", "java"):
        before, chunked, after = clients[reader].read(topic, {0: "beginning"})
        assert (before.value, before.offset) == (b"before", 0)
        assert chunked.value == CHUNKED, reader
        assert (chunked.key, chunked.headers) == (b"big", (("size", b"11 MB"),))
        assert chunked.timestamp == EVENT_TIME
        assert after.value == b"after"
        assert before.offset < chunked.offset < after.offset


class Order(pulsar.schema.Record):  # type: ignore[misc]
    """A value with a schema."""

    name = pulsar.schema.String()


def test_kafka_reads_the_bytes_of_a_value_with_a_schema(endpoint: Endpoint, clients: Clients, native: Any) -> None:
    text, document = unique("native-string"), unique("native-json")
    for topic in (text, document):
        clients["confluent"].create_topic(topic, 1)
    with producing(native, full_name(endpoint, text) + "-partition-0", schema=pulsar.schema.StringSchema()) as producer:
        producer.send("größer", partition_key="k")
    schema = pulsar.schema.JsonSchema(Order)
    with producing(native, full_name(endpoint, document) + "-partition-0", schema=schema) as producer:
        producer.send(Order(name="n"))
    (record,) = clients["confluent"].read(text, {0: "beginning"})
    assert (record.key, record.value) == (b"k", "größer".encode())
    (record,) = clients["confluent"].read(document, {0: "beginning"})
    assert record.value == schema.encode(Order(name="n"))


def test_a_native_producer_spreads_over_the_partitions(endpoint: Endpoint, clients: Clients, native: Any) -> None:
    topic, count = unique("native-spread"), 60
    clients["confluent"].create_topic(topic, 3)
    batch = [Native(b"%d" % n, f"key-{n % 10}") for n in range(count)]
    send(native, full_name(endpoint, topic), batch, batching_enabled=True)
    records = clients["kafka-python"].read(topic, dict.fromkeys(range(3), "beginning"))
    assert sorted(int(record.value or b"") for record in records) == list(range(count))
    by_key: dict[bytes | None, list[Record]] = {}
    for record in records:
        by_key.setdefault(record.key, []).append(record)
    for same in by_key.values():
        assert len({record.partition for record in same}) == 1
        assert [int(record.value or b"") for record in same] == sorted(int(record.value or b"") for record in same)


def test_a_topic_that_pulsar_did_not_partition_is_shared(endpoint: Endpoint, clients: Clients, native: Any) -> None:
    topic = unique("native-plain")
    send(native, full_name(endpoint, topic), [Native(b"from pulsar", "k")], batching_enabled=False)
    for family in READERS:
        client = clients[family]
        assert topic in client.topics(), family
        assert client.partitions(topic) == 1, family
        assert client.read(topic, {0: 0})[0].value == b"from pulsar", family
    (delivery,) = clients["java"].write(topic, [Draft("back", b"from kafka", b"k")])
    assert (delivery.partition, delivery.offset) == (0, 1)
    assert [message.data() for message in read_natively(native, full_name(endpoint, topic))] == [
        b"from pulsar",
        b"from kafka",
    ]


def test_a_topic_deleted_natively_leaves_no_committed_offset(endpoint: Endpoint, clients: Clients, native: Any) -> None:
    """Else a group would begin to read the topic of the same name that is made later somewhere in its midst."""
    topic, group = unique("native-gone"), unique("group")
    full = full_name(endpoint, topic)
    send(native, full, [Native(b"%d" % number, "k") for number in range(50)], batching_enabled=False)
    client = clients.groups("confluent")
    client.commit_alone(group, topic, {0: 50})
    assert client.committed(group, topic, [0]) == {0: 50}
    PulsarAddress(endpoint.pulsar, endpoint.admin).admin("DELETE", f"{full.replace('://', '/')}?force=true")
    asyncio.run(until(lambda: client.group_offsets(group) == {}))
    send(native, full, [Native(b"%d" % number, "k") for number in range(20)], batching_enabled=False)
    assert client.committed(group, topic, [0]) == {0: None}


def read_natively(native: Any, topic: str) -> list[Any]:
    """Read a topic or a partition from its start to its present end with a native reader."""
    reader = native.create_reader(topic, pulsar.MessageId.earliest)
    messages = []
    try:
        while reader.has_message_available():
            messages.append(reader.read_next(timeout_millis=30_000))
    finally:
        reader.close()
    return messages


def by_partition(written: Written) -> dict[int, list[tuple[Draft, Delivery]]]:
    partitions: dict[int, list[tuple[Draft, Delivery]]] = {}
    for draft, delivery in zip(written.drafts, written.deliveries, strict=True):
        partitions.setdefault(delivery.partition, []).append((draft, delivery))
    return partitions


@pytest.mark.parametrize("writer", READERS)
def test_a_native_reader_reads_what_kafka_wrote(endpoint: Endpoint, clients: Clients, native: Any, writer: str) -> None:
    written = clients.all_fields(writer)
    for partition, expected in by_partition(written).items():
        messages = read_natively(native, f"{full_name(endpoint, written.topic)}-partition-{partition}")
        assert len(messages) == len(expected)
        for (draft, delivery), message in zip(expected, messages, strict=True):
            assert_native(draft, delivery, message)


@pytest.mark.parametrize("writer", ["java", "confluent"])
def test_a_native_reader_reads_what_kafka_compressed(
    endpoint: Endpoint, clients: Clients, native: Any, writer: str
) -> None:
    written = clients.compressed(writer)
    for partition, expected in by_partition(written).items():
        messages = read_natively(native, f"{full_name(endpoint, written.topic)}-partition-{partition}")
        for (draft, delivery), message in zip(expected, messages, strict=True):
            assert_native(draft, delivery, message)


def assert_native(draft: Draft, delivery: Delivery, message: Any) -> None:
    """Compare what a native client sees with what a Kafka client wrote."""
    assert (draft.name, message.has_null_value()) == (draft.name, draft.value is None)
    assert message.data() == (draft.value or b""), draft.name
    assert (draft.name, message.partition_key()) == (draft.name, native_key(draft.key))
    names = [name for name, _ in draft.headers]
    if len(set(names)) == len(names) and all(is_text(value) for _, value in draft.headers):
        text = {name: (value or b"").decode() for name, value in draft.headers}
        assert (draft.name, message.properties()) == (draft.name, text)
    else:
        assert set(names) <= set(message.properties()), draft.name
    if draft.timestamp is not None:
        assert (draft.name, message.event_timestamp()) == (draft.name, draft.timestamp)
    elif delivery.timestamp is not None:
        assert (draft.name, message.event_timestamp()) == (draft.name, delivery.timestamp)


def is_text(value: bytes | None) -> bool:
    try:
        return value is not None and bool(value.decode())
    except UnicodeDecodeError:
        return False


def native_key(key: bytes | None) -> str:
    """Text stays text; what is not text is base64 (with a flag that this client does not show)."""
    if key is None:
        return ""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return base64.b64encode(key).decode()


def test_a_native_subscription_gets_what_kafka_writes(endpoint: Endpoint, clients: Clients, native: Any) -> None:
    topic, count = unique("native-subscription"), 30
    clients["kafka-python"].create_topic(topic, 3)
    consumer = native.subscribe(full_name(endpoint, topic), "test")
    try:
        batch = [Draft(str(n), b"%d" % n, b"key", partition=n % 3) for n in range(count)]
        clients["kafka-python"].write(topic, batch)
        received = []
        for _ in range(count):
            message = consumer.receive(timeout_millis=30_000)
            consumer.acknowledge(message)
            received.append(int(message.data()))
        assert sorted(received) == list(range(count))
    finally:
        consumer.close()
