"""Every kind of damage is refused with the exception that says whose fault it is, in linear time."""

import struct
import time
import tracemalloc
from collections.abc import Callable

import pytest

from bridge.codec import Rebuild, Record, Twin
from bridge.errors import CorruptBatch, CorruptEntry, InvalidRecord
from tests.codec.samples import framed, own, plain, raw_record, section, varint, with_checksum

GOOD = raw_record(0) + raw_record(1)
LONG = b"\x80" * 4 + b"\x00"  # zero in five bytes


def whole(codec: Twin) -> bytes:
    batch: bytes = codec.build_batch([Record(at, 1000, b"key", b"value", [(b"h", b"t")]) for at in range(3)], own(3))
    return batch


FRAMING: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda batch: b"",
    "half a header": lambda batch: batch[:30],
    "last byte lost": lambda batch: batch[:-1],
    "a byte too many": lambda batch: batch + b"\0",
    "length too small": lambda batch: batch[:8] + struct.pack(">i", 10) + batch[12:],
    "length negative": lambda batch: batch[:8] + struct.pack(">i", -1) + batch[12:],
    "length huge": lambda batch: batch[:8] + b"\x7f\xff\xff\xff" + batch[12:],
    "magic 0": lambda batch: batch[:16] + b"\0" + batch[17:],
    "magic 1": lambda batch: batch[:16] + b"\1" + batch[17:],
    "magic 3": lambda batch: batch[:16] + b"\3" + batch[17:],
    "magic -1": lambda batch: batch[:16] + b"\xff" + batch[17:],
    "checksum 0": lambda batch: batch[:17] + bytes(4) + batch[21:],
    "a record's bit": lambda batch: batch[:-3] + bytes([batch[-3] ^ 1]) + batch[-2:],
    "the count's bit": lambda batch: batch[:60] + bytes([batch[60] ^ 1]) + batch[61:],
    "noise": lambda batch: bytes(range(256)),
}


@pytest.mark.parametrize("kind", FRAMING)
def test_broken_framing(codec: Twin, kind: str) -> None:
    with pytest.raises(CorruptBatch):
        codec.read_header(FRAMING[kind](whole(codec)))


def test_offset_and_leader_epoch_are_outside_the_checksum(codec: Twin) -> None:
    batch = bytearray(whole(codec))
    batch[:8], batch[12:16] = (77).to_bytes(8, "big"), (5).to_bytes(4, "big")
    assert codec.read_header(bytes(batch))[:3:2] == (77, 5)
    assert with_checksum(batch) == bytes(batch)


RECORDS = {
    "count 0": (GOOD, 0),
    "count negative": (GOOD, -1),
    "count too small": (GOOD, 1),
    "count too large": (GOOD, 3),
    "count that cannot be": (GOOD, (1 << 31) - 1),
    "count larger, padding there": (GOOD + bytes(20), 5),
    "no records": (b"", 1),
    "cut": (GOOD[:-1], 2),
    "cut in a varint": (raw_record(0, value=b"\xff"), 1),
    "bytes between": (GOOD[:9] + b"\0" + GOOD[9:], 2),
    "bytes after": (GOOD + b"\0", 2),
    "delta repeated": (raw_record(0) * 2, 2),
    "delta from 1": (raw_record(1), 1),
    "delta negative": (raw_record(-1), 1),
    "length 0": (b"\0" * 30, 1),
    "length -1": (raw_record(0, length=-1), 1),
    "length one less": (raw_record(0, length=7), 1),
    "length one more": (raw_record(0, length=9) + bytes(10), 1),
    "length huge": (raw_record(0, length=(1 << 31) - 1), 1),
    "length beyond the batch": (raw_record(0, length=60), 1),
    "key -2": (raw_record(0, key=b"\x03k"), 1),
    "key beyond the record": (raw_record(0, key=b"\x20k") + bytes(40), 1),
    "key ends with the record": (raw_record(0, key=b"\x08k") + bytes(40), 1),
    "long key beyond the record": (raw_record(0, key=b"\xc8\x01k") + bytes(200), 1),
    "key beyond everything": (raw_record(0, key=varint((1 << 31) - 1)), 1),
    "value -2": (raw_record(0, value=b"\x03v"), 1),
    "value min": (raw_record(0, value=varint(-(1 << 31))), 1),
    "value beyond": (raw_record(0, value=b"\x08v"), 1),
    "headers -1": (raw_record(0, headers=b"\x01"), 1),
    "headers 1 of 0": (raw_record(0, headers=b"\x02"), 1),
    "headers huge": (raw_record(0, headers=varint(300_000) + bytes(80)), 1),
    "headers run on": (raw_record(0, headers=b"\x04\x00\x00\x08a"), 1),
    "header key null": (raw_record(0, headers=b"\x02\x01\x00"), 1),
    "header key -3": (raw_record(0, headers=b"\x02\x05\x00"), 1),
    "header length walks back": (raw_record(0, headers=b"\x04\x02a\x0b\x00\x00\x00"), 1),
    "header value beyond": (raw_record(0, headers=b"\x02\x02a\x08b"), 1),
    "6 bytes of varint": (raw_record(0, delta_bytes=b"\x80" * 5 + b"\0"), 1),
    "33 bits of varint": (raw_record(0, delta_bytes=b"\x80" * 4 + b"\x10"), 1),
    "11 bytes of varlong": (raw_record(0, moved=b"\x80" * 10 + b"\0"), 1),
    "65 bits of varlong": (raw_record(0, moved=b"\x80" * 9 + b"\x02"), 1),
    "varint without end": (b"\xff" * 40, 1),
    "noise": (bytes(range(255, 0, -1)), 3),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_broken_records(codec: Twin, kind: str) -> None:
    records, count = RECORDS[kind]
    with pytest.raises(InvalidRecord):
        codec.encode_payload(records, count, 0)
    with pytest.raises(InvalidRecord):  # a listed batch may have gaps: its deltas are not held against it
        codec.read_records(
            with_checksum(whole(codec)[:57] + struct.pack(">i", count)), b"\xff" if "delta" in kind else records
        )


@pytest.mark.parametrize(
    "record",
    [raw_record(0, delta_bytes=LONG), raw_record(0, moved=b"\x80" * 9 + b"\0"), raw_record(0, key=b"\x82\0k"),
     raw_record(0, value=b"\x82\x80\x80\x80\0v"), raw_record(0, headers=b"\x80\0"), b"\x90\x80\0" + raw_record(0)[1:]],
)  # fmt: skip
def test_varints_longer_than_need_be_are_read(codec: Twin, record: bytes) -> None:
    if record[0] != 0x90:
        record = varint(len(record) - 1) + record[1:]
    assert codec.encode_payload(record, 1, 5).data == codec.encode_payload(raw_record(0), 1, 5).data


def test_the_largest_varints(codec: Twin) -> None:
    moved = varint(-(1 << 63))
    assert codec.encode_payload(raw_record(0, moved=moved), 1, -1).max_timestamp == (1 << 63) - 1
    batch = whole(codec)[:57] + struct.pack(">i", 1)
    (record,) = codec.read_records(batch, raw_record(-(1 << 31)))
    assert record.offset == -(1 << 31)


SIZE = b"\x18\x01"
PAYLOADS = {
    "nothing": (b"", 1),
    "count 0": (framed(SIZE, b"v"), 0),
    "count negative": (framed(SIZE, b"v"), -1),
    "count too small": (framed(SIZE, b"v") * 2, 1),
    "count too large": (framed(SIZE, b"v") * 2, 3),
    "count too large, padding there": (framed(SIZE, b"v") + bytes(20), 3),
    "count that cannot be": (framed(SIZE, b"v"), (1 << 31) - 1),
    "size beyond": (b"\xff\xff\xff\xff" + SIZE + b"v", 1),
    "size short": (b"\0\0\0\x01" + SIZE + b"vvvv", 1),
    "size cut": (framed(SIZE, b"v" * 9) + b"\0\0", 2),
    "no payload size": (framed(b"\x28\x05\x28\x06"), 1),
    "no payload size, and rare": (framed(b"\x48\x00\x48\x00"), 1),
    "payload size beyond": (framed(b"\x18\x05", b"v"), 1),
    "payload size negative": (framed(b"\x18" + plain((1 << 64) - 1), b"v"), 1),
    "payload size 2^31": (framed(b"\x18" + plain(1 << 31), b"v"), 1),
    "payload size negative, and rare": (framed(b"\x48\x01\x18" + plain((1 << 64) - 1), b"v"), 1),
    "value cut": (framed(b"\x18\x04", b"vvv"), 1),
    "field number 0": (framed(SIZE + b"\x00\x00", b"v"), 1),
    "tag above 32 bits": (framed(SIZE + plain(1 << 32 | 8) + b"\0", b"v"), 1),
    "group": (framed(SIZE + b"\x53\x54", b"v"), 1),
    "end of group": (framed(SIZE + b"\x54", b"v"), 1),
    "wire type 6": (framed(SIZE + b"\x56", b"v"), 1),
    "wire type 7": (framed(SIZE + b"\x57", b"v"), 1),
    "8 bytes beyond": (framed(SIZE + b"\x51\0", b"v"), 1),
    "4 bytes beyond": (framed(SIZE + b"\x55\0", b"v"), 1),
    "key beyond its message": (framed(SIZE + b"\x12\x05k", b"v" * 9), 1),
    "key beyond everything": (framed(SIZE + b"\x12" + plain((1 << 64) - 1) + b"k", b"v"), 1),
    "ordering key beyond": (framed(SIZE + b"\x3a\x05k", b"v" * 9), 1),
    "time beyond its message": (framed(SIZE + b"\x28", b"\x05" + b"v" * 9), 1),
    "remembered time beyond its message": (
        framed(b"\x18\0\x28" + plain(1 << 20)) + framed(b"\x18\0\x28\x80", b"\x80\x40vvvv"), 2),
    "varint of 11 bytes": (framed(SIZE + b"\x28" + b"\x80" * 10 + b"\0", b"v"), 1),
    "sequence id of 11 bytes": (framed(SIZE + b"\x40" + b"\x80" * 10 + b"\0", b"v"), 1),
    "varint without end": (framed(SIZE + b"\x48\xff"), 1),
    "tag at the end": (framed(SIZE + b"\x48"), 1),
    "key is not base64": (framed(SIZE + b"\x30\x01\x12\x04!!!!", b"v"), 1),
    "key is base64 without padding": (framed(SIZE + b"\x30\x01\x12\x02YQ", b"v"), 1),
    "key is base64 with a line end": (framed(SIZE + b"\x30\x01\x12\x05YQ==\n", b"v"), 1),
    "key is base64 with more": (framed(SIZE + b"\x30\x01\x12\x08YQ==YQ==", b"v"), 1),
    "key is padding": (framed(SIZE + b"\x30\x01\x12\x04====", b"v"), 1),
    "key is url base64": (framed(SIZE + b"\x30\x01\x12\x04-_-_", b"v"), 1),
    "property without a name": (framed(SIZE + b"\x0a\x02\x12\x00", b"v"), 1),
    "property without a text": (framed(SIZE + b"\x0a\x02\x0a\x00", b"v"), 1),
    "property cut": (framed(SIZE + b"\x0a\x05\x0a\x00\x12\x05v", b"v" * 9), 1),
    "property's varint beyond": (framed(SIZE + b"\x0a\x06\x0a\x00\x12\x00\x18\xff", b"v"), 1),
    "property's 8 bytes beyond": (framed(SIZE + b"\x0a\x06\x0a\x00\x12\x00\x19\x00", b"v"), 1),
    "property's group": (framed(SIZE + b"\x0a\x05\x0a\x00\x12\x00\x1b", b"v"), 1),
    "header key marked null": (framed(SIZE + b"\x0a\x0c\x0a\x08base64:!\x12\x00", b"v"), 1),
    "header marked with noise": (framed(SIZE + b"\x0a\x0c\x0a\x00\x12\x08base64:?", b"v"), 1),
    "noise": (bytes(range(255)), 3),
}  # fmt: skip


@pytest.mark.parametrize("kind", PAYLOADS)
def test_broken_payloads(codec: Twin, kind: str) -> None:
    payload, count = PAYLOADS[kind]
    with pytest.raises(CorruptEntry):
        codec.decode_payload(payload, count, own(1))


@pytest.mark.parametrize(
    "metadata",
    [b"\x98\0\x01\x12\x01k", b"\x18\x81\0\x12\x81\0k", b"\x18\x09\x12\x01x\x12\x01k\x18\x01",
     b"\x1a\0\x18\x01\x12\x01k",
     b"\x30\x01\x12\x04aw==\x18\x01", b"\x30\x01\x12\x04ax==\x18\x01", b"\x30" + b"\x80" * 9 + b"\x02\x12\x01k\x18\x01",
     b"\x18" + b"\x81" + b"\x80" * 3 + b"\x10\x12\x01k", b"\x3a\x01k\x18\x01", b"\x12\x01k\x3a\x01x\x18\x01"],
)  # fmt: skip
def test_one_meaning_many_ways_to_write_it(codec: Twin, metadata: bytes) -> None:
    batch = codec.decode_payload(framed(metadata, b"v"), 1, own(1))
    assert codec.read_records(batch) == [Record(0, -1, b"k", b"v", [])]


def test_a_property_may_have_more_fields_and_a_null_value_bytes(codec: Twin) -> None:
    kv = b"\x18\x07\x0a\x01x\x0a\x01n\x1d\0\0\0\0\x22\x01z\x12\x01t\x19" + bytes(8)
    batch = codec.decode_payload(framed(b"\x0a" + plain(len(kv)) + kv + b"\x48\x01\x18\x02", b"vv"), 1, own(1))
    assert codec.read_records(batch) == [Record(0, -1, None, None, [(b"n", b"t")])]


def _tiny_records(size: int) -> tuple[bytes, int]:
    count = size // 10
    return b"".join(raw_record(at, key=b"\x01", value=b"\x01") for at in range(count)), count


WORST: dict[str, Callable[[Twin], object]] = {
    "tiny records": lambda c: c.encode_payload(*_tiny_records(40_000), 0),
    "empty headers": lambda c: c.encode_payload(raw_record(0, headers=varint(30_000) + bytes(60_000)), 1, 0),
    "null headers": lambda c: c.encode_payload(raw_record(0, headers=varint(20_000) + b"\x00\x01" * 20_000), 1, 0),
    "tiny messages": lambda c: c.decode_payload(framed(b"\x18\0") * 8_000, 8_000, Rebuild(0, 8_000, 0)),
    "empty properties": lambda c: c.decode_payload(framed(b"\x0a\x04\x0a\0\x12\0" * 8_000 + b"\x18\0"), 1, own(1)),
    "unknown fields": lambda c: c.decode_payload(framed(b"\x50\0" * 20_000 + b"\x18\0"), 1, own(1)),
    "rare after long": lambda c: c.decode_payload(framed(b"\x18\0" * 20_000 + b"\x48\0"), 1, own(1)),
}


@pytest.mark.parametrize("kind", WORST)
def test_worst_input_costs_in_proportion_to_its_bytes(codec: Twin, kind: str) -> None:
    """About 40 to 60 KB each; measured below 0.05 s and at most 25 bytes of memory a byte of input."""
    started = time.thread_time()
    WORST[kind](codec)
    assert time.thread_time() - started < 5
    tracemalloc.start()
    try:
        WORST[kind](codec)
        assert tracemalloc.get_traced_memory()[1] < 50 * 60_000
    finally:
        tracemalloc.stop()


def test_what_is_refused_shows_no_record(codec: Twin) -> None:
    batch = whole(codec)
    with pytest.raises(InvalidRecord) as caught:
        codec.encode_payload(section(batch).replace(b"value", b"secre"), 2, 0)
    assert "secre" not in str(caught.value)
