"""Message sets: kafka-python judges both directions; what is damaged or too large is refused and costs no memory."""

import gzip
import tracemalloc
import zlib
from functools import partial

import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.codec import lz4_encode, snappy_encode
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder

from bridge.codec import Rebuild, Record, build_batch, read_header, read_records
from bridge.codec.message_sets import from_batches, from_records, to_batches
from bridge.errors import BatchTooLarge, CorruptBatch, InvalidRecord
from tests.codec.old_messages import GZIP, LZ4, SNAPPY, WHOLE, ZSTD, message
from tests.codec.samples import NOW
from tests.support.effort import examples

LIMIT = 1 << 20
gzip_encode = partial(gzip.compress, mtime=0)  # the time would be part of the tests' names
CODECS = [0, GZIP, SNAPPY, LZ4]
RECORDS = [
    Record(0, NOW, b"key", b"value" * 50, []),
    Record(1, NOW - 70_000, None, b"", []),
    Record(2, NOW + 1, b"", None, []),
    Record(3, 0, b"\xff\x00", bytes(range(256)) * 40, []),
    *(Record(at, NOW + at, b"key-%d" % at, b"v" * at, []) for at in range(4, 200)),
]


def records_in(batches: bytes) -> list[Record]:
    found: list[Record] = []
    while batches:
        size = int.from_bytes(batches[8:12], "big") + 12
        read_header(batches[:size])
        found += read_records(batches[:size])
        batches = batches[size:]
    return found


def without_times(records: list[Record]) -> list[Record]:
    return [record._replace(timestamp=-1) for record in records]


@pytest.mark.parametrize(
    # LZ4 of magic 0 is written by kafka-python in tests/clients, where it finds what it needs for it
    ("magic", "compression"),
    [(magic, codec) for magic in (0, 1) for codec in CODECS if (magic, codec) != (0, LZ4)],
)
def test_what_kafka_python_writes(magic: int, compression: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, compression, 1 << 20)
    for record in RECORDS:
        assert builder.append(record.offset, record.timestamp, record.key, record.value)
    batch = to_batches(memoryview(bytes(builder.build())), LIMIT)
    assert records_in(batch) == (RECORDS if magic else without_times(RECORDS))
    header = read_header(batch)  # one batch
    assert (header.base_offset, header.attributes, header.record_count) == (0, 0, len(RECORDS))
    assert header.max_timestamp == (max(record.timestamp for record in RECORDS) if magic else -1)


@pytest.mark.parametrize("magic", [0, 1])
def test_what_kafka_python_reads(magic: int) -> None:
    records = [record._replace(offset=record.offset + 1000) for record in RECORDS]
    sets = from_batches(build_batch(records, Rebuild(1000, len(records), 0)), magic, 1000, LIMIT, LIMIT)
    assert sets == from_records(records, magic, 1000, LIMIT)
    found = []
    while sets:
        size = int.from_bytes(sets[8:12], "big") + 12
        one = LegacyRecordBatch(bytearray(sets[:size]), magic)
        assert one.validate_crc()
        found += [Record(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value, []) for r in one]
        sets = sets[size:]
    assert found == (records if magic else without_times(records))


@given(
    st.lists(
        st.builds(
            Record,
            st.just(0),
            st.integers(-1, 1 << 62),
            st.none() | st.binary(max_size=40),
            st.none() | st.binary(max_size=40),
            st.just([]),
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([0, 1]),
)
def test_there_and_back(records: list[Record], magic: int) -> None:
    records = [record._replace(offset=at) for at, record in enumerate(records)]
    there = from_records(records, magic, 0, LIMIT)
    assert records_in(to_batches(there, LIMIT)) == (records if magic else without_times(records))


@pytest.mark.parametrize("compression", [*CODECS, ZSTD])
def test_batches_of_every_codec_are_read(compression: int) -> None:
    builder = DefaultRecordBatchBuilder(2, compression, False, -1, -1, -1, 1 << 20)
    for record in RECORDS:
        builder.append(record.offset, record.timestamp, record.key, record.value, [("name", b"text")])
    batch = bytes(builder.build())
    assert from_batches(batch, 1, 0, LIMIT, LIMIT) == from_records(RECORDS, 1, 0, LIMIT)
    twice = batch + (len(RECORDS)).to_bytes(8, "big") + batch[8:]
    again = [record._replace(offset=record.offset + len(RECORDS)) for record in RECORDS]
    assert from_batches(twice, 0, 150, LIMIT, LIMIT) == from_records(RECORDS + again, 0, 150, LIMIT)
    if compression:
        with pytest.raises(BatchTooLarge):
            from_batches(batch, 1, 0, LIMIT, 1000)


def test_a_batch_whose_records_are_damaged() -> None:
    batch = build_batch(RECORDS, Rebuild(0, len(RECORDS), 0))
    for hurt in (batch[:57] + b"\x7f\xff\xff\xff" + batch[61:], batch[:61] + b"\x7f" + batch[62:]):
        with pytest.raises(InvalidRecord):
            from_batches(hurt, 1, 0, LIMIT, LIMIT)


def test_dense_batches_take_no_memory_beyond_what_is_asked_for() -> None:
    batch = build_batch([Record(at, NOW, None, None, []) for at in range(100_000)], Rebuild(0, 100_000, 0))
    tracemalloc.start()
    try:
        assert len(from_batches(batch, 1, 99_000, 10_000, LIMIT)) >= 10_000
        assert tracemalloc.get_traced_memory()[1] < 3 * len(batch)
    finally:
        tracemalloc.stop()


def test_headers_are_left_out() -> None:
    record = Record(5, NOW, b"k", b"v", [(b"name", b"text")])
    assert from_records([record], 1, 0, LIMIT) == from_records([record._replace(headers=[])], 1, 0, LIMIT)


def test_only_records_from_the_offset_on_until_there_is_enough() -> None:
    everything = from_records(RECORDS, 1, 0, LIMIT)
    assert everything.endswith(from_records(RECORDS, 1, 100, LIMIT))
    assert len(from_records(RECORDS[:1], 1, 0, 1)) > 1  # the first one is whole
    some = from_records(RECORDS, 1, 0, 5000)
    assert len(some) >= 5000
    assert everything.startswith(some)
    assert from_records(RECORDS, 1, 1000, LIMIT) == b""


def test_uncompressed_and_compressed_messages_beside_each_other() -> None:
    wrapper = message(gzip_encode(message(b"b", timestamp=1) + message(b"c", timestamp=2)), 1, GZIP)
    batch = to_batches(message(b"a", 0) + wrapper + message(b"d", timestamp=3), LIMIT)
    assert [(r.offset, r.timestamp, r.value) for r in records_in(batch)] == [
        (0, -1, b"a"),
        (1, 1, b"b"),
        (2, 2, b"c"),
        (3, 3, b"d"),
    ]
    assert read_header(batch).record_count == 4


def test_a_large_set_becomes_several_batches() -> None:
    values = [bytes([at]) * 3000 for at in range(9)]
    batches = to_batches(b"".join(map(message, values)), 10_000)
    found, sizes = records_in(batches), []
    while batches:
        sizes.append(int.from_bytes(batches[8:12], "big") + 12)
        batches = batches[sizes[-1] :]
    assert [record.value for record in found] == values
    assert [record.offset for record in found] == list(range(9))
    assert len(sizes) == 5
    assert max(sizes) < 10_000


def test_what_is_compressed_may_take_several_batches() -> None:
    inner = b"".join(message(bytes([at]) * 3000) for at in range(9))
    batches = to_batches(message(gzip_encode(inner), 1, GZIP), LIMIT, 10_000)
    assert len(records_in(batches)) == 9
    assert int.from_bytes(batches[8:12], "big") < 10_000
    with pytest.raises(BatchTooLarge):
        to_batches(message(gzip_encode(inner), 1, GZIP), 10_000, LIMIT)


def test_a_record_above_the_limit_has_a_batch_of_its_own() -> None:
    batches = to_batches(message(b"a") + message(b"b" * 5000) + message(b"c"), 2000)
    assert [len(record.value or b"") for record in records_in(batches)] == [1, 5000, 1]
    assert int.from_bytes(batches[8:12], "big") < 200


def test_log_append_time_stays_a_mark_of_the_batch() -> None:
    inner = message(b"a", timestamp=5) + message(b"b", timestamp=6)
    batches = to_batches(message(b"x") + message(gzip_encode(inner), 1, GZIP | 8, timestamp=NOW + 9), LIMIT)
    assert [record.timestamp for record in records_in(batches)] == [NOW, NOW + 9, NOW + 9]
    second = batches[int.from_bytes(batches[8:12], "big") + 12 :]
    assert read_header(second).attributes == 8


@pytest.mark.parametrize("block_size", [lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB])
@pytest.mark.parametrize("store_size", [True, False])
def test_the_header_checksum_of_lz4_does_not_count_in_magic_0(block_size: int, store_size: bool) -> None:
    inner = message(b"a", 0) * 50
    frame = lz4.frame.compress(inner, block_size=block_size, store_size=store_size)
    at = 14 if store_size else 6
    broken = frame[:at] + bytes([frame[at] ^ 0x55]) + frame[at + 1 :]
    for data in (frame, broken):
        assert len(records_in(to_batches(message(data, 0, LZ4), LIMIT))) == 50
    inner = message(b"a", 1)
    frame = lz4.frame.compress(inner, block_size=block_size, store_size=store_size)
    broken = frame[:at] + bytes([frame[at] ^ 0x55]) + frame[at + 1 :]
    assert records_in(to_batches(message(frame, 1, LZ4), LIMIT))
    with pytest.raises(CorruptBatch):
        to_batches(message(broken, 1, LZ4), LIMIT)


def _with(data: bytes, at: int, new: bytes, *, with_checksum: bool = True) -> bytes:
    data = data[:at] + new + data[at + len(new) :]
    return data[:12] + zlib.crc32(data[16:]).to_bytes(4, "big") + data[16:] if with_checksum else data


@pytest.mark.parametrize(
    "damaged",
    [
        WHOLE[:-1],
        WHOLE[:16],
        WHOLE + WHOLE[:20],
        _with(WHOLE, 8, (21).to_bytes(4, "big")),
        _with(WHOLE, 8, (1 << 30).to_bytes(4, "big")),
        _with(WHOLE, 8, b"\xff" * 4),
        _with(WHOLE, 12, b"\0\0\0\0", with_checksum=False),
        _with(WHOLE, len(WHOLE) - 1, b"!", with_checksum=False),
        _with(WHOLE, 16, b"\2"),
        _with(WHOLE, 16, b"\xff"),
        message(b"no gzip", 1, GZIP),
        message(b"no lz4", 0, LZ4),
        message(b"", 1, SNAPPY),
        message(WHOLE, 1, 5),
        message(gzip_encode(WHOLE[:-1]), 1, GZIP),
        message(gzip_encode(WHOLE)[:-9], 1, GZIP),
    ],
)
def test_damage_is_told(damaged: bytes) -> None:
    with pytest.raises(CorruptBatch):
        to_batches(damaged, LIMIT)


@pytest.mark.parametrize(
    "invalid",
    [
        b"",
        _with(WHOLE, 26, b"\0\0\0\x7f"),  # the key's length
        _with(WHOLE, 26, b"\xff\xff\xff\xfe"),
        _with(WHOLE, 33, b"\0\0\0\4"),  # the value's
        message(None, 1, GZIP),
        message(gzip_encode(b""), 1, GZIP),
        message(gzip_encode(message(gzip_encode(WHOLE), 1, GZIP)), 1, GZIP),
        message(gzip_encode(message(b"a", 0)), 1, GZIP),
        message(snappy_encode(message(b"a", 1)), 0, SNAPPY),
        message(lz4_encode(WHOLE), 1, ZSTD),
    ],
)
def test_what_says_nothing_valid_is_refused(invalid: bytes) -> None:
    with pytest.raises(InvalidRecord):
        to_batches(invalid, LIMIT)


@pytest.mark.parametrize(("compression", "encode"), [(GZIP, gzip_encode), (SNAPPY, snappy_encode), (LZ4, lz4_encode)])
def test_a_bomb_is_refused_before_it_takes_memory(compression: int, encode: "type[bytes]") -> None:
    bomb = message(encode(message(bytes(50 << 20))), 1, compression)
    tracemalloc.start()
    try:
        with pytest.raises(BatchTooLarge):
            to_batches(bomb, LIMIT)
        assert tracemalloc.get_traced_memory()[1] < 8 * (len(bomb) + LIMIT)
    finally:
        tracemalloc.stop()


def test_many_small_bombs_share_the_limit() -> None:
    one = message(gzip_encode(message(bytes(LIMIT // 3))), 1, GZIP)
    assert len(records_in(to_batches(one * 2, LIMIT))) == 2
    with pytest.raises(BatchTooLarge):
        to_batches(one * 4, LIMIT)


STARTS = [
    message(b"a", 0) + message(None, 1, key=b"k"),
    message(gzip_encode(message(b"a", 0) * 3), 0, GZIP),
    message(snappy_encode(message(b"a", 1) * 3), 1, SNAPPY),
    message(lz4_encode(message(b"a", 0) * 3), 0, LZ4),
    message(lz4_encode(message(b"a", 1) * 3), 1, LZ4),
]


@settings(max_examples=examples(1500), deadline=None)
@given(st.data())
def test_no_bytes_do_anything_else(data: st.DataObject) -> None:
    """Whatever is changed, with checksums that fit so that it is looked at: batches that can be read, or a refusal."""
    hurt = data.draw(st.sampled_from(STARTS) | st.binary(max_size=60))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(hurt)))
        hurt = hurt[:at] + data.draw(st.binary(max_size=4)) + hurt[at + data.draw(st.integers(0, 4)) :]
    if len(hurt) > 16 and data.draw(st.booleans()):
        hurt = _with(hurt[:8] + (len(hurt) - 12).to_bytes(4, "big") + hurt[12:], 16, hurt[16:17])
    try:
        batches = to_batches(hurt, 4096)
    except (CorruptBatch, InvalidRecord):
        return
    assert len(batches) <= len(hurt) * 10 + 2 * 4096
    assert records_in(batches)
