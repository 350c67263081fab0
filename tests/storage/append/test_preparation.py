"""What Kafka clients send becomes entries that give it back exactly: both formats, every codec, whole and in parts."""

import random
from collections.abc import Iterator

import crc32c
import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge import codec
from bridge.codec import HEADER_SIZE, TRANSACTIONAL, Rebuild, Record, Twin
from bridge.codec.compression import KafkaCodec, PulsarCodec
from bridge.errors import BatchTooLarge, CorruptBatch, InvalidRecord, KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import Entry, Position
from bridge.storage import entries
from bridge.storage.append.preparation import (
    MAX_LARGE_RECORDS,
    METADATA_BYTES,
    Plan,
    PreparedEntry,
    needs_thread,
    prepare_entries,
    prepare_records,
)
from bridge.storage.entries import TimeMark, to_kafka, transaction_of
from bridge.storage.visibility import Identity, Transaction
from tests.codec.conftest import codec as twins
from tests.codec.samples import not_negative, record_lists
from tests.storage.append.batches import EVER, LIMIT, NOW, batch_of, codecs, numbered
from tests.support.batch_maker import BatchMaker
from tests.support.effort import examples

FORMATS = ("pulsar", "kafka")
LINKED = lz4.frame.compress(bytes(200_000), block_linked=True)
"""Which no Java client reads."""
formats = st.sampled_from(FORMATS)
twin = twins


@pytest.fixture(autouse=True)
def in_use(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each twin in turn is the one that the bridge uses."""
    for name in (
        "read_header",
        "encode_payload",
        "check_records",
        "decode_payload",
        "build_batch",
        "read_records",
    ):
        monkeypatch.setattr(codec, name, getattr(twin, name))


def stored(prepared: list[PreparedEntry], base: int = 0) -> Iterator[Entry]:
    """The entries as a broker gives them back, each chunk of a large one at its record's offset."""
    for number, one in enumerate(in_chunks(prepared)):
        if one.message is None or one.message.chunk is None or one.message.chunk.is_last:
            base += one.record_count
        metadata = one.metadata(TimeMark(1, 0))
        if one.message is not None:
            one.message.add_headers(metadata)
        metadata.producer_name, metadata.sequence_id, metadata.publish_time = "p", number, NOW
        parsed = pb.MessageMetadata.FromString(metadata.SerializeToString())
        yield Entry(Position(1, number), base - 1, None, parsed, memoryview(one.data), len(one.data))


def in_chunks(prepared: list[PreparedEntry]) -> Iterator[PreparedEntry]:
    for number, one in enumerate(prepared):
        yield from one.chunks(f"u{number}") if one.is_large else [one]


def fetched(prepared: list[PreparedEntry], base: int = 0, *, compress: bool = False) -> list[bytes]:
    """What consumers get of them."""
    maker = BatchMaker(LIMIT, compress=compress)
    return [found for entry in stored(prepared, base) if (found := maker.make(entry).kafka())]


def records_in(batches: list[bytes]) -> list[Record]:
    return [record for batch in batches for record in entries.records_of(batch)]


def changed(batch: memoryview, at: int, value: bytes) -> memoryview:
    """A batch with some bytes changed and its checksum corrected."""
    out = bytearray(batch)
    out[at : at + len(value)] = value
    out[17:21] = crc32c.crc32c(bytes(out[21:])).to_bytes(4, "big")
    return memoryview(bytes(out))


def fits(record: Record, plan: Plan) -> bool:
    try:
        return len(prepare_entries(batch_of([record._replace(offset=0)]), plan, NOW)) == 1
    except BatchTooLarge:
        return False


# --- round trips


@given(record_lists(times=not_negative), codecs, formats, st.booleans(), st.integers(0, 1 << 40))
@settings(max_examples=examples(150), deadline=None)
def test_what_is_prepared_reads_back_exactly(
    records: list[Record], of_client: KafkaCodec, entry_format: str, compress: bool, base: int
) -> None:
    prepared = prepare_entries(
        batch_of(records, of_client, (9, 1, 5)), Plan(LIMIT, entry_format, after_max_ms=EVER), NOW
    )
    (batch,) = fetched(prepared, base, compress=compress)
    header = codec.read_header(batch)
    assert records_in([batch]) == [one._replace(offset=base + one.offset) for one in records]
    assert (header.base_offset, header.producer_id, header.producer_epoch, header.base_sequence) == (base, 9, 1, 5)
    assert header.max_timestamp == max(one.timestamp for one in records) == prepared[0].max_timestamp


@given(record_lists(max_size=20, times=not_negative), codecs, formats, st.booleans(), st.integers(256, 900))
@settings(max_examples=examples(150), deadline=None)
def test_a_batch_in_parts_reads_back_exactly(
    records: list[Record], of_client: KafkaCodec, entry_format: str, compress: bool, largest: int
) -> None:
    plan = Plan(largest, entry_format, after_max_ms=EVER)
    sent = batch_of(records, of_client, (9, 1, (1 << 31) - 3))
    try:
        prepared = prepare_entries(sent, plan, NOW)
    except BatchTooLarge:
        plain = codec.build_batch(records, Rebuild(0, len(records), 0))
        assert (of_client and len(plain) > plan.largest_batch(len(sent))) or any(not fits(one, plan) for one in records)
        return
    except KafkaError as error:
        assert error.code == ErrorCode.RECORD_LIST_TOO_LARGE
        return
    assert all(len(one.data) <= largest for one in in_chunks(prepared))
    assert prepare_entries(sent, plan, NOW) == prepared  # a repetition is cut as the original was
    batches = fetched(prepared, 77, compress=compress)
    assert records_in(batches) == [one._replace(offset=77 + one.offset) for one in records]
    sequence = (1 << 31) - 3
    for batch, one in zip(batches, prepared, strict=True):
        assert codec.read_header(batch).base_sequence == sequence == one.producer[2]
        assert entries.producer_of(one.metadata(TimeMark(1, 0))) == one.producer
        sequence = (sequence + one.record_count) % (1 << 31)


@pytest.mark.parametrize("entry_format", FORMATS)
@pytest.mark.parametrize("of_client", KafkaCodec)
def test_large_batches_become_few_entries(of_client: KafkaCodec, entry_format: str) -> None:
    records = numbered(2000)
    prepared = prepare_entries(batch_of(records, of_client), Plan(64 << 10, entry_format), NOW)
    assert records_in(fetched(prepared)) == records
    whole = entry_format == "kafka" and of_client != KafkaCodec.NONE
    assert (len(prepared) == 1) if whole else (3 < len(prepared) < 30)


@pytest.mark.parametrize("wanted", KafkaCodec)
@pytest.mark.parametrize("entry_format", FORMATS)
def test_a_record_that_no_entry_holds_is_a_message_in_chunks(entry_format: str, wanted: KafkaCodec) -> None:
    plan = Plan(10_000, entry_format, wanted)
    headers = [("é".encode(), b"\xff"), (b"n", None), (b"kafka.batch", b"mine"), (b"entry.format", b"kafka")]
    sent = [
        Record(0, NOW, None, b"v" * 9_900, []),
        Record(1, -1, b"\xff\x00", random.Random(7).randbytes(45_000), headers),
        Record(2, 0, "ü".encode(), b"w" * 10_000, headers[2:]),
        Record(3, NOW, b"", b"z", headers),
    ]
    prepared = prepare_entries(batch_of(sent, KafkaCodec.NONE, (9, 1, 5)), plan, NOW)
    assert [one.message is not None for one in prepared] == [False, True, True, False]
    assert records_in(fetched(prepared)) == sent
    assert [one.producer[2] for one in prepared] == [5, 6, 7, 8]
    entries_of_1 = [entry for entry in stored(prepared) if entry.metadata.uuid == "u1"]
    assert [entry.metadata.chunk_id for entry in entries_of_1] == list(range(len(entries_of_1))) and entries_of_1[3:]
    for entry in entries_of_1:  # what a native consumer of a message goes by
        metadata = entry.metadata
        assert not metadata.HasField("num_messages_in_batch")
        assert metadata.total_chunk_msg_size == sum(len(one.payload) for one in entries_of_1)
        assert metadata.uncompressed_size == 45_000
        assert metadata.partition_key == "/wA=" and metadata.partition_key_b64_encoded
        assert entry.size + metadata.ByteSize() <= 10_000 + METADATA_BYTES


def test_a_large_record_that_is_compressed_may_need_one_chunk_alone() -> None:
    sent = [Record(0, NOW, b"k", bytes(30_000), [(b"h", b"1")])]
    (prepared,) = prepare_entries(batch_of(sent, KafkaCodec.ZSTD), Plan(10_000), NOW)
    assert not prepared.is_large and prepared.message is not None
    assert records_in(fetched([prepared])) == sent


@pytest.mark.parametrize("entry_format", FORMATS)
def test_what_each_chunk_repeats_is_half_of_an_entry_at_most(entry_format: str) -> None:
    for large in (
        Record(0, NOW, b"k" * 6_000, b"v" * 6_000, []),
        Record(0, NOW, b"k", b"v" * 6_000, [(b"h", b"h" * 6_000)]),
        Record(0, NOW, b"k" * 11_000, None, []),
    ):
        with pytest.raises(BatchTooLarge, match="5000 are the most"):
            prepare_entries(batch_of([large]), Plan(10_000, entry_format), NOW)


def test_native_consumers_can_put_together_the_large_records_of_a_batch() -> None:
    large = [Record(at, NOW, None, b"v" * 10_000, []) for at in range(MAX_LARGE_RECORDS + 1)]
    assert records_in(fetched(prepare_entries(batch_of(large[:-1]), Plan(10_000), NOW))) == large[:-1]
    with pytest.raises(KafkaError) as raised:
        prepare_entries(batch_of(large), Plan(10_000), NOW)
    assert raised.value.code == ErrorCode.RECORD_LIST_TOO_LARGE


# --- format kafka


@pytest.mark.parametrize("of_client", KafkaCodec)
def test_format_kafka_keeps_the_bytes(of_client: KafkaCodec) -> None:
    sent = batch_of(numbered(50), of_client, (1, 2, 3))
    (prepared,) = prepare_entries(sent, Plan(LIMIT, "kafka"), NOW)
    assert prepared.data == sent
    metadata = prepared.metadata(TimeMark(4711, 7))
    assert [(one.key, one.value) for one in metadata.properties] == [
        ("entry.format", "kafka"), ("kafka.batch", '{"v":1,"t":4711,"b":7,"p":[1,2,3]}'),
    ]  # fmt: skip
    assert (metadata.num_messages_in_batch, metadata.compression) == (50, pb.NONE)
    (batch,) = fetched([prepared], 1000)
    assert batch == (1000).to_bytes(8, "big") + sent[8:]


def test_format_kafka_looks_at_records_that_it_can_see() -> None:
    damaged = batch_of(numbered(3))
    damaged = changed(damaged, len(damaged) - 1, b"\x7f")  # more headers than there are bytes
    with pytest.raises(InvalidRecord):
        prepare_entries(damaged, Plan(LIMIT, "kafka"), NOW)


# --- compression


def test_compressed_batches_stand_compressed_in_pulsar() -> None:
    stands = {
        one: prepare_entries(batch_of(numbered(500), one), Plan(LIMIT), NOW)[0] for one in KafkaCodec
    }  # fmt: skip
    assert [one.compression for one in stands.values()] == [
        PulsarCodec.NONE, PulsarCodec.ZLIB, PulsarCodec.SNAPPY, PulsarCodec.LZ4, PulsarCodec.ZSTD,
    ]  # fmt: skip
    plain = stands[KafkaCodec.NONE]
    for one in stands.values():
        assert one.metadata(TimeMark(1, 0)).uncompressed_size == len(plain.data)
        assert one == plain or len(one.data) < len(plain.data) // 2


@pytest.mark.parametrize("of_client", KafkaCodec)
def test_consumers_get_batches_compressed_or_not(of_client: KafkaCodec) -> None:
    prepared = prepare_entries(batch_of(numbered(500), of_client), Plan(LIMIT), NOW)
    for compress, attributes in ((True, of_client), (False, 0)):
        (batch,) = fetched(prepared, compress=compress)
        assert codec.read_header(batch).attributes == attributes
        assert records_in([batch]) == numbered(500)


def test_what_compression_makes_no_smaller_stays_as_it_is() -> None:
    (prepared,) = prepare_entries(batch_of(numbered(1, 1), KafkaCodec.GZIP), Plan(LIMIT), NOW)
    assert prepared.compression == PulsarCodec.NONE


@pytest.mark.parametrize("entry_format", FORMATS)
@pytest.mark.parametrize("wanted", KafkaCodec)
@pytest.mark.parametrize("of_client", KafkaCodec)
def test_a_topic_may_have_a_codec_of_its_own(of_client: KafkaCodec, wanted: KafkaCodec, entry_format: str) -> None:
    prepared = prepare_entries(batch_of(numbered(500), of_client), Plan(LIMIT, entry_format, wanted), NOW)
    (batch,) = fetched(prepared, compress=True)
    assert codec.read_header(batch).attributes == wanted
    assert records_in([batch]) == numbered(500)


@pytest.mark.parametrize("of_client", [one for one in KafkaCodec if one])
def test_compressed_batches_are_bounded(of_client: KafkaCodec) -> None:
    sent = batch_of([Record(0, NOW, None, bytes(50_000), [])], of_client)
    assert prepare_entries(sent, Plan(60_000), NOW)[0].record_count == 1
    assert prepare_entries(sent, Plan(7_000), NOW)[0].record_count == 1
    with pytest.raises(BatchTooLarge):
        prepare_entries(sent, Plan(6_000), NOW)


# --- what is refused


@pytest.mark.parametrize("entry_format", FORMATS)
@pytest.mark.parametrize(
    ("at", "value", "error"),
    [
        (21, b"\x00\x20", InvalidRecord),  # a control batch
        (23, b"\x00\x00\x00\x07", InvalidRecord),  # last offset delta
        (57, b"\x00\x00\x00\x02", InvalidRecord),  # record count
        (57, b"\x7f\xff\xff\xff", InvalidRecord),
        (43, b"\x00" * 8, InvalidRecord),  # a producer id without an epoch
        (21, b"\x00\x07", InvalidRecord),  # an unknown codec
        (16, b"\x01", CorruptBatch),  # magic
    ],
)
def test_what_a_client_may_not_say_is_refused(at: int, value: bytes, error: type[Exception], entry_format: str) -> None:
    with pytest.raises(error):
        prepare_entries(changed(batch_of(numbered(1)), at, value), Plan(LIMIT, entry_format), NOW)


@pytest.mark.parametrize("entry_format", FORMATS)
@pytest.mark.parametrize(("of_client", "packed"), [(KafkaCodec.LZ4, LINKED), (KafkaCodec.GZIP, b"none" * 9)])
def test_what_no_client_reads_is_refused(of_client: KafkaCodec, packed: bytes, entry_format: str) -> None:
    sent = bytearray(bytes(batch_of(numbered(1)))[:HEADER_SIZE] + packed)
    sent[8:12] = (len(sent) - 12).to_bytes(4, "big")
    with pytest.raises(InvalidRecord):
        prepare_entries(changed(memoryview(sent), 21, bytes([0, of_client])), Plan(LIMIT, entry_format), NOW)


@pytest.mark.parametrize("entry_format", FORMATS)
def test_batches_of_an_unknown_transaction_are_refused(entry_format: str) -> None:
    batch = changed(batch_of(numbered(1)), 21, b"\x00\x10")
    with pytest.raises(KafkaError) as raised:
        prepare_records(batch, Plan(LIMIT, entry_format), NOW, allow_zstd=True)
    assert raised.value.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize("entry_format", FORMATS)
@pytest.mark.parametrize("wanted", [None, KafkaCodec.NONE, KafkaCodec.ZSTD])
def test_entries_say_of_which_transaction_they_are(entry_format: str, wanted: KafkaCodec | None) -> None:
    """Large batches are several entries: each says so. A reader sees that the batch is of a transaction."""
    records = [Record(at, NOW, b"k", bytes(900), []) for at in range(40)]
    batch = codec.build_batch(records, Rebuild(0, 40, 0, producer=(7, 3, 0), attributes=TRANSACTIONAL))
    transaction = Transaction(5, Identity(7, 3, 2))
    for limit in (LIMIT, 10_000):
        plan = Plan(limit, entry_format, wanted)
        prepared = prepare_records(memoryview(batch), plan, NOW, allow_zstd=True, transaction=transaction)
        assert (len(prepared) > 1) == (limit == 10_000)
        for one in prepared:
            metadata = one.metadata(TimeMark(NOW, 0))
            assert transaction_of(metadata) == transaction
            entry = Entry(Position(1, 0), one.record_count - 1, None, metadata, memoryview(one.data), len(one.data))
            assert codec.read_header(to_kafka(entry, 0, entry.payload, LIMIT)).attributes & TRANSACTIONAL
            assert transaction_of(one._replace(transaction=None).metadata(TimeMark(NOW, 0))) is None


@pytest.mark.parametrize("of_client", KafkaCodec)
def test_compacted_topics_take_records_with_keys_only(of_client: KafkaCodec) -> None:
    plan = Plan(LIMIT, requires_keys=True)
    assert prepare_entries(batch_of(numbered(50), of_client), plan, NOW)
    keyless = [*numbered(50), Record(50, NOW, None, b"v", [])]
    with pytest.raises(InvalidRecord, match="no key"):
        prepare_entries(batch_of(keyless, of_client), plan, NOW)


# --- timestamps

HOUR = 3_600_000
DAY = 24 * HOUR


def bounded(entry_format: str, before: int = EVER, after: int = HOUR) -> Plan:
    return Plan(LIMIT, entry_format, before_max_ms=before, after_max_ms=after)


def times(*timestamps: int) -> list[Record]:
    return [Record(at, timestamp, b"k", b"v", []) for at, timestamp in enumerate(timestamps)]


@pytest.mark.parametrize("entry_format", FORMATS)
@pytest.mark.parametrize("of_client", KafkaCodec)
@pytest.mark.parametrize(
    ("timestamp", "bounds"),
    [
        (-1, ()), (-1, (DAY,)), (-1, (0, 0)), (0, ()), (NOW, ()), (NOW, (0, 0)), (NOW + HOUR, ()), (NOW - DAY, (DAY,)),
        (EVER, (EVER, EVER)),
    ],
)  # fmt: skip
def test_timestamps_within_the_topic_s_bounds_are_taken(
    timestamp: int, bounds: tuple[int, ...], of_client: KafkaCodec, entry_format: str
) -> None:
    records = times(timestamp, timestamp)
    (prepared,) = prepare_entries(batch_of(records, of_client), bounded(entry_format, *bounds), NOW)
    assert records_in(fetched([prepared])) == records
    assert prepared.max_timestamp == timestamp


@pytest.mark.parametrize("entry_format", FORMATS)
@pytest.mark.parametrize("of_client", KafkaCodec)
@pytest.mark.parametrize(
    ("timestamp", "bounds"),
    [
        (-2, ()), (-(1 << 62), ()), (-(1 << 63), ()), (-2, (EVER, EVER)), (NOW + HOUR + 1, ()), (EVER, ()),
        (NOW + 1, (EVER, 0)), (NOW - DAY - 1, (DAY,)), (0, (DAY,)),
    ],
)  # fmt: skip
def test_timestamps_beyond_the_topic_s_bounds_are_refused(
    timestamp: int, bounds: tuple[int, ...], of_client: KafkaCodec, entry_format: str
) -> None:
    plan = bounded(entry_format, *bounds)
    with pytest.raises(KafkaError, match=f"timestamp {timestamp} is") as raised:
        prepare_entries(batch_of(times(timestamp, NOW), of_client), plan, NOW)
    assert raised.value.code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize(
    ("entry_format", "of_client"), [("kafka", KafkaCodec.NONE), *(("pulsar", one) for one in KafkaCodec)]
)
@pytest.mark.parametrize("wrong", [-2, NOW - DAY - 1, NOW + HOUR + 1])
def test_one_wrong_timestamp_refuses_the_batch_wherever_it_is(
    wrong: int, of_client: KafkaCodec, entry_format: str
) -> None:
    for records in (times(wrong, NOW, -1), times(-1, wrong, NOW), times(NOW, -1, wrong)):
        with pytest.raises(KafkaError, match=f"timestamp {wrong} is"):
            prepare_entries(batch_of(records, of_client), bounded(entry_format, DAY), NOW)


@pytest.mark.parametrize("entry_format", FORMATS)
def test_a_wrong_timestamp_in_a_later_part_refuses_the_batch(entry_format: str) -> None:
    records = numbered(500)
    assert len(prepare_entries(batch_of(records), Plan(10_000, entry_format), NOW)) > 3
    records[-1] = records[-1]._replace(timestamp=-2)
    with pytest.raises(KafkaError, match="timestamp -2 is negative"):
        prepare_entries(batch_of(records), Plan(10_000, entry_format), NOW)


def test_what_takes_long_is_told_before_it_is_done() -> None:
    assert not needs_thread(batch_of(numbered(100)))
    assert needs_thread(batch_of([Record(at, NOW, None, b"", []) for at in range(20_001)]))
    assert not needs_thread(batch_of(numbered(100), KafkaCodec.GZIP))
    noise = random.Random(1).randbytes(40_000)
    assert needs_thread(batch_of([Record(0, NOW, None, noise + bytes(1000), [])], KafkaCodec.ZSTD))
    assert not needs_thread(batch_of([Record(0, NOW, None, noise + bytes(1000), [])]))
