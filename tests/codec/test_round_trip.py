"""Kafka batch → Pulsar payload → Kafka batch loses nothing, and google's protobuf reads and writes the same payload."""

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.codec import NO_PRODUCER, BatchHeader, Rebuild, Record, Twin
from bridge.errors import CorruptBatch, CorruptEntry, InvalidRecord
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from tests.codec.samples import I64, NOW, framed, oldest, optional, own, plain, record_lists, section
from tests.support.effort import examples


def payload_of(codec: Twin, batch: bytes) -> Any:
    header = codec.read_header(batch)
    return codec.encode_payload(section(batch), header.record_count, header.base_timestamp)


def messages(payload: bytes, count: int) -> list[tuple[pb.SingleMessageMetadata, bytes, bytes]]:
    """What google's protobuf reads: metadata, its bytes, value."""
    out = []
    pos = 0
    for _ in range(count):
        size = int.from_bytes(payload[pos : pos + 4], "big")
        raw = payload[pos + 4 : pos + 4 + size]
        metadata = pb.SingleMessageMetadata.FromString(raw)
        pos += 4 + size
        out.append((metadata, raw, payload[pos : pos + metadata.payload_size]))
        pos += metadata.payload_size
    assert pos == len(payload)
    return out


@given(record_lists(base_offset=70), st.tuples(I64, st.integers(-1, 32767), st.integers(-1, 1 << 30)))
@settings(max_examples=examples(150), deadline=None)
def test_every_field_comes_back(codec: Twin, records: list[Record], producer: tuple[int, int, int]) -> None:
    rebuild = Rebuild(70, len(records), 0, own=True, escaped=True, producer=producer)
    batch = codec.build_batch(records, rebuild)
    assert codec.read_records(batch) == records
    payload = payload_of(codec, batch)
    assert payload.max_timestamp == max(record.timestamp for record in records)
    assert payload.min_timestamp == oldest(records)
    assert codec.decode_payload(payload.data, len(records), rebuild._replace(escaped=payload.escaped)) == batch


@given(record_lists())
@settings(max_examples=examples(150), deadline=None)
def test_protobuf_reads_what_we_write(codec: Twin, records: list[Record]) -> None:
    payload = payload_of(codec, codec.build_batch(records, own(len(records))))
    for record, (metadata, raw, value) in zip(records, messages(payload.data, len(records)), strict=True):
        assert metadata.SerializeToString() == raw
        assert value == (record.value or b"") and metadata.null_value == (record.value is None)
        assert metadata.HasField("event_time") == (record.timestamp != -1)
        assert metadata.event_time == (0 if record.timestamp == -1 else record.timestamp & (1 << 64) - 1)
        assert metadata.HasField("partition_key") == (record.key is not None)
        assert len(metadata.properties) == len(record.headers)
        if not payload.escaped:
            assert [(p.key.encode(), p.value.encode()) for p in metadata.properties] == record.headers


@pytest.mark.parametrize(
    ("header", "escaped"),
    [((b"a", b"text"), False), ((b"", b""), False), (("ключ".encode(), "é".encode()), False), ((b"\0", b"\n"), False),
     ((b"a", None), True), ((b"a", b"\xff"), True), ((b"\xff", b"a"), True), ((b"base64:", b""), True),
     ((b"a", b"base64:YQ=="), True), ((b"a", b"base64:!"), True), ((b"a", b"\xed\xa0\x80"), True)],
)  # fmt: skip
def test_text_stays_text(codec: Twin, header: tuple[bytes, bytes | None], escaped: bool) -> None:
    records = [Record(0, NOW, None, b"", [header, header])]
    payload = payload_of(codec, codec.build_batch(records, own(1)))
    assert payload.escaped is escaped
    if not escaped:
        ((metadata, _, _),) = messages(payload.data, 1)
        assert [(p.key.encode(), p.value.encode()) for p in metadata.properties] == [header, header]
    assert codec.read_records(codec.decode_payload(payload.data, 1, own(1, escaped=escaped))) == records


@pytest.mark.parametrize(
    ("key", "stored", "flag"),
    [(b"plain", "plain", False), (b"", "", False), ("ключ".encode(), "ключ", False), (b"\xff", "/w==", True),
     (b"\xc0\x80", "wIA=", True), (b"k" * 200, "k" * 200, False), (b"\xff" * 200, "/" * 266 + "w==", True)],
)  # fmt: skip
def test_text_keys_are_plain_and_others_flagged(codec: Twin, key: bytes, stored: str, flag: bool) -> None:
    payload = payload_of(codec, codec.build_batch([Record(0, -1, key, None, [])], own(1)))
    ((metadata, _, _),) = messages(payload.data, 1)
    if key == b"\xff" * 200:
        assert len(metadata.partition_key) == 268
    else:
        assert metadata.partition_key == stored
    assert metadata.partition_key_b64_encoded is flag
    assert codec.read_records(codec.decode_payload(payload.data, 1, own(1)))[0].key == key


@pytest.mark.parametrize("size", [0, 63, 64, 127, 128, 2047, 2048, 8191, 8192, 70_000])
@pytest.mark.parametrize("count", [1, 70])
def test_lengths_at_the_edges_of_varints(codec: Twin, size: int, count: int) -> None:
    records = [
        Record(at, NOW + 300 * at, b"k" * size, b"v" * size, [(b"h" * size, b"t" * size)]) for at in range(count)
    ]
    batch = codec.build_batch(records, own(count))
    assert codec.decode_payload(payload_of(codec, batch).data, count, own(count, escaped=False)) == batch


def test_offsets_beyond_small_deltas(codec: Twin) -> None:
    records = [Record(at, NOW, None, b"", []) for at in range(17_000)]
    batch = codec.build_batch(records, own(17_000))
    assert codec.decode_payload(payload_of(codec, batch).data, 17_000, own(17_000)) == batch


def test_timestamps_that_share_and_do_not_share_their_high_bits(codec: Twin) -> None:
    times = [
        NOW,
        NOW + 1,
        NOW,
        5,
        200,
        9,
        NOW + (1 << 14),
        NOW,
        1 << 14,
        (1 << 14) + 200,
        1 << 21,
        (1 << 21) + 130,
        -7,
        -8,
    ]
    records = [Record(at, time, None, b"", []) for at, time in enumerate(times)]
    batch = codec.build_batch(records, own(len(times)))
    payload = payload_of(codec, batch).data
    assert [m.event_time for m, _, _ in messages(payload, len(times))] == [t & (1 << 64) - 1 for t in times]
    assert codec.decode_payload(payload, len(times), own(len(times))) == batch


@st.composite
def foreign(draw: st.DrawFn) -> tuple[bytes, bytes, Record]:
    """A message as another library may write it: fields in any order, twice, or unknown; and what it means."""
    metadata = pb.SingleMessageMetadata(payload_size=0)
    key, ordering, value = draw(optional), draw(optional), draw(st.binary(max_size=40))
    texts = draw(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=3))
    time = draw(st.none() | st.integers(0, NOW * 2))
    metadata.payload_size = len(value)
    if key is not None:
        metadata.partition_key, metadata.partition_key_b64_encoded = pb_base64(key), True
    if ordering is not None:
        metadata.ordering_key = ordering
    if time is not None:
        metadata.event_time = time
    null = draw(st.booleans())
    if draw(st.booleans()):
        metadata.sequence_id = draw(st.integers(0, (1 << 64) - 1))
    if null or draw(st.booleans()):
        metadata.null_value = null
    if draw(st.booleans()):
        metadata.null_partition_key = draw(st.booleans())
    for name, text in texts:
        metadata.properties.add(key=name, value=text)
    fields = [bytes(f) for f in split(metadata)]
    unknown = [
        b"\xf8\x01\x07",
        b"\xfa\x01\x02hi",
        b"\xf9\x01" + bytes(8),
        b"\xfd\x01" + bytes(4),
        plain(0xFFFFFFF8) + b"\0",
    ]
    fields += draw(st.lists(st.sampled_from(unknown), max_size=3))
    order = draw(st.permutations([f for f in fields if f[:1] != b"\x0a"]))
    fields = [*order, *(f for f in fields if f[:1] == b"\x0a")]
    if draw(st.booleans()):
        fields.insert(0, b"\x18\x05")  # the last of a repeated field wins
    headers = [(name.encode(), text.encode()) for name, text in texts]
    record = Record(0, time or 77, ordering if key is None else key, None if null else value, headers)
    return b"".join(fields), value, record


def pb_base64(key: bytes) -> str:
    return base64.b64encode(key).decode()


def split(metadata: pb.SingleMessageMetadata) -> list[bytes]:
    """The encoded fields one by one."""
    out = []
    for field, value in metadata.ListFields():
        for one in value if field.name == "properties" else [value]:
            single = pb.SingleMessageMetadata()
            if field.name == "properties":
                single.properties.add().CopyFrom(one)
            else:
                setattr(single, field.name, one)
            out.append(single.SerializePartialToString())
    return out


@given(st.lists(foreign(), min_size=1, max_size=5))
@settings(max_examples=examples(150), deadline=None)
def test_we_read_what_protobuf_writes(codec: Twin, made: list[tuple[bytes, bytes, Record]]) -> None:
    payload = b"".join(framed(metadata, value) for metadata, value, _ in made)
    for metadata, _, record in made:
        assert pb.SingleMessageMetadata.FromString(metadata).null_value == (record.value is None)
    batch = codec.decode_payload(payload, len(made), Rebuild(5, len(made), 77))
    expected = [record._replace(offset=5 + at) for at, (_, _, record) in enumerate(made)]
    assert codec.read_records(batch) == expected
    assert batch == codec.build_batch(expected, Rebuild(5, len(made), 77))


def test_times_of_other_writers(codec: Twin) -> None:
    payload = framed(b"\x18\0") + framed(b"\x18\0\x28\0") + framed(b"\x18\0\x28\x09")
    others = codec.read_records(codec.decode_payload(payload, 3, Rebuild(0, 3, 77)))
    ours = codec.read_records(codec.decode_payload(payload, 3, Rebuild(0, 3, 77, own=True)))
    assert [record.timestamp for record in others] == [77, 77, 9]
    assert [record.timestamp for record in ours] == [-1, 0, 9]


def test_compacted_messages_leave_gaps(codec: Twin) -> None:
    out = b"\x18\x01\x20\x01"
    payload = framed(out, b"x") + framed(b"\x18\x01", b"a") + framed(out, b"x") + framed(b"\x18\x01\x20\0", b"b")
    batch = codec.decode_payload(payload, 4, Rebuild(10, 4, 77))
    assert [(r.offset, r.value) for r in codec.read_records(batch)] == [(11, b"a"), (13, b"b")]
    assert codec.read_header(batch).last_offset_delta == 3


def test_a_batch_may_be_compacted_away(codec: Twin) -> None:
    batch = codec.decode_payload(framed(b"\x18\0\x20\x01"), 1, Rebuild(10, 1, 77))
    assert batch == codec.build_batch([], Rebuild(10, 1, 77))
    assert codec.read_records(batch) == []
    header = codec.read_header(memoryview(batch))
    assert header == BatchHeader(10, 49, 0, 2, header.crc, 0, 0, 77, 77, *NO_PRODUCER, 0)


@given(record_lists())
@settings(max_examples=examples(50), deadline=None)
def test_records_that_were_compressed(codec: Twin, records: list[Record]) -> None:
    batch = codec.build_batch(records, own(len(records)))
    assert codec.read_records(memoryview(batch)[:61], section(batch)) == records


def test_unsigned_timestamps_are_taken_as_signed(codec: Twin) -> None:
    records = [Record(0, (1 << 64) - 5, None, b"", []), Record(1, 1 << 63, None, b"", [])]
    read = codec.read_records(codec.build_batch(records, own(2)))
    assert [record.timestamp for record in read] == [-5, -(1 << 63)]


@pytest.mark.parametrize(
    "rebuild",
    [Rebuild(1 << 63, 1, 0), Rebuild(0, 1 << 32, 0), Rebuild(0, 1, 1 << 63), Rebuild(0, 1, 0, producer=(1 << 63, 0, 0)),
     Rebuild(0, 1, 0, producer=(0, 1 << 15, 0)), Rebuild(0, 1, 0, producer=(0, 0, 1 << 31))],
)  # fmt: skip
def test_an_entry_that_does_not_fit_a_batch(codec: Twin, rebuild: Rebuild) -> None:
    with pytest.raises(CorruptEntry):
        codec.decode_payload(framed(b"\x18\0"), 1, rebuild)
    with pytest.raises(CorruptEntry):
        codec.build_batch([], rebuild)


@pytest.mark.parametrize("count", [2, 0, -1, 1 << 30])
def test_a_listed_batch_counts_its_records(codec: Twin, count: int) -> None:
    batch = bytearray(codec.build_batch([Record(0, 0, None, b"v" * 20, [])], own(1)))
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    with pytest.raises(InvalidRecord):
        codec.read_records(bytes(batch))


def test_listing_half_a_header_or_too_much(codec: Twin) -> None:
    batch = codec.build_batch([Record(0, 0, None, b"v" * 20, [])], own(1))
    with pytest.raises(CorruptBatch):
        codec.read_records(batch[:60])
    with pytest.raises(InvalidRecord):
        codec.read_records(batch + b"\0")


@given(record_lists(max_size=12), st.integers(0, 600))
@settings(max_examples=examples(200), deadline=None)
def test_parts_of_a_batch_are_the_batch(codec: Twin, records: list[Record], limit: int) -> None:
    batch = codec.build_batch(records, own(len(records)))
    base_timestamp = codec.read_header(batch).base_timestamp
    rest, first = section(batch), 0
    found: list[Record] = []
    while first < len(records):
        part = codec.encode_payload(rest, len(records) - first, base_timestamp, first, limit)
        assert len(part.data) <= limit or part.records == 1
        there = records[first : first + part.records]
        assert part.max_timestamp == max(record.timestamp for record in there)
        assert part.min_timestamp == oldest(there)
        rebuild = own(part.records, base_offset=first, escaped=part.escaped)
        found += codec.read_records(codec.decode_payload(part.data, part.records, rebuild))
        rest, first = rest[part.read :], first + part.records
    assert rest == b"" and found == records
    whole = codec.encode_payload(section(batch), len(records), base_timestamp)
    assert (whole.records, whole.read) == (len(records), len(section(batch)))
    assert codec.encode_payload(section(batch), len(records), base_timestamp, 0, len(whole.data)) == whole


@given(record_lists())
@settings(max_examples=examples(100), deadline=None)
def test_records_are_checked_without_being_made(codec: Twin, records: list[Record]) -> None:
    batch = codec.build_batch(records, own(len(records)))
    checked = codec.check_records(section(batch), len(records), codec.read_header(batch).base_timestamp)
    assert checked.max_timestamp == max(record.timestamp for record in records)
    assert checked.min_timestamp == oldest(records)
    assert checked.keyed == all(record.key is not None for record in records)
    with pytest.raises(InvalidRecord):
        codec.check_records(section(batch), len(records) + 1, 0)
