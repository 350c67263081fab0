"""What is read straight from Pulsar is what Kafka clients read through the bridge, offsets included."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import pulsar
import pytest
from confluent_kafka import Producer

from bridge.pipeline.errors import Endpoint, Usage
from bridge.pipeline.pulsar import reader
from bridge.pipeline.pulsar.connection import Address, TopicNotFound, address
from bridge.pipeline.pulsar.entries import Row
from tests.clients import drafts
from tests.clients.families.confluent import Confluent
from tests.clients.model import CODECS, Draft
from tests.support.bridges import BridgeThread
from tests.support.pulsar import PulsarAddress

BEYOND = 1 << 40
CHUNKED = random.Random(11).randbytes(11_000_000)  # above Pulsar's 5 MiB: three chunks


@pytest.fixture
def kafka(bridge: BridgeThread) -> Iterator[Confluent]:
    client = Confluent(bridge.kafka)
    yield client
    client.close()


@pytest.fixture
def native(bridge: BridgeThread) -> Iterator[Any]:
    client = pulsar.Client(bridge.pulsar, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


@pytest.fixture
def at(bridge: BridgeThread) -> Address:
    return address(f"{bridge.pulsar}/{bridge.namespace}")


@pytest.fixture
def topic() -> str:
    return f"witness-{secrets.token_hex(5)}"


def natively(at: Address, topic: str) -> dict[int, list[Row]]:
    return {number: list(reader.read(at, name, 0, BEYOND)) for number, name in enumerate(reader.topics_of(at, topic))}


def through_the_bridge(kafka: Confluent, topic: str, partitions: int) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {number: [] for number in range(partitions)}
    for record in kafka.read(topic, dict.fromkeys(found, "beginning")):
        row = Row(record.offset, record.timestamp, record.key, record.value, list(record.headers))
        found[record.partition].append(row)
    return found


def test_every_variety_that_a_kafka_client_writes(kafka: Confluent, at: Address, topic: str) -> None:
    kafka.create_topic(topic, drafts.PARTITIONS)
    possible = [draft for draft in drafts.all_fields() if kafka.can_write(draft)]
    told = kafka.write(topic, possible)
    found = natively(at, topic)
    assert found == through_the_bridge(kafka, topic, drafts.PARTITIONS)
    assert sum(map(len, found.values())) == len(possible)
    for draft, delivery in zip(possible, told, strict=True):
        row = found[delivery.partition][delivery.offset]
        assert (row.offset, row.key, row.value, tuple(row.headers)) == (
            delivery.offset, draft.key, draft.value, draft.headers,
        )  # fmt: skip


def test_every_codec_of_kafka(kafka: Confluent, at: Address, topic: str) -> None:
    kafka.create_topic(topic, len(CODECS))
    for codec in CODECS:
        kafka.write(topic, drafts.compressible(codec), codec)
    found = natively(at, topic)
    assert found == through_the_bridge(kafka, topic, len(CODECS))
    assert [len(rows) for rows in found.values()] == [40] * len(CODECS)


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"])
@pytest.mark.parametrize("batched", [True, False])
def test_what_native_producers_write(
    kafka: Confluent, native: Any, at: Address, topic: str, compression: str, batched: bool
) -> None:
    producer = native.create_producer(
        at.topic(topic), compression_type=getattr(pulsar.CompressionType, compression), batching_enabled=batched
    )
    for each in range(30):
        key = None if each % 3 == 0 else f"schlüssel-{each}"
        time = 1_600_000_000_000 + each if each % 2 else None
        producer.send_async(b"value " * each, _nothing, {"a": str(each), "b": ""}, key, event_timestamp=time)
    producer.send_async(None, _nothing, partition_key="gone")
    producer.flush()
    found = natively(at, topic)
    assert found == through_the_bridge(kafka, topic, 1)
    assert len(found[0]) == 31


def test_chunked_messages_stand_at_their_last_chunk(kafka: Confluent, native: Any, at: Address, topic: str) -> None:
    producer = native.create_producer(at.topic(topic), chunking_enabled=True, batching_enabled=False)
    for value in (b"before", CHUNKED, b"after"):
        producer.send(value)
    found = natively(at, topic)
    assert found == through_the_bridge(kafka, topic, 1)
    assert [(row.offset, row.value) for row in found[0]] == [(0, b"before"), (3, CHUNKED), (4, b"after")]
    assert [row.value for row in reader.read(at, at.topic(topic), 3, 4)] == [CHUNKED]


def test_a_large_record_of_kafka_s_is_read_as_it_was_written(kafka: Confluent, at: Address, topic: str) -> None:
    kafka.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": kafka._config["bootstrap.servers"], "message.max.bytes": 32 << 20})
    headers = [("n", b"\xff"), ("kafka.batch", b"mine"), ("entry.format", b"kafka"), ("n", None)]
    producer.produce(topic, CHUNKED, b"\xff", 0, headers=headers, timestamp=1_600_000_000_000)
    assert producer.flush(60) == 0
    found = natively(at, topic)
    assert found == through_the_bridge(kafka, topic, 1)
    assert [(row.timestamp, row.key, row.value, row.headers) for row in found[0]] == [
        (1_600_000_000_000, b"\xff", CHUNKED, headers)
    ]


def test_a_range_is_read_from_within_a_batch_to_within_another(kafka: Confluent, at: Address, topic: str) -> None:
    write_batches(kafka, topic, [10, 10, 10])
    (name,) = reader.topics_of(at, topic)
    assert [row.offset for row in reader.read(at, name, 7, 23)] == list(range(7, 23))
    assert list(reader.read(at, name, 7, 7)) == []
    assert reader.ends(at, name) == (0, 30)


def test_a_topic_that_moves_while_it_is_read_gives_each_record_once(
    pulsar: PulsarAddress, kafka: Confluent, at: Address, topic: str
) -> None:
    write_batches(kafka, topic, [50] * 40)
    (name,) = reader.topics_of(at, topic)
    offsets = []
    for row in reader.read(at, name, 0, BEYOND):
        offsets.append(row.offset)
        if row.offset % 500 == 250:
            pulsar.admin("PUT", f"{name.replace('://', '/')}/unload")
    assert offsets == list(range(2000))


def test_an_empty_topic_has_nothing_to_read(kafka: Confluent, at: Address, topic: str) -> None:
    kafka.create_topic(topic, 2)
    names = reader.topics_of(at, topic)
    assert [reader.ends(at, name) for name in names] == [(0, 0), (0, 0)]
    assert natively(at, topic) == {0: [], 1: []}


def test_a_topic_that_is_not_there_is_named_so(at: Address, topic: str) -> None:
    with pytest.raises(TopicNotFound):
        reader.topics_of(at, topic)


@pytest.mark.parametrize("url", ["127.0.0.1:6650", "http://h:1", "pulsar://h:1/only", "pulsar://", "pulsar://h:no"])
def test_what_is_no_service_url_is_refused(url: str) -> None:
    with pytest.raises(Usage):
        address(url)


def test_a_server_that_speaks_another_protocol_is_told(bridge: BridgeThread) -> None:
    with pytest.raises(Endpoint):
        reader.topics_of(address(f"pulsar://{bridge.kafka}"), "anything")


def write_batches(kafka: Confluent, topic: str, sizes: Sequence[int]) -> None:
    kafka.create_topic(topic, 1)
    for size in sizes:
        kafka.write(topic, [Draft("", b"%d" % each, b"k") for each in range(size)])


def _nothing(result: Any, position: Any) -> None:
    assert result == pulsar.Result.Ok
