"""Lists the records of a Kafka batch, in Python for both twins: making Python's objects of all is most of the work."""

import struct

from bridge.codec._records import check_count, read_record, wrapped
from bridge.codec.types import HEADER_SIZE, BatchHeader, Record
from bridge.errors import CorruptBatch, InvalidRecord

_HEADER = struct.Struct(">qiibIhiqqqhii")


def unpack_header(batch: bytes | memoryview) -> BatchHeader:
    """The header of a batch, not verified but for its size; raises CorruptBatch."""
    if len(batch) < HEADER_SIZE:
        raise CorruptBatch(f"a batch of {len(batch)} bytes is shorter than its header")
    return BatchHeader(*_HEADER.unpack_from(batch))


def read_records(batch: bytes | memoryview, records: bytes | None = None) -> list[Record]:
    """List the records of one verified batch; `records`: its records section where it had to be decompressed.

    Gaps between offsets are allowed, and a batch of none: compaction makes both.
    """
    header = unpack_header(batch)
    data = bytes(batch[HEADER_SIZE:]) if records is None else records
    if header.record_count or data:
        check_count(data, header.record_count)
    out: list[Record] = []
    pos = 0
    try:
        for _ in range(header.record_count):
            pos, delta, moved, key, value, headers = read_record(data, pos)
            offset, timestamp = wrapped(header.base_offset + delta), wrapped(header.base_timestamp + moved)
            out.append(Record(offset, timestamp, key, value, headers))
    except IndexError as error:
        raise InvalidRecord("a record ends in the middle") from error
    if pos != len(data):
        raise InvalidRecord(f"{len(data) - pos} bytes follow the last record")
    return out
