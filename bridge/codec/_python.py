"""The reference codec: Kafka record batches to Pulsar batch payloads and back, in plain Python.

What this module accepts, rejects and produces defines what a native twin must accept, reject and produce.

Kafka: record batch v2 (magic 2, KIP-98), `DefaultRecordBatch`. Pulsar: a batch payload is a run of
[u32 size][SingleMessageMetadata][value] (binary protocol, "Batch messages").
"""

import struct
from collections.abc import Sequence

import crc32c

from bridge.codec._messages import append_message, append_property, read_message
from bridge.codec._records import check_count, read_any, read_record, varint, wrapped, write_body
from bridge.codec.types import HEADER_SIZE, BatchHeader, Payload, Rebuild, Record
from bridge.errors import CorruptBatch, CorruptEntry, InvalidRecord

_HEADER = struct.Struct(">qiibIhiqqqhii")
_U32 = struct.Struct(">I")
_CRC_AT = 17
_CRC_START = 21  # the checksum covers attributes to the end: offset and leader epoch can be patched freely
_LENGTH_START = 12


def read_header(batch: bytes | memoryview) -> BatchHeader:
    """Read and verify the header of one whole batch, checksum included; raises CorruptBatch."""
    if len(batch) < HEADER_SIZE:
        raise CorruptBatch(f"a batch of {len(batch)} bytes is shorter than its header")
    header = BatchHeader(*_HEADER.unpack_from(batch))
    if header.magic != 2:
        raise CorruptBatch(f"magic {header.magic} is not record batch v2")
    if header.length != len(batch) - _LENGTH_START:
        raise CorruptBatch(f"the batch says {header.length} bytes and has {len(batch) - _LENGTH_START}")
    if crc32c.crc32c(memoryview(batch)[_CRC_START:]) != header.crc:
        raise CorruptBatch("the batch's checksum does not match")
    return header


def encode_payload(records: bytes, count: int, base_timestamp: int) -> Payload:
    """Turn the uncompressed records of a batch into a Pulsar batch payload; raises InvalidRecord."""
    check_count(records, count)
    out: list[bytes] = []
    timestamps = []
    escaped = False
    pos = 0
    try:
        for delta in range(count):
            pos, timestamp, key, value, headers = read_record(records, pos, delta)
            timestamp = wrapped(base_timestamp + timestamp)
            timestamps.append(timestamp)
            metadata = bytearray()
            for name, text in headers:
                escaped |= append_property(metadata, name, text)
            append_message(out, metadata, timestamp, key, value)
    except IndexError as error:
        raise InvalidRecord("a record ends in the middle") from error
    if pos != len(records):
        raise InvalidRecord(f"{len(records) - pos} bytes follow the last record")
    return Payload(b"".join(out), max(timestamps), escaped)


def read_records(batch: bytes | memoryview, records: bytes | None = None) -> list[Record]:
    """List the records of one verified batch; `records`: its records section where it had to be decompressed."""
    header = BatchHeader(*_HEADER.unpack_from(batch))
    data = bytes(batch[HEADER_SIZE:]) if records is None else records
    out: list[Record] = []
    pos = 0
    try:
        for _ in range(header.record_count):
            pos, delta, timestamp, key, value, headers = read_any(data, pos)
            out.append(
                Record(header.base_offset + delta, wrapped(header.base_timestamp + timestamp), key, value, headers)
            )
    except IndexError as error:
        raise InvalidRecord("a record ends in the middle") from error
    return out


def decode_payload(payload: bytes, count: int, rebuild: Rebuild) -> bytes:
    """Turn a Pulsar batch payload of `count` messages into one uncompressed Kafka batch; raises CorruptEntry."""
    records: list[Record] = []
    pos = 0
    try:
        for delta in range(count):
            (size,) = _U32.unpack_from(payload, pos)
            pos += 4
            message = read_message(payload, pos, pos + size)
            pos += size
            if message.compacted_out:
                continue
            end = pos + message.payload_size
            if message.payload_size < 0 or end > len(payload):
                raise CorruptEntry("a message's value goes beyond its entry")
            value = None if message.null_value else payload[pos:end]
            pos = end
            records.append(message.record(rebuild, rebuild.base_offset + delta, value))
    except (IndexError, struct.error) as error:
        raise CorruptEntry("a message ends in the middle") from error
    if pos != len(payload):
        raise CorruptEntry(f"{len(payload) - pos} bytes follow the last message")
    return build_batch(records, rebuild)


def build_batch(records: Sequence[Record], rebuild: Rebuild) -> bytes:
    """Write one uncompressed Kafka batch over the offsets that `rebuild` names; it may have fewer records (gaps)."""
    base_timestamp = records[0].timestamp if records else rebuild.publish_time
    out = bytearray(HEADER_SIZE)
    body = bytearray()
    for record in records:
        body.clear()
        write_body(body, record, base_timestamp, rebuild.base_offset)
        out += varint(len(body))
        out += body
    producer_id, epoch, sequence = rebuild.producer
    newest = max((record.timestamp for record in records), default=base_timestamp)
    _HEADER.pack_into(
        out, 0, rebuild.base_offset, len(out) - _LENGTH_START, 0, 2, 0, 0, rebuild.span - 1,
        base_timestamp, newest, producer_id, epoch, sequence, len(records),
    )  # fmt: skip
    _U32.pack_into(out, _CRC_AT, crc32c.crc32c(memoryview(out)[_CRC_START:]))
    return bytes(out)
