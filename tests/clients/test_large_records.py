"""Records above Pulsar's 5 MiB: each client writes and reads them, and native ones get and send them whole."""

from __future__ import annotations

import hashlib
import random
import subprocess
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pulsar
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from kafka import KafkaProducer

from tests.clients.endpoint import Clients, Endpoint, unique
from tests.clients.families.remote import draft_to_json
from tests.clients.model import Delivery, Draft, Record
from tests.support import pulsar_versions
from tests.support.java import COMMAND_TIMEOUT, QUICK_START
from tests.support.programs import require

SIZE = 20 << 20
LARGE = random.Random(20).randbytes(SIZE)
PLAIN = b"the same words again and again; " * (SIZE // 32)
MOST = 64 << 20
TIME = 1_600_000_000_123
DRAFTS = (
    Draft("before", b"before", b"a", (("n", b"1"),)),
    Draft("large", LARGE, "schlüssel".encode(), (("n", b"2"), ("n", None), ("kafka.batch", b"mine")), TIME),
    Draft("after", b"after", b"b"),
    Draft("plain", PLAIN, b"\xff\x00", (("entry.format", b"kafka"),)),
    Draft("last", b"last", None),
)
WRITERS = ("java", "confluent", "kafka-python")
READERS = ("java", "confluent", "kafka-python", "aiokafka", "kcat")
NATIVE = Path(__file__).parent / "java_native" / "Native.java"


def make(endpoint: Endpoint, **configs: str) -> str:
    topic = unique("large")
    new = NewTopic(topic, 1, 1, config={"max.message.bytes": str(MOST), **configs})
    admin = AdminClient({"bootstrap.servers": endpoint.kafka})  # its futures fail when it is collected first
    admin.create_topics([new])[topic].result(30)
    return topic


def write_java(endpoint: Endpoint, clients: Clients, topic: str, drafts: list[Draft], codec: str) -> list[Delivery]:
    config = {"max.request.size": str(MOST), "buffer.memory": str(2 * MOST)}
    records = [draft_to_json(draft) for draft in drafts]
    client: Any = clients["java"]
    return [Delivery(*one) for one in client.call("write", topic=topic, codec=codec, records=records, config=config)]


def write_confluent(endpoint: Endpoint, _: Clients, topic: str, drafts: list[Draft], codec: str) -> list[Delivery]:
    producer = Producer(
        {"bootstrap.servers": endpoint.kafka, "message.max.bytes": MOST, "compression.type": codec, "linger.ms": 500}
    )
    told: list[Delivery] = []

    def done(error: object, message: Any) -> None:
        assert error is None, error
        told.append(Delivery(message.partition(), message.offset()))

    for draft in drafts:
        time_ms = {} if draft.timestamp is None else {"timestamp": draft.timestamp}
        producer.produce(topic, draft.value, draft.key, 0, headers=list(draft.headers), on_delivery=done, **time_ms)
    assert producer.flush(120) == 0
    return sorted(told, key=lambda one: one.offset)


def write_python(endpoint: Endpoint, _: Clients, topic: str, drafts: list[Draft], codec: str) -> list[Delivery]:
    compression = None if codec == "none" else codec
    options = {"max_request_size": MOST, "compression_type": compression}
    with closing(KafkaProducer(bootstrap_servers=endpoint.kafka, **options)) as producer:
        sent = [
            producer.send(topic, draft.value, draft.key, [one for one in draft.headers if one[1] is not None], 0,
                          draft.timestamp)
            for draft in drafts
        ]  # fmt: skip
        found = [future.get(120) for future in sent]
    return [Delivery(one.partition, one.offset) for one in found]


WRITE: dict[str, Callable[[Endpoint, Clients, str, list[Draft], str], list[Delivery]]] = {
    "java": write_java, "confluent": write_confluent, "kafka-python": write_python,
}  # fmt: skip


def written(
    endpoint: Endpoint, clients: Clients, writer: str, codec: str = "none", **configs: str
) -> tuple[str, list[int]]:
    """A topic with all of it, and the offsets that the writer was told."""
    topic = make(endpoint)
    deliveries = WRITE[writer](endpoint, clients, topic, list(DRAFTS), codec)
    return topic, [one.offset for one in deliveries]


def assert_same(writer: str, reader: str, records: list[Record], offsets: list[int]) -> None:
    assert [record.offset for record in records] == offsets, reader
    for record, draft in zip(records, DRAFTS, strict=True):
        headers = (
            draft.headers if writer != "kafka-python" else tuple(one for one in draft.headers if one[1] is not None)
        )
        assert record.value == draft.value, (reader, draft.name)
        assert (record.key, record.headers) == (draft.key, headers), (reader, draft.name)
        if draft.timestamp is not None:
            assert record.timestamp == draft.timestamp, (reader, draft.name)


@pytest.mark.parametrize(
    ("writer", "codec"),
    [
        *((writer, "none") for writer in WRITERS),
        ("java", "zstd"),
        *(pytest.param(writer, "zstd", marks=pytest.mark.soak) for writer in WRITERS if writer != "java"),
    ],
)
def test_each_client_reads_what_each_has_written(endpoint: Endpoint, clients: Clients, writer: str, codec: str) -> None:
    topic, offsets = written(endpoint, clients, writer, codec)
    for reader in READERS:
        assert_same(writer, reader, clients[reader].read(topic, {0: "beginning"}), offsets)
    low, high = clients["confluent"].beginning_and_end(topic, 0)
    assert (low, high) == (0, offsets[-1] + 1)


def test_a_consumer_may_begin_anywhere_and_is_at_the_end_when_all_is_read(endpoint: Endpoint, clients: Clients) -> None:
    topic, offsets = written(endpoint, clients, "java")
    for start in range(offsets[-1] + 1):
        records = clients["confluent"].read(topic, {0: start})
        assert [record.offset for record in records] == [offset for offset in offsets if offset >= start]
    assert clients["java"].offset_for_time(topic, 0, TIME) == offsets[0]


@pytest.mark.parametrize("entry_format", ["pulsar", "kafka"])
def test_native_consumers_get_it_whole(endpoint: Endpoint, clients: Clients, native: Any, entry_format: str) -> None:
    topic = make(endpoint, **{"entry.format": entry_format})
    large = [draft for draft in DRAFTS if len(draft.value or b"") == SIZE]
    write_java(endpoint, clients, topic, large, "none")
    full = f"persistent://{endpoint.namespace}/{topic}-partition-0"
    reader = native.create_reader(full, pulsar.MessageId.earliest)
    found = [reader.read_next(60_000) for _ in large]
    reader.close()
    assert [message.data() for message in found] == [draft.value for draft in large]
    assert [message.partition_key() for message in found] == ["schlüssel", "/wA="]
    assert found[0].event_timestamp() == TIME
    types = "Exclusive", "Shared", "Key_Shared"
    told = iter(native_java(endpoint, full, "read", str(len(large)), *types))
    for of_type in types:
        lines = list(islice(told, len(large)))
        assert [line.split(" ")[1:3] for line in lines] == [
            [str(len(draft.value or b"")), hashlib.sha256(draft.value or b"").hexdigest()] for draft in large
        ], of_type
        assert lines[0].startswith("schlüssel ") and f" {TIME} " in lines[0]
        assert "entry.format=kafka" in lines[1]
    assert not list(told)


@pytest.mark.usefixtures("native")
def test_kafka_consumers_get_a_native_one_whole(endpoint: Endpoint, clients: Clients) -> None:
    topic = make(endpoint)
    full = f"persistent://{endpoint.namespace}/{topic}-partition-0"
    clients["confluent"].write(topic, [Draft("before", b"before", b"k")])
    (digest,) = native_java(endpoint, full, "write", str(SIZE), "7")
    clients["confluent"].write(topic, [Draft("after", b"after", b"k")])
    for reader in READERS:
        before, large, after = clients[reader].read(topic, {0: "beginning"})
        assert (before.value, after.value) == (b"before", b"after"), reader
        assert hashlib.sha256(large.value or b"").hexdigest() == digest, reader
        assert (large.key, large.headers) == (b"native", (("size", str(SIZE).encode()),)), reader
        assert before.offset < large.offset < after.offset


def test_an_idempotent_batch_of_large_and_small_records_has_consecutive_offsets(
    endpoint: Endpoint, clients: Clients
) -> None:
    topic = make(endpoint)
    told: list[int] = []
    config = {"message.max.bytes": MOST, "batch.size": MOST, "enable.idempotence": True, "linger.ms": 5000}
    producer = Producer({"bootstrap.servers": endpoint.kafka, **config})
    values = [b"small", LARGE[: 6 << 20], b"small", LARGE[: 12 << 20], b"small"]
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda _, message: told.append(message.offset()))
    assert producer.flush(120) == 0
    records = clients["confluent"].read(topic, {0: "beginning"})
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == sorted(told)


def test_configs_tell_what_is_taken(endpoint: Endpoint) -> None:
    topic = make(endpoint)
    admin = AdminClient({"bootstrap.servers": endpoint.kafka})
    found = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)])
    (configs,) = [one.result(30) for one in found.values()]
    assert configs["max.message.bytes"].value == str(MOST)
    producer = KafkaProducer(bootstrap_servers=endpoint.kafka, max_request_size=2 * MOST)
    with closing(producer), pytest.raises(Exception, match="MessageSizeTooLarge"):
        producer.send(topic, bytes(MOST)).get(60)


def native_java(endpoint: Endpoint, *arguments: str) -> list[str]:
    """What Pulsar's own Java client prints."""
    libraries = pulsar_versions.chosen_jars()[0].parent
    command = [require("java"), "-Xmx512m", *QUICK_START, "-cp", f"{libraries}/*", str(NATIVE), endpoint.pulsar]
    done = subprocess.run([*command, *arguments], capture_output=True, timeout=COMMAND_TIMEOUT)
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    return [line for line in done.stdout.decode().splitlines() if not line.startswith(("SLF4J", "20"))]
