"""Record batches, message sets, Pulsar's payloads and compression, by both twins of the codec."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

from bridge import codec
from bridge.codec import HEADER_SIZE, NO_LIMIT, Rebuild, Record, Twin, choose, message_sets
from bridge.codec import _python as reference
from bridge.codec.compression import (
    KafkaCodec,
    PulsarCodec,
    compress_kafka,
    compress_pulsar,
    decompress_kafka,
    decompress_pulsar,
)
from bridge.errors import BridgeError, CorruptBatch, CorruptEntry, InvalidRecord, KafkaError, StartupError
from bridge.pulsar.types import Entry, Position
from bridge.storage import entries
from bridge.storage.append.preparation import Plan, prepare_records
from bridge.storage.entries import KAFKA, PULSAR, TimeMark
from tests.codec import old_messages
from tests.codec.samples import NOW, own, section, with_checksum
from tests.fuzz.decoders.target import Input, Target, same

_EXPECTED = (CorruptBatch, InvalidRecord, CorruptEntry)
_LIMIT = 1 << 16
RECORDS = [
    Record(0, NOW, b"key", b"value", [(b"name", b"text"), (b"mark", b"base64:"), (b"null", None)]),
    Record(1, NOW + 5, None, b"", []),
    Record(2, -1, b"\xff\xfe", None, [(b"a", b"\xff")]),
]


@cache
def twins() -> tuple[Twin, ...]:
    """The Python codec, and the native one where it is built."""
    try:
        return reference, choose("native")[1]
    except StartupError:
        return (reference,)


def _outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except _EXPECTED as error:
        return type(error)


def _agreed(name: str, *arguments: Any) -> Any:
    """What all twins make of it."""
    first, *others = (_outcome(getattr(twin, name), *arguments) for twin in twins())
    for other in others:
        same(first, other, f"twins in {name}")
    return first


# ---- records and payloads --------------------------------------------------------------------------------------------


def check_records(data: bytes) -> bool:
    """The records of a batch: twins agree, and what is taken comes back as it was."""
    given = Input(data)
    count, base, limit = given.number(), NOW if given.number() % 2 else -1, given.number(1 << 16)
    raw = given.rest()
    _agreed("encode_payload", raw, count, base, 0, limit)
    checked = _agreed("check_records", raw, count, base)
    payload = _agreed("encode_payload", raw, count, base, 0, NO_LIMIT)
    if isinstance(payload, type):
        same(checked, payload, "checking and encoding")
        return False
    rebuilt = _agreed("decode_payload", payload.data, count, own(count, escaped=payload.escaped))
    header = codec.BatchHeader(0, 0, 0, 2, 0, 0, count - 1, base, base, -1, -1, -1, count)
    sent = [one[2:] for one in message_sets.each_record(header, raw)]
    same([one[2:] for one in reference.read_records(rebuilt)], sent, "records sent and read")
    return True


def check_payload(data: bytes) -> bool:
    """A payload of any writer: twins agree."""
    given = Input(data)
    count, flags, publish_time = given.number(), given.number(), given.number(1 << 16)
    rebuild = Rebuild(9, count, publish_time, own=bool(flags & 1), escaped=bool(flags & 2))
    batch = _agreed("decode_payload", given.rest(), count, rebuild)
    if not isinstance(batch, type):
        _agreed("read_header", batch)
        found = _agreed("read_records", batch)
        if any(not 9 <= one.offset < 9 + count for one in found):
            raise AssertionError("a record outside of its entry's offsets")
    return True


def record_sections() -> list[bytes]:
    """Of one record, of several."""
    batches = [reference.build_batch(RECORDS[:count], own(count)) for count in (1, 2, 3)]
    return [bytes([count, 1, 255, 255]) + section(one) for count, one in enumerate(batches, 1)]


def payloads() -> list[bytes]:
    """What `encode_payload` makes of them."""
    made = [
        reference.encode_payload(section(reference.build_batch(RECORDS[:count], own(count))), count, NOW)
        for count in (1, 3)
    ]
    return [bytes([one.records, flags, 0, 77]) + one.data for one in made for flags in (0, 1, 3)]


# ---- batches: produced, stored, fetched ------------------------------------------------------------------------------

_PLANS = [Plan(_LIMIT, form, kind) for form in (PULSAR, KAFKA) for kind in (None, KafkaCodec.NONE, KafkaCodec.ZSTD)]


def check_batch(data: bytes) -> bool:
    """A Produce's bytes for a partition: refused by a Kafka error, or fetched as they were sent."""
    given = Input(data)
    plan = _PLANS[given.number(len(_PLANS))]
    batch = _made_to_fit(given.rest())
    _agreed("read_header", batch)
    try:
        prepared = prepare_records(memoryview(batch), plan, NOW, allow_zstd=True)
    except KafkaError:
        return False
    if plan.entry_format == KAFKA and batch[entries.ATTRIBUTES_AT] & 7:
        return True  # its records were not looked at: what is in them is the consumers' matter
    base, fetched = 0, []
    for one in prepared:
        metadata = one.metadata(TimeMark(1, 0))
        if one.message is not None:
            one.message.add_headers(metadata)
        entry = Entry(Position(1, base), None, None, metadata, memoryview(one.data), len(one.data))
        fetched += entries.records_of(entries.to_kafka(entry, base, entry.payload, plan.largest_batch(len(batch))))
        base += one.record_count
    same(fetched, _sent(batch, plan), "records sent and fetched")
    return True


def _sent(data: bytes, plan: Plan) -> list[Record]:
    """The records of all batches, with offsets from 0 on."""
    if data[message_sets.MAGIC_AT] < 2:
        data = message_sets.to_batches(data, plan.largest_batch(len(data)), plan.largest_entry)
    found: list[Record] = []
    for batch in entries.split(memoryview(data)):
        header = codec.read_header(batch)._replace(base_offset=len(found))
        plain = decompress_kafka(header.attributes, bytes(batch[HEADER_SIZE:]), plan.largest_batch(len(batch)))
        found += message_sets.each_record(header, plain)
    return found


def _made_to_fit(data: bytes) -> bytes:
    """With lengths and checksums that fit, which chance would never find."""
    if len(data) > message_sets.MAGIC_AT and data[message_sets.MAGIC_AT] < 2:
        return _with_checksums(data)
    if len(data) < HEADER_SIZE:
        return data
    out = bytearray(data)
    out[8:12] = (len(data) - 12).to_bytes(4)
    return with_checksum(out)


def _with_checksums(data: bytes) -> bytes:
    """Each message that ends within the data gets its checksum; the size of the last one is made to fit."""
    out, at = bytearray(data), 0
    while len(out) - at > 17:
        (size,) = struct.unpack_from(">i", out, at + 8)
        if not 14 <= size <= len(out) - at - 12:
            size = len(out) - at - 12
            struct.pack_into(">i", out, at + 8, size)
        struct.pack_into(">I", out, at + 12, zlib.crc32(out[at + 16 : at + 12 + size]))
        at += 12 + size
    return bytes(out)


def batches() -> list[bytes]:
    """Batches v2 of each codec, and message sets of magic 0 and 1, by each plan."""
    plain = reference.build_batch([one._replace(timestamp=max(one.timestamp, 0)) for one in RECORDS], own(3))
    found = [plain]
    for kind in KafkaCodec:
        packed = bytearray(plain[:HEADER_SIZE] + compress_kafka(kind, section(plain)))
        packed[entries.ATTRIBUTES_AT] = kind
        found.append(bytes(packed))
    found += [old_messages.message(b"value", magic, key=b"key") * 2 for magic in (0, 1)]
    return [bytes([at]) + _made_to_fit(one) for one in found for at in range(len(_PLANS))]


# ---- message sets ----------------------------------------------------------------------------------------------------


def check_message_set(data: bytes) -> bool:
    """A message set of magic 0 or 1: refused, or the same when it is written as one again."""
    given = Input(data)
    magic = given.number(2)
    raw = bytearray(given.rest())
    if len(raw) > message_sets.MAGIC_AT:
        raw[message_sets.MAGIC_AT] = magic
    try:
        found = message_sets.to_batches(_with_checksums(bytes(raw)), _LIMIT)
    except (CorruptBatch, InvalidRecord):
        return False
    written = message_sets.from_batches(found, magic, 0, 1 << 20, _LIMIT)
    again = message_sets.to_batches(written, 1 << 20, _LIMIT)
    same(message_sets.from_batches(again, magic, 0, 1 << 20, _LIMIT), written, "message sets")
    return True


def message_set_seeds() -> list[bytes]:
    """Plain ones, and wrappers of each codec."""
    found = []
    for magic in (0, 1):
        inner = old_messages.message(b"value", magic, key=b"key") + old_messages.message(None, magic)
        found.append(bytes([magic]) + inner)
        for kind in (KafkaCodec.GZIP, KafkaCodec.SNAPPY, KafkaCodec.LZ4):
            found.append(bytes([magic]) + old_messages.message(compress_kafka(kind, inner), magic, kind))
    return found


# ---- compression -----------------------------------------------------------------------------------------------------


def check_compression(data: bytes) -> bool:
    """Compressed bytes: refused, or within the limit and the same when compressed again."""
    given = Input(data)
    of_pulsar, kind, size = given.number(2), given.number(8), given.number(1 << 16)
    raw = given.rest()
    try:
        plain = bytes(decompress_pulsar(kind, raw, size, _LIMIT) if of_pulsar else decompress_kafka(kind, raw, size))
    except BridgeError:
        return False
    if kind == KafkaCodec.NONE or not raw:
        return True
    if len(plain) > size:
        raise AssertionError(f"{len(plain)} bytes, the limit was {size}")
    if of_pulsar:
        packed = compress_pulsar(PulsarCodec(kind), plain)
        same(bytes(decompress_pulsar(kind, packed, len(plain), _LIMIT)), plain, "compressed again")
    else:
        same(decompress_kafka(kind, compress_kafka(KafkaCodec(kind), plain), len(plain)), plain, "compressed again")
    return True


def compressed() -> list[bytes]:
    """Each codec of both."""
    plain = b"a text of words, a text of words" * 4
    size = len(plain).to_bytes(2)
    found = [bytes([0, kind]) + size + compress_kafka(kind, plain) for kind in KafkaCodec]
    return found + [bytes([1, kind]) + size + compress_pulsar(kind, plain) for kind in PulsarCodec]


TARGETS = (
    Target("records", check_records, record_sections),
    Target("payloads", check_payload, payloads),
    Target("batches", check_batch, batches),
    Target("message_sets", check_message_set, message_set_seeds),
    Target("compression", check_compression, compressed, (b"\x82SNAPPY\x00", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd")),
)
