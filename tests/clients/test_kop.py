"""Topics that Kafka-on-Pulsar left behind: every client reads them, and new records go on in their format.

The entries are put into Pulsar byte for byte as KoP put them there: format `kafka` (`mixed_kafka` has the same mark),
without a checksum of Pulsar's; format `pulsar` with base64 keys and raw ones beside them; markers of transactions.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import crc32c
import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from bridge import codec
from bridge.codec import Rebuild
from bridge.pulsar import Admin, PulsarClient, protocol
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.producer import send
from bridge.pulsar.types import Position, Receipt
from bridge.storage import entries
from bridge.telemetry.metrics import Metrics
from tests.clients.endpoint import FAMILIES, Clients, Endpoint, unique
from tests.clients.model import Draft, Headers
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress

THEN = 1_650_000_000_000
GZIP, LZ4 = 1, 3


@dataclass(frozen=True)
class Kept:
    """A record as a KoP topic holds it, and as Kafka clients have to read it."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


@dataclass(frozen=True)
class Left:
    """An entry as KoP wrote it: its metadata and payload, with the records in it; none in a marker."""

    metadata: pb.MessageMetadata
    payload: bytes
    records: tuple[Kept, ...]
    checksum: bool = False


def some(first: int, count: int, *, headers: bool = True) -> tuple[Kept, ...]:
    return tuple(
        Kept(b"key-%d" % at, b"value %d" % at, THEN + at, (("n", b"%d" % at), ("n", b"\xff")) if headers else ())
        for at in range(first, first + count)
    )


def verbatim(payload: bytes, *records: Kept, count: int | None = None) -> Left:
    metadata = pb.MessageMetadata(publish_time=THEN + 99, num_messages_in_batch=count or len(records))
    metadata.properties.add(key="entry.format", value="kafka")
    return Left(metadata, payload, records)


def batch_v2(records: Iterable[Kept], compression: int = 0, *, transactional: bool = False) -> bytes:
    builder = DefaultRecordBatchBuilder(2, compression, transactional, 9 if transactional else -1, 0, 0, 1 << 20)
    for at, one in enumerate(records):
        builder.append(at, one.timestamp, one.key, one.value, list(one.headers))
    return bytes(builder.build())


def control() -> bytes:
    """What ends a transaction: a control batch with a COMMIT."""
    record = codec.Record(0, THEN, b"\0\0\0\1", bytes(6), ())
    out = bytearray(codec.build_batch([record], Rebuild(0, 1, 0, producer=(9, 0, -1))))
    out[21:23] = (0x30).to_bytes(2, "big")
    out[17:21] = int(crc32c.crc32c(bytes(out[21:]))).to_bytes(4, "big")
    return bytes(out)


def message_set(magic: int, records: Iterable[Kept], compression: int = 0) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, compression, 1 << 20)
    for at, one in enumerate(records):
        builder.append(at, one.timestamp, one.key, one.value)
    return bytes(builder.build())


def messages(*records: Kept, event_times: bool = True) -> Left:
    """Format `pulsar`: a batch of Pulsar's, the key twice, its headers as text, timestamp 0 as none."""
    payload = b""
    for number, one in enumerate(records):
        single = pb.SingleMessageMetadata(payload_size=len(one.value or b""), sequence_id=number)
        if one.key is not None:
            single.partition_key, single.partition_key_b64_encoded = base64.b64encode(one.key).decode(), True
            single.ordering_key = one.key
        if one.value is None:
            single.null_value = True
        if event_times:
            single.event_time = one.timestamp
        for name, text in one.headers:
            single.properties.add(key=name, value=(text or b"").decode())
        head = single.SerializeToString()
        payload += len(head).to_bytes(4, "big") + head + (one.value or b"")
    metadata = pb.MessageMetadata(publish_time=max(records[0].timestamp, 0), num_messages_in_batch=len(records))
    if records[0].key is not None:
        metadata.partition_key = base64.b64encode(records[0].key).decode()
        metadata.partition_key_b64_encoded, metadata.ordering_key = True, records[0].key
    return Left(metadata, payload, records, checksum=True)


def marker() -> Left:
    """The end of a transaction in format `pulsar`; the broker keeps it from all consumers, and it takes an offset."""
    left = messages(Kept(b"\0\0\0\1", bytes(6), THEN))
    left.metadata.marker_type = 21
    return Left(left.metadata, left.payload, (), checksum=True)


def magic_0(*records: Kept) -> tuple[Kept, ...]:
    return tuple(Kept(one.key, one.value, -1) for one in records)


TEXT: Headers = (("a", b"1"), ("b", "größe".encode()), ("a", b""))
LEFT = {
    "kafka": [
        verbatim(batch_v2(some(0, 3)), *some(0, 3)),
        verbatim(batch_v2(some(3, 40), GZIP), *some(3, 40)),
        verbatim(batch_v2(some(43, 40), LZ4), *some(43, 40)),
        verbatim(batch_v2([Kept(None, None, -1)]), Kept(None, None, -1)),
        verbatim(batch_v2(some(84, 2)) + batch_v2(some(86, 3)), *some(84, 5)),
        verbatim(batch_v2(some(89, 2), transactional=True), *some(89, 2)),
        verbatim(control(), count=1),
        verbatim(batch_v2(some(92, 1)), *some(92, 1)),
    ],
    "old": [
        verbatim(message_set(0, some(0, 2)), *magic_0(*some(0, 2))),
        verbatim(message_set(1, some(2, 3)), *some(2, 3, headers=False)),
        verbatim(message_set(1, some(5, 30), GZIP), *some(5, 30, headers=False)),
        verbatim(batch_v2(some(35, 2)), *some(35, 2)),
    ],
    "pulsar": [
        messages(Kept(b"text", b"value", THEN, TEXT), Kept(b"\xff\0", b"\0\xff", THEN + 1), Kept(None, b"v", THEN + 2)),
        messages(Kept(b"", b"", THEN + 3), Kept(b"gone", None, THEN + 4, TEXT), Kept(None, None, THEN + 5)),
        messages(Kept(b"k", b"the time of the entry", THEN + 6), event_times=False),
        messages(Kept(None, b"first", THEN + 7), Kept(b"k", b"last", THEN + 1)),
    ],
    "markers": [
        messages(*some(0, 2, headers=False)), marker(), messages(*some(3, 2, headers=False)), marker(), marker(),
    ],
}  # fmt: skip


def unchecked(metadata: bytes, payload: Any) -> bytes:
    """What stands before the payload where no checksum does."""
    return len(metadata).to_bytes(4, "big") + metadata


@dataclass(frozen=True)
class Kop:
    """The topics that KoP left, by what is in them."""

    topics: dict[str, str]
    ids: dict[str, uuid.UUID]


@pytest.fixture(scope="module")
def kop(pulsar: PulsarAddress, endpoint: Endpoint) -> Iterator[Kop]:
    made = Kop({kind: unique(f"kop-{kind}") for kind in LEFT}, {kind: uuid.uuid4() for kind in LEFT})
    with pytest.MonkeyPatch.context() as patched:
        asyncio.run(leave(pulsar, endpoint, made, patched))
    yield made


async def leave(pulsar: PulsarAddress, endpoint: Endpoint, made: Kop, patched: pytest.MonkeyPatch) -> None:
    settings = settings_for(pulsar, endpoint.namespace).pulsar
    admin, client = Admin(settings), PulsarClient(settings, Metrics().pulsar)
    await admin.start()
    await client.start()
    usual = protocol.entry_head
    try:
        for kind, left in LEFT.items():
            name = f"persistent://{endpoint.namespace}/{made.topics[kind]}"
            entry_format = "pulsar" if kind in ("pulsar", "markers") else "mixed_kafka"
            properties = {"kafkaTopicUUID": str(made.ids[kind]), "kafkaEntryFormat": entry_format}
            await admin.create_partitioned(name, 1, properties)
            writer = client.producer(f"{name}-partition-0")
            await writer.opened()
            for entry in left:
                patched.setattr(send, "entry_head", usual if entry.checksum else unchecked)
                sent = writer.send(pb.MessageMetadata.FromString(entry.metadata.SerializePartialToString()),
                                   entry.payload, entry.metadata.num_messages_in_batch)  # fmt: skip
                assert isinstance(await sent, Receipt)
            await writer.close()
    finally:
        await client.close()
        await admin.close()


def offsets_of(kind: str) -> list[tuple[int, Kept]]:
    found = []
    offset = 0
    for left in LEFT[kind]:
        found += [(offset + at, one) for at, one in enumerate(left.records)]
        offset += left.metadata.num_messages_in_batch
    return found


@pytest.mark.parametrize("reader", FAMILIES)
@pytest.mark.parametrize("kind", LEFT)
def test_every_client_reads_what_kop_wrote(kop: Kop, clients: Clients, kind: str, reader: str) -> None:
    records = clients[reader].read(kop.topics[kind], {0: "beginning"})
    found = [(one.offset, Kept(one.key, one.value, one.timestamp, one.headers)) for one in records]
    assert found == offsets_of(kind)


@pytest.mark.parametrize("kind", LEFT)
def test_offsets_go_on_where_kop_s_end(kop: Kop, clients: Clients, kind: str) -> None:
    end = offsets_of(kind)[-1][0] + 1
    assert clients["confluent"].beginning_and_end(kop.topics[kind], 0) == (0, end)


def test_times_are_found(kop: Kop, clients: Clients) -> None:
    for offset in (0, 5, 50, 86):
        assert clients["confluent"].offset_for_time(kop.topics["kafka"], 0, THEN + offset) == offset


@pytest.mark.parametrize("kind", LEFT)
def test_the_id_of_the_topic_and_its_format_stay(kop: Kop, endpoint: Endpoint, kind: str) -> None:
    admin = AdminClient({"bootstrap.servers": endpoint.kafka})
    topic = kop.topics[kind]
    said = admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id
    bits = (said.get_most_significant_bits() << 64 | said.get_least_significant_bits() % (1 << 64)) % (1 << 128)
    assert uuid.UUID(int=bits) == kop.ids[kind]
    (shown,) = [one.result(30) for one in admin.describe_configs([ConfigResource("topic", topic)]).values()]
    assert shown["entry.format"].value == ("pulsar" if kind in ("pulsar", "markers") else "kafka")


async def test_what_is_written_now_goes_on_in_the_topic_s_format(
    pulsar: PulsarAddress, clients: Clients, endpoint: Endpoint
) -> None:
    settings = settings_for(pulsar, endpoint.namespace).pulsar
    admin, client = Admin(settings), PulsarClient(settings, Metrics().pulsar)
    await admin.start()
    await client.start()
    try:
        for kop_s in ("pulsar", "kafka", "mixed_kafka"):
            topic = unique("kop-new")
            name = f"persistent://{endpoint.namespace}/{topic}"
            await admin.create_partitioned(name, 1, {"kafkaEntryFormat": kop_s})
            await asyncio.to_thread(clients["confluent"].write, topic, [Draft("one", b"value", b"key")])
            entry = await client.read_entry(f"{name}-partition-0", Position(0, 0))
            assert entry is not None
            assert entries.is_kafka(entry.metadata) == (kop_s != "pulsar")
    finally:
        await client.close()
        await admin.close()
