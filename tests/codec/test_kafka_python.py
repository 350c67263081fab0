"""kafka-python judges: its batches, in every codec, are read by us, and ours by it."""

import pytest
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from bridge.codec import HEADER_SIZE, Rebuild, Record, Twin
from bridge.codec.compression import decompress_kafka
from tests.codec.samples import NOW, pairs

RECORDS = [
    Record(0, NOW, b"key", b"value" * 50, [(b"h", b"t"), (b"h", b"\xff"), ("ключ".encode(), None)]),
    Record(1, NOW - 70_000, None, b"", []),
    Record(2, NOW + 1, b"", None, [(b"", b"")]),
    Record(3, 0, b"\xff\x00", bytes(range(256)) * 40, []),
    *(Record(at, NOW + at, b"key-%d" % at, b"v" * at, [(b"n", b"%d" % at)] * (at % 3)) for at in range(4, 200)),
]


@pytest.mark.parametrize("compression", range(5))
def test_their_batches(codec: Twin, compression: int) -> None:
    builder = DefaultRecordBatchBuilder(2, compression, False, 9, 3, 40, 1 << 20)
    for record in RECORDS:
        builder.append(record.offset, record.timestamp, record.key, record.value, pairs(record.headers))
    batch = bytes(builder.build())
    header = codec.read_header(memoryview(batch))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 40)
    assert header.attributes & 7 == compression
    section = decompress_kafka(header.attributes, memoryview(batch)[HEADER_SIZE:], 1 << 20)
    assert codec.read_records(batch, bytes(section)) == RECORDS
    payload = codec.encode_payload(section, header.record_count, header.base_timestamp)
    assert payload.max_timestamp == header.max_timestamp
    rebuild = Rebuild(0, len(RECORDS), 0, own=True, escaped=payload.escaped, producer=(9, 3, 40))
    rebuilt = codec.decode_payload(payload.data, len(RECORDS), rebuild)
    assert rebuilt[HEADER_SIZE:] == section
    if not compression:
        assert rebuilt == batch


def test_our_batches(codec: Twin) -> None:
    shifted = [record._replace(offset=record.offset + 500) for record in RECORDS]
    batch = codec.build_batch(shifted, Rebuild(500, len(RECORDS) + 7, 0, producer=(9, 3, 40)))
    (theirs,) = list(MemoryRecords(batch))
    assert isinstance(theirs, DefaultRecordBatch)
    assert theirs.validate_crc()
    assert (theirs.base_offset, theirs.last_offset_delta) == (500, len(RECORDS) + 6)
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (9, 3, 40)
    read = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs]
    assert read == [(r.offset, r.timestamp, r.key, r.value, pairs(r.headers)) for r in shifted]
