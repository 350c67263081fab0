"""Entries of every writer, and our own."""

import base64
import json
import random
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import codec
from bridge.codec import NO_PRODUCER, Header, Rebuild, Record
from bridge.errors import CorruptEntry, KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import Entry, Position
from bridge.runtime.threads import WorkerThreads
from bridge.storage import entries
from bridge.storage.append.preparation import Plan, PreparedEntry, prepare_entries
from bridge.storage.entries import TimeMark
from bridge.storage.mark_signer import MarkSecret, MarkSigner
from bridge.storage.read.batches import ForeignEntries, kafka_batches
from bridge.storage.read.chunks import ChunkMemory
from bridge.storage.visibility import Identity, Transaction
from tests.codec.samples import NOW, not_negative
from tests.support.batch_maker import BatchMaker

LIMIT = 1 << 20


def kafka_batch(records: list[Record], producer: tuple[int, int, int] = NO_PRODUCER) -> bytes:
    return codec.build_batch(records, Rebuild(0, len(records), 0, producer=producer))


def record(offset: int = 0, timestamp: int = 1000, **values: object) -> Record:
    fields: dict[str, object] = {"key": b"k", "value": b"v", "headers": []}
    fields.update(values)
    return Record(offset, timestamp, **fields)  # type: ignore[arg-type]


def prepared(batch: bytes) -> PreparedEntry:
    (found,) = prepare_entries(memoryview(batch), Plan(LIMIT, after_max_ms=(1 << 63) - 1), NOW)
    return found


def stored(prepared: PreparedEntry, newest: int, index: int, publish_time: int = 5) -> Entry:
    metadata = prepared.metadata(TimeMark(newest, 0))
    metadata.producer_name, metadata.sequence_id, metadata.publish_time = "p", 0, publish_time
    parsed = pb.MessageMetadata.FromString(metadata.SerializeToString())
    return Entry(Position(1, 2), index, None, parsed, memoryview(prepared.data), len(prepared.data))


def native(payload: bytes, index: int = 41, **fields: object) -> Entry:
    values: dict[str, object] = {"producer_name": "n", "sequence_id": 1, "publish_time": 777}
    values.update(fields)
    return Entry(Position(1, 2), index, None, pb.MessageMetadata(**values), memoryview(payload), len(payload))  # type: ignore[arg-type]


def read_back(entry: Entry) -> list[Record]:
    return entries.records_of(BatchMaker(LIMIT).make(entry).kafka())


_bytes = st.one_of(st.none(), st.binary(max_size=20), st.text(max_size=8).map(str.encode))
_headers = st.lists(st.tuples(st.binary(max_size=8), _bytes), max_size=4)
_records = st.lists(st.tuples(not_negative, _bytes, _bytes, _headers), min_size=1, max_size=8)


@given(_records, st.integers(0, 1 << 40))
def test_what_is_prepared_reads_back_exactly(
    values: list[tuple[int, bytes | None, bytes | None, list[Header]]], base: int
) -> None:
    records = [Record(number, *value) for number, value in enumerate(values)]
    entry = stored(prepared(kafka_batch(records, (9, 1, 5))), 1, base + len(records) - 1)
    batch = BatchMaker(LIMIT).make(entry)
    assert batch is not None
    assert (batch.base, batch.next) == (base, base + len(records))
    assert entries.records_of(batch.kafka()) == [one._replace(offset=base + one.offset) for one in records]
    header = codec.read_header(batch.kafka())
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 5)
    assert header.max_timestamp == max(one.timestamp for one in records)


def test_the_entry_s_property_says_only_what_messages_cannot() -> None:
    (mark,) = prepared(kafka_batch([record()])).metadata(TimeMark(4711, 7)).properties
    assert (mark.key, json.loads(mark.value)) == ("kafka.batch", {"v": 1, "t": 4711, "b": 7})
    (mark,) = prepared(kafka_batch([record(headers=[(b"h", None)])], (1, 2, 3))).metadata(TimeMark(4711, 7)).properties
    assert json.loads(mark.value) == {"v": 1, "t": 4711, "b": 7, "e": 1, "p": [1, 2, 3]}


def test_batches_are_told_apart_by_their_lengths() -> None:
    one, two = kafka_batch([record()]), kafka_batch([record(), record(1)])
    assert [bytes(batch) for batch in entries.split(memoryview(one + two))] == [one, two]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (b"\0" * 60, ErrorCode.CORRUPT_MESSAGE),
        (b"\0" * 16 + b"\x02" + b"\0" * 60, ErrorCode.CORRUPT_MESSAGE),
        (b"\0" * 8 + b"\x7f\xff\xff\xff" + b"\0" * 4 + b"\x02" + b"\0" * 60, ErrorCode.CORRUPT_MESSAGE),
        (b"\0" * 16 + b"\x01" + b"\0" * 60, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    ],
)
def test_what_is_no_batch_is_refused(data: bytes, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        entries.split(memoryview(data))
    assert raised.value.code == code


def test_a_native_message_is_a_record() -> None:
    entry = native(
        b"value",
        partition_key="key",
        event_time=123,
        properties=[pb.KeyValue(key="a", value="1"), pb.KeyValue(key="a", value="2")],
    )
    assert read_back(entry) == [Record(41, 123, b"key", b"value", [(b"a", b"1"), (b"a", b"2")])]


def test_a_native_message_without_event_time_has_its_publish_time() -> None:
    assert read_back(native(b"v")) == [Record(41, 777, None, b"v", [])]
    for event_time in (0, 1 << 63, (1 << 64) - 1):
        assert read_back(native(b"v", event_time=event_time)) == [Record(41, 777, None, b"v", [])]


def test_native_keys_come_from_where_they_are() -> None:
    key = base64.b64encode(b"\xff\x00").decode()
    assert read_back(native(b"", partition_key=key, partition_key_b64_encoded=True))[0].key == b"\xff\x00"
    assert read_back(native(b"", ordering_key=b"o"))[0].key == b"o"
    assert read_back(native(b"", partition_key=""))[0].key == b""
    for text in ("???", "YWJj=", "YWJj====", "YQ"):
        with pytest.raises(CorruptEntry):
            read_back(native(b"", partition_key=text, partition_key_b64_encoded=True))


def test_a_native_null_is_a_tombstone() -> None:
    assert read_back(native(b"", null_value=True))[0].value is None


def test_an_encrypted_entry_stays_as_it_is() -> None:
    keys = [pb.EncryptionKeys(key="k", value=b"x")]
    records = read_back(native(b"\x00secret", index=44, num_messages_in_batch=3, encryption_keys=keys))
    assert records == [Record(42, 777, None, b"\x00secret", [])]


def test_kop_s_kafka_batches_pass_with_offsets_of_their_own() -> None:
    payload = kafka_batch([record(), record(1)]) + kafka_batch([record()])
    entry = native(
        payload, index=12, num_messages_in_batch=3, properties=[pb.KeyValue(key="entry.format", value="kafka")]
    )
    assert [one.offset for one in read_back(entry)] == [10, 11, 12]


def test_a_batch_may_leave_offsets_out_but_not_take_others() -> None:
    fields = {"properties": [pb.KeyValue(key="entry.format", value="kafka")]}
    payload = kafka_batch([record(), record(1)])
    assert [one.offset for one in read_back(native(payload, 12, num_messages_in_batch=3, **fields))] == [10, 11]
    with pytest.raises(CorruptEntry, match="1 records more"):
        read_back(native(payload, 12, num_messages_in_batch=1, **fields))


@pytest.mark.parametrize("payload", [b"short", b"\0" * 70, kafka_batch([record()])[:-1]])
def test_a_damaged_kafka_entry_is_told(payload: bytes) -> None:
    with pytest.raises(CorruptEntry):
        read_back(native(payload, properties=[pb.KeyValue(key="entry.format", value="kafka")]))


@pytest.mark.parametrize("value", ["", "[]", '{"v":2}', "x"])
def test_a_property_of_another_version_is_not_guessed_at(value: str) -> None:
    with pytest.raises(CorruptEntry):
        read_back(native(b"", num_messages_in_batch=1, properties=[pb.KeyValue(key="kafka.batch", value=value)]))


def test_an_entry_without_an_index_is_told() -> None:
    entry = native(b"v")
    entry.index = None
    with pytest.raises(CorruptEntry, match="index"):
        BatchMaker(LIMIT).make(entry)


# --- chunks


def chunk(number: int, total: int, payload: bytes, index: int, uuid: str = "u") -> Entry:
    return native(payload, index, uuid=uuid, chunk_id=number, num_chunks_from_msg=total, total_chunk_msg_size=99)


def test_a_chunked_message_stands_at_its_last_chunk() -> None:
    maker = BatchMaker(LIMIT)
    made = [
        maker.make(chunk(0, 3, b"a", 10)), maker.make(chunk(0, 2, b"x", 11, "other")), maker.make(native(b"m", 12)),
        maker.make(chunk(1, 3, b"b", 13)), maker.make(chunk(1, 2, b"y", 14, "other")),
        maker.make(chunk(2, 3, b"c", 15)),
    ]  # fmt: skip
    found = [one for batch in made for one in entries.records_of(batch.kafka())]
    assert [(one.offset, one.value) for one in found] == [(12, b"m"), (14, b"xy"), (15, b"abc")]


async def test_chunks_without_their_beginning_have_no_record_unless_it_is_read() -> None:
    maker = BatchMaker(LIMIT)
    middle, last = chunk(1, 3, b"b", 13), chunk(2, 3, b"c", 14)
    assert not maker.lacks_earlier(middle)
    assert (maker.make(middle).base, maker.make(middle).kafka()) == (13, b"")
    assert maker.lacks_earlier(last)
    assert maker.make(last).kafka() == b""

    async def earlier(last: Entry) -> list[Entry]:
        return [chunk(0, 3, b"a", 12), middle]

    await maker.read_earlier(last, earlier)
    assert not maker.lacks_earlier(last)
    assert [one.value for one in entries.records_of(maker.make(last).kafka())] == [b"abc"]


def test_a_repeated_chunk_is_taken_once_and_a_lost_one_ends_the_message() -> None:
    maker = BatchMaker(LIMIT)
    pieces = [chunk(0, 2, b"a", 0), chunk(0, 2, b"a", 1), chunk(1, 2, b"b", 2)]
    made = [maker.make(piece) for piece in pieces]
    assert [batch.kafka() != b"" for batch in made] == [False, False, True]
    made = [maker.make(piece) for piece in (chunk(0, 3, b"a", 3), chunk(2, 3, b"c", 4))]
    assert [batch.kafka() for batch in made] == [b"", b""]


def test_chunks_are_bounded() -> None:
    maker = BatchMaker(100)
    for number in range(40):
        maker.make(chunk(0, 2, b"x", 10 + number, f"u{number}"))
    assert len(maker._chunks._partial) <= 16
    for number in range(4):  # all of them together take no more than one may
        maker.make(chunk(0, 2, b"x" * 40, 50 + number, f"v{number}"))
    assert [uuid for uuid, _ in maker._chunks._partial] == ["v2", "v3"]
    assert maker._chunks._size == 80
    assert maker.lacks_earlier(chunk(1, 2, b"y", 54, "v0"))
    assert not maker.lacks_earlier(chunk(1, 2, b"y", 54, "v2"))


def test_a_message_above_the_limit_is_an_error_if_the_bridge_has_written_it() -> None:
    pieces = [chunk(0, 2, b"x" * 60, 0), chunk(1, 2, b"x" * 39, 1)]
    maker = BatchMaker(90)
    assert not any(maker.lacks_earlier(one) for one in pieces)  # it would be read for nothing
    maker.make(pieces[0])
    with pytest.raises(CorruptEntry, match="99 bytes in chunks, 90 are the most"):
        maker.make(pieces[1]).kafka()
    strangers = ForeignEntries("t", MarkSigner(MarkSecret(), "t"), lambda: None)
    maker = BatchMaker(90, strangers=strangers)
    assert [entries.records_of(maker.make(one).kafka()) for one in pieces] == [[], []]


async def test_all_readers_together_hold_so_many_bytes_of_messages_that_do_not_end() -> None:
    memory = ChunkMemory(most=100)
    makers = [BatchMaker(1000, memory=memory) for _ in range(3)]
    for number, maker in enumerate(makers):
        maker.make(chunk(0, 2, b"x" * 40, number))
        maker.make(chunk(0, 2, b"y" * 40, 10 + number, "other"))
    assert memory.held <= 100
    last = chunk(1, 2, b"z", 20)
    assert makers[2].lacks_earlier(last)

    async def earlier(last: Entry) -> list[Entry]:
        return [chunk(0, 2, b"x" * 40, 2)]

    await makers[2].read_earlier(last, earlier)  # what has ended is put together all the same
    assert [one.value for one in entries.records_of(makers[2].make(last).kafka())] == [b"x" * 40 + b"z"]
    assert memory.held <= 100
    del makers, maker
    assert memory.held == 0


async def test_strangers_last_chunks_without_a_beginning_stop_no_reader_and_are_looked_for_a_few_times() -> None:
    maker = BatchMaker(LIMIT, strangers=ForeignEntries("t", MarkSigner(MarkSecret(), "t"), lambda: None))
    looked = 0

    async def earlier(last: Entry) -> list[Entry]:
        nonlocal looked
        looked += 1
        if last.metadata.uuid == "found":
            return [chunk(0, 2, b"a", 0, "found")]
        raise CorruptEntry("the first chunk is too far before it")

    for number, uuid in enumerate(("u", "v", "found", *"abcdefgh")):
        last = chunk(1, 2, b"b", 10 + number, uuid)
        if maker.lacks_earlier(last):
            await maker.read_earlier(last, earlier)
        assert bool(maker.make(last).kafka()) == (uuid == "found")
    assert looked == 3 + 4
    for number in range(17):  # the first one's beginning is dropped, for those of 16 others
        maker.make(chunk(0, 2, b"a", 100 + number, f"later{number}"))
    assert maker.lacks_earlier(chunk(1, 2, b"b", 200, "later0")), "this reader has read its beginning"
    assert not maker.lacks_earlier(chunk(1, 2, b"b", 200, "z"))


def test_chunks_hold_no_more_memory_than_is_counted() -> None:
    """A few bytes of payload may stand in much memory: a frame with long metadata, or a whole record's."""
    memory = ChunkMemory()
    maker = BatchMaker(LIMIT, memory=memory)
    received = bytearray(b"x" * 50_000)
    one = chunk(0, 3, b"", 0)
    view = memoryview(received)[:1]
    batch = maker.make(replace(one, payload=view, size=len(received)))
    view.release()
    del one
    assert (batch.size, memory.held) == (len(received) - 1, 1)
    received.clear()  # BufferError if any of it were held
    for number in range(1, 2000):
        maker.make(chunk(number, 1 << 30, b"", number))
    assert memory.held == 1


@pytest.mark.parametrize("time", [1 << 63, (1 << 64) - 1])
async def test_the_time_of_a_strangers_chunk_is_one_that_a_mark_can_have(time: int) -> None:
    """It goes into what the bridge's next entries say of those before them, which it must be able to read."""
    for fields in ({"event_time": time}, {"publish_time": time}):
        one = native(b"x", 5, uuid="u", num_chunks_from_msg=2, total_chunk_msg_size=2, **fields)
        newest = await BatchMaker(LIMIT).make_single(one).newest(WorkerThreads(1))
        written = stored(prepared(kafka_batch([record()])), newest, 6)
        assert entries.time_mark_in(entries.mark_text(written.metadata) or "").newest == newest


def test_strangers_chunks_never_become_part_of_the_bridge_s_messages() -> None:
    """Whoever may produce can read what a uuid is, and copy marks; but not before the bridge has written them."""
    signer = MarkSigner(MarkSecret(), "t")
    value = random.Random(3).randbytes(2500)
    (large,) = prepare_entries(memoryview(kafka_batch([record(value=value)])), Plan(1000, after_max_ms=1 << 50), NOW)
    own: list[Entry] = []
    for number, one in enumerate(large.chunks("u")):
        metadata = one.metadata(TimeMark(1, 0))
        metadata.producer_name, metadata.sequence_id, metadata.publish_time = "p", number, 5
        signer.sign(metadata, "p")
        own.append(Entry(Position(1, number), number, None, metadata, memoryview(one.data), len(one.data)))

    def forged(of: Entry, **fields: object) -> Entry:
        metadata = pb.MessageMetadata()
        metadata.CopyFrom(of.metadata)
        metadata.MergeFrom(pb.MessageMetadata(**fields))  # type: ignore[arg-type]
        return replace(of, metadata=metadata, payload=memoryview(b"x" * len(of.payload)))

    maker = BatchMaker(LIMIT, strangers=ForeignEntries("t", signer, lambda: None))
    log = [
        own[0],
        forged(own[0]),
        forged(own[0], chunk_id=1),
        forged(own[0], chunk_id=2),
        own[1],
        forged(own[1]),
        own[2],
    ]
    made = [maker.make(replace(one, index=place)) for place, one in enumerate(log)]
    found = [one.value for batch in made for one in entries.records_of(batch.kafka())]
    assert found == [value]


def test_a_chunk_s_bytes_are_not_held_beside_those_of_its_message() -> None:
    maker = BatchMaker(LIMIT)
    made = [maker.make(chunk(number, 3, b"x" * 10_000, number)) for number in range(3)]
    assert [batch.size for batch in made] == [1024, 1024, 30_000]


async def test_for_chunks_with_nothing_behind_them_stands_what_readers_pass_over() -> None:
    maker = BatchMaker(LIMIT)
    made = [maker.make(one) for one in (chunk(0, 3, b"a", 10), native(b"m", 11), chunk(1, 3, b"b", 12))]
    made.append(maker.make(chunk(0, 2, b"x", 13, "other")))
    record, behind = await kafka_batches(made, LIMIT, WorkerThreads(), inf)
    assert [one.offset for one in entries.records_of(record)] == [11]
    assert entries.is_control(behind) and not entries.is_control(record)
    assert entries.summary(behind)[1] == 14
    assert [entries.is_control(one) for one in await kafka_batches(made[:1], LIMIT, WorkerThreads(), inf)] == [True]
    assert len(await kafka_batches([*made, maker.make(native(b"m", 14))], LIMIT, WorkerThreads(), inf)) == 2


# --- transactions


def marked(mark: str, **fields: object) -> Entry:
    payload = codec.encode_payload(kafka_batch([record()])[codec.HEADER_SIZE :], 1, 1000).data
    return native(
        payload, 0, num_messages_in_batch=1, properties=[pb.KeyValue(key="kafka.batch", value=mark)], **fields
    )


def test_an_entry_names_its_transaction() -> None:
    entry = marked('{"v":1,"t":5,"b":0,"p":[7,3,40],"x":[2,9]}')
    assert entries.transaction_of(entry.metadata) == Transaction(2, Identity(7, 3, 9))
    header = codec.read_header(entries.to_kafka(entry, 0, entry.payload, LIMIT))
    assert header.attributes == codec.TRANSACTIONAL
    assert entries.transaction_of(marked('{"v":1,"t":5,"b":0,"p":[7,3,40]}').metadata) is None
    assert entries.transaction_of(native(b"").metadata) is None


def test_what_another_clusters_bridge_has_written_is_of_no_transaction_here() -> None:
    """Its outcome is recorded there: readers here would wait forever."""
    entry = marked('{"v":1,"t":5,"b":0,"p":[7,3,40],"x":[2,9]}', replicated_from="west")
    assert entries.transaction_of(entry.metadata) is None
    assert read_back(entry)


@pytest.mark.parametrize(
    "named",
    [
        "1",
        "[]",
        "[1]",
        "[1,2,3]",
        '["1",2]',
        "[1.5,2]",
        "[true,2]",
        "[-1,2]",
        "[1,-1]",
        f"[{1 << 31},1]",
        f"[1,{1 << 31}]",
        "{}",
    ],
)
def test_a_transaction_that_is_none_makes_the_entry_unreadable(named: str) -> None:
    """A stranger has written it: it is left out, and stops nobody."""
    entry = marked(f'{{"v":1,"t":5,"b":0,"p":[7,3,40],"x":{named}}}')
    assert entries.transaction_of(entry.metadata) is None
    with pytest.raises(CorruptEntry):
        entries.to_kafka(entry, 0, entry.payload, LIMIT)


@pytest.mark.parametrize("producer", ["[-1,0,0]", "[1,-1,0]", "[1]", '"x"'])
def test_a_transaction_without_a_producer_makes_the_entry_unreadable(producer: str) -> None:
    entry = marked(f'{{"v":1,"t":5,"b":0,"p":{producer},"x":[0,1]}}')
    assert entries.transaction_of(entry.metadata) is None
    with pytest.raises(CorruptEntry):
        entries.to_kafka(entry, 0, entry.payload, LIMIT)
