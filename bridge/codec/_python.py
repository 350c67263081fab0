"""The reference codec: Kafka record batches to Pulsar batch payloads and back, in plain Python.

What this module accepts, rejects and produces defines what a native twin must accept, reject and produce; the grammar
is in the docstrings of `_records` and `_messages`. Nothing but CorruptBatch, InvalidRecord and CorruptEntry is raised,
time and memory are linear in the bytes given, and messages of exceptions hold no byte of a record.

Kafka: record batch v2 (magic 2, KIP-98), `DefaultRecordBatch`. Pulsar: a batch payload is a run of
[u32 size][SingleMessageMetadata][value] (binary protocol, "Batch messages"), each field of the metadata written once,
by number, and only where it says something. `encode_payload` and `decode_payload` are long because a call costs a
tenth of a record: what nearly every record has is read in their loops, all else by `_records` and `_messages`.
"""

import struct
from collections.abc import Sequence

from crc32c import crc32c as crc32c  # one of this twin's own functions

from bridge.codec._listing import read_records as read_records
from bridge.codec._listing import unpack_header
from bridge.codec._messages import (
    EVENT_TIME,
    PARTITION_KEY,
    PAYLOAD_SIZE,
    SEQUENCE_ID,
    SMALLEST_MESSAGE,
    Message,
    append_message,
    read_message,
    read_properties,
    read_unsigned,
    signed32,
    timestamp_of,
)
from bridge.codec._records import (
    append_record,
    check_count,
    read_bytes,
    read_record,
    read_varint,
    read_varlong,
    wrapped,
)
from bridge.codec.types import (
    HEADER_SIZE,
    NO_LIMIT,
    NO_PRODUCER,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Checked,
    Header,
    Payload,
    Plain,
    Rebuild,
    Record,
)
from bridge.errors import CorruptBatch, CorruptEntry, InvalidRecord

_HEADER = struct.Struct(">qiibIhiqqqhii")
_REBUILD = struct.Struct(">qiqqhih")
_U32 = struct.Struct(">I")
_CRC_AT = 17
_CRC_START = 21  # the checksum covers attributes to the end: offset and leader epoch can be patched freely
_LENGTH_START = 12
_NOT_PLAIN = 0x2F  # attributes of what is compressed, has the broker's times, or is of a broker
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def read_header(batch: bytes | memoryview) -> BatchHeader:
    """Read and verify the header of one whole batch, checksum included; raises CorruptBatch."""
    header = unpack_header(batch)
    if header.magic != 2:
        raise CorruptBatch(f"magic {header.magic} is not record batch v2")
    if header.length != len(batch) - _LENGTH_START:
        raise CorruptBatch(f"the batch says {header.length} bytes and has {len(batch) - _LENGTH_START}")
    if crc32c(memoryview(batch)[_CRC_START:]) != header.crc:
        raise CorruptBatch("the batch's checksum does not match")
    return header


def encode_payload(  # noqa: C901, PLR0915 — see the module
    records: bytes | memoryview, count: int, base_timestamp: int, first: int = 0, limit: int = NO_LIMIT
) -> Payload:
    """Turn the uncompressed records of a batch into a Pulsar batch payload; raises InvalidRecord.

    The records must be exactly `count`, with offset deltas `first`, `first` + 1 … as Kafka demands of producers. Those
    that would bring the payload above `limit` bytes are left out, but for the first one: `Payload.records` tells.
    """
    records = bytes(records)  # no copy of what is bytes already
    check_count(records, count)
    out = bytearray()
    newest, oldest = _LEAST, _MOST
    escaped = False
    pos = 0
    try:
        for expected in range(first, first + count):
            begun = pos, len(out), escaped
            length, pos = read_varint(records, pos)
            end = pos + length
            moved, pos = read_varlong(records, pos + 1)
            delta, pos = read_varint(records, pos)
            if delta != expected:
                raise InvalidRecord("its offset delta is not its place")
            byte = records[pos]
            key: bytes | None
            if byte & 0x81:  # null, or 64 bytes and more
                key, pos = read_bytes(records, pos, end)
            else:
                start = pos + 1
                pos = start + (byte >> 1)  # beyond the record's end? then so is every position after it
                key = records[start:pos]
            value, pos = read_bytes(records, pos, end)
            properties: bytes | bytearray = b""
            if records[pos]:
                properties, pos, marked = read_properties(records, pos, end)
                escaped |= marked
            else:
                pos += 1
            if pos != end:
                raise InvalidRecord("its fields end before it does")
            timestamp = wrapped(base_timestamp + moved)
            append_message(out, properties, timestamp, key, value)
            if len(out) > limit and expected > first:
                if pos > len(records):
                    raise InvalidRecord("it ends in the middle")
                pos, size, escaped = begun
                return Payload(bytes(memoryview(out)[:size]), newest, oldest, escaped, expected - first, pos)
            if timestamp > newest:
                newest = timestamp
            if timestamp < oldest and timestamp != NO_TIMESTAMP:
                oldest = timestamp
    except IndexError as error:
        raise InvalidRecord(f"record {expected - first}: it ends in the middle") from error
    except InvalidRecord as error:
        raise InvalidRecord(f"record {expected - first}: {error}") from None
    if pos != len(records):
        raise InvalidRecord("bytes follow the last record")
    return Payload(bytes(out), newest, oldest, escaped, count, pos)


def encode_plain(batch: bytes | memoryview, limit: int, oldest: int, newest: int, max_records: int) -> Plain | None:
    """Turn one whole batch into a payload, if there is nothing to decide about it; else None.

    So it is where the batch is sound, not compressed, of a client, of at most `max_records` records with timestamps
    from `oldest` to `newest`, or none, and the payload has at most `limit` bytes.
    """
    try:
        header = read_header(batch)
        count, producer = header.record_count, NO_PRODUCER
        if header.attributes & _NOT_PLAIN or not 0 < count <= max_records or header.last_offset_delta != count - 1:
            return None
        if header.producer_id >= 0:
            producer = header.producer_id, header.producer_epoch, header.base_sequence
            if min(producer) < 0:
                return None
        payload = encode_payload(memoryview(batch)[HEADER_SIZE:], count, header.base_timestamp, 0, limit)
    except (CorruptBatch, InvalidRecord):
        return None
    fits = payload.records == count and len(payload.data) <= limit
    if not fits or payload.min_timestamp < max(oldest, 0) or payload.max_timestamp > newest:
        return None
    transactional = bool(header.attributes & TRANSACTIONAL)
    return Plain(payload.data, count, producer, payload.max_timestamp, payload.escaped, transactional)


def check_records(records: bytes | memoryview, count: int, base_timestamp: int) -> Checked:
    """Read the uncompressed records of a batch as `encode_payload` does; raises InvalidRecord."""
    records = bytes(records)
    check_count(records, count)
    newest, oldest = _LEAST, _MOST
    keyed = True
    pos = 0
    try:
        for expected in range(count):
            pos, delta, moved, key, _, _ = read_record(records, pos)
            if delta != expected:
                raise InvalidRecord("its offset delta is not its place")
            timestamp = wrapped(base_timestamp + moved)
            newest = max(newest, timestamp)
            oldest = min(oldest, timestamp) if timestamp != NO_TIMESTAMP else oldest
            keyed = keyed and key is not None
    except IndexError as error:
        raise InvalidRecord(f"record {expected}: it ends in the middle") from error
    except InvalidRecord as error:
        raise InvalidRecord(f"record {expected}: {error}") from None
    if pos != len(records):
        raise InvalidRecord("bytes follow the last record")
    return Checked(newest, oldest, keyed)


def decode_payload(  # noqa: C901, PLR0915 — see the module
    payload: bytes | memoryview, count: int, rebuild: Rebuild
) -> bytes:
    """Turn a Pulsar batch payload of `count` messages into one uncompressed Kafka batch; raises CorruptEntry."""
    _check_rebuild(rebuild)
    payload = bytes(payload)
    if count < 1 or count * SMALLEST_MESSAGE > len(payload):
        raise CorruptEntry(f"{count} messages cannot be in {len(payload)} bytes")
    out = bytearray(HEADER_SIZE)
    base_timestamp = newest = rebuild.publish_time
    written = pos = high = 0
    tail = b""
    try:
        for delta in range(count):
            (size,) = _U32.unpack_from(payload, pos)
            start = pos = pos + 4
            end = start + size
            key: bytes | None = None
            value: bytes | None
            event_time: int | None = None
            rare: Message | None = None
            value_size = -1
            while pos < end:
                tag = payload[pos]
                byte = payload[pos + 1]
                if tag == PARTITION_KEY:
                    length, pos = (byte, pos + 2) if byte < 0x80 else read_unsigned(payload, pos + 1)
                    key = payload[pos : pos + length]
                    pos += length
                elif tag == PAYLOAD_SIZE:
                    value_size, pos = (byte, pos + 2) if byte < 0x80 else read_unsigned(payload, pos + 1)
                elif tag == EVENT_TIME:
                    # timestamps near each other differ in their two lowest groups of 7 bits: the rest is remembered
                    if byte & 0x80 and tail and payload[pos + 2] & 0x80 and payload.startswith(tail, pos + 3):
                        event_time = high | (payload[pos + 2] & 0x7F) << 7 | byte & 0x7F
                        pos += 3 + len(tail)
                    else:
                        third = pos + 3
                        event_time, pos = read_unsigned(payload, pos + 1)
                        tail, high = payload[third:pos], event_time >> 14 << 14
                elif tag == SEQUENCE_ID:
                    _, pos = read_unsigned(payload, pos + 1)
                else:  # the whole message again, at leisure
                    rare = read_message(payload, start, end)
                    value_size, pos = rare.payload_size, end
            start = pos
            pos += signed32(value_size) if value_size >> 31 else value_size
            if start != end or pos < start or pos > len(payload):
                raise CorruptEntry("a message's metadata or value goes beyond its end")
            value = payload[start:pos]
            headers: Sequence[Header] = ()
            if rare is None:
                timestamp = timestamp_of(event_time, rebuild)
            elif rare.compacted_out:
                continue
            else:
                _, timestamp, key, value, headers = rare.record(rebuild, 0, None if rare.null_value else value)
            if not written:
                base_timestamp = newest = timestamp
            elif timestamp > newest:
                newest = timestamp
            written += 1
            append_record(out, timestamp - base_timestamp, delta, key, value, headers)
    except (IndexError, struct.error) as error:
        raise CorruptEntry("a message ends in the middle") from error
    if pos != len(payload):
        raise CorruptEntry(f"{len(payload) - pos} bytes follow the last message")
    return _finish(out, rebuild, base_timestamp, newest, written)


def build_batch(records: Sequence[Record], rebuild: Rebuild) -> bytes:
    """Write one uncompressed Kafka batch over the offsets that `rebuild` names; it may have fewer records (gaps).

    Timestamps are taken as signed 64 bits, as those of a payload are; raises CorruptEntry as `decode_payload` does, and
    for an offset that is not within 2³¹ of the base offset.
    """
    _check_rebuild(rebuild)
    base_timestamp = wrapped(records[0].timestamp) if records else rebuild.publish_time
    newest = max((wrapped(record.timestamp) for record in records), default=base_timestamp)
    out = bytearray(HEADER_SIZE)
    for offset, timestamp, key, value, headers in records:
        delta = offset - rebuild.base_offset
        if not 0 <= delta < 1 << 31:
            raise CorruptEntry(f"a record's offset {offset} does not fit its batch")
        append_record(out, timestamp - base_timestamp, delta, key, value, headers)
    return _finish(out, rebuild, base_timestamp, newest, len(records))


def _check_rebuild(rebuild: Rebuild) -> None:
    """Refuse what has no place in a batch's header: an entry's own metadata may say anything."""
    try:
        _REBUILD.pack(
            rebuild.base_offset, rebuild.span - 1, rebuild.publish_time, *rebuild.producer, rebuild.attributes
        )
    except struct.error as error:
        raise CorruptEntry("an entry's metadata does not fit a Kafka batch") from error


def _finish(out: bytearray, rebuild: Rebuild, base_timestamp: int, newest: int, count: int) -> bytes:
    if (len(out) - _LENGTH_START) >> 31:
        raise CorruptEntry("it is too large for a Kafka batch")
    _HEADER.pack_into(
        out, 0, rebuild.base_offset, len(out) - _LENGTH_START, 0, 2, 0, rebuild.attributes, rebuild.span - 1,
        base_timestamp, newest, *rebuild.producer, count,
    )  # fmt: skip
    with memoryview(out) as view:
        _U32.pack_into(out, _CRC_AT, crc32c(view[_CRC_START:]))
    return bytes(out)
