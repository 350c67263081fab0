"""Entries as KoP put them into Pulsar, byte for byte.

Format `kafka` (`mixed_kafka` has the same mark) is without a checksum of Pulsar's; format `pulsar` has base64 keys and
raw ones beside them; transactions end by control batches, or by markers of Pulsar's.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import crc32c
import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from bridge import codec
from bridge.codec import Rebuild
from bridge.pulsar import PulsarClient, protocol
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.producer import send
from bridge.pulsar.types import Receipt
from tests.clients.model import Headers

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


def batch_v2(records: Iterable[Kept], compression: int = 0, *, transactional: bool = False, producer: int = 9) -> bytes:
    builder = DefaultRecordBatchBuilder(2, compression, transactional, producer if transactional else -1, 0, 0, 1 << 20)
    for at, one in enumerate(records):
        builder.append(at, one.timestamp, one.key, one.value, list(one.headers))
    return bytes(builder.build())


def control(producer: int = 9, *, committed: bool = True) -> bytes:
    """What ends a transaction: a control batch."""
    record = codec.Record(0, THEN, bytes((0, 0, 0, committed)), bytes(6), ())
    out = bytearray(codec.build_batch([record], Rebuild(0, 1, 0, producer=(producer, 0, -1))))
    out[21:23] = (0x30).to_bytes(2, "big")
    out[17:21] = int(crc32c.crc32c(bytes(out[21:]))).to_bytes(4, "big")
    return bytes(out)


def message_set(magic: int, records: Iterable[Kept], compression: int = 0) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, compression, 1 << 20)
    for at, one in enumerate(records):
        builder.append(at, one.timestamp, one.key, one.value)
    return bytes(builder.build())


def messages(*records: Kept, event_times: bool = True, producer: int | None = None) -> Left:
    """Format `pulsar`: a batch of Pulsar's, the key twice, its headers as text, timestamp 0 as none; of a transaction
    where there is a producer."""
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
    if producer is not None:
        metadata.txnid_most_bits, metadata.txnid_least_bits = producer, 0
    return Left(metadata, payload, records, checksum=True)


def marker(producer: int | None = None, *, committed: bool = True) -> Left:
    """The end of a transaction in format `pulsar`; the broker keeps it from all consumers, and it takes an offset."""
    left = messages(Kept(bytes((0, 0, 0, committed)), bytes(6), THEN), producer=producer)
    left.metadata.marker_type = 21 if committed else 22
    return Left(left.metadata, left.payload, (), checksum=True)


def unchecked(metadata: bytes, payload: Any) -> bytes:
    """What stands before the payload where no checksum does."""
    return len(metadata).to_bytes(4, "big") + metadata


async def put(client: PulsarClient, topic: str, left: Sequence[Left]) -> None:
    """Write entries into one partition, in their order."""
    writer = client.producer(topic)
    await writer.opened()
    usual = protocol.entry_head
    with pytest.MonkeyPatch.context() as patched:
        for entry in left:
            patched.setattr(send, "entry_head", usual if entry.checksum else unchecked)
            sent = writer.send(
                pb.MessageMetadata.FromString(entry.metadata.SerializePartialToString()),
                entry.payload,
                entry.metadata.num_messages_in_batch,
            )
            assert isinstance(await sent, Receipt)
    await writer.close()
