"""A partition's log with records in chunks, on a real Pulsar: each is whole wherever a reader begins."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from bridge import codec
from bridge.codec import NO_PRODUCER, Rebuild, Record
from bridge.storage import entries
from bridge.storage.append.preparation import Plan, PreparedEntry, prepare_entries
from bridge.storage.partition import PartitionLog
from bridge.storage.visibility import Outcome
from tests.storage.conftest import NOW, Bench, prepared
from tests.storage.outcomes import KnownOutcomes, transaction

_ENTRY = 10_000
"""What an entry holds at most here."""
TIMEOUT_SECONDS = 10.0


def large(seed: int, size: int = 45_000, producer: tuple[int, int, int] = NO_PRODUCER) -> PreparedEntry:
    """A record of five chunks, as a rule."""
    record = Record(0, NOW + seed, b"%d" % seed, value(seed, size), ())
    batch = codec.build_batch([record], Rebuild(0, 1, 0, producer=producer))
    (found,) = prepare_entries(memoryview(batch), Plan(_ENTRY, after_max_ms=1 << 50), NOW)
    assert found.is_large
    return found


def value(seed: int, size: int = 45_000) -> bytes:
    return random.Random(seed).randbytes(size)


async def append(log: PartitionLog, entry: PreparedEntry) -> int:
    """As a Produce does it: the offset."""
    await log.make_ready((entry.producer,))
    if entry.is_large:
        entry = await log.store_chunks(entry, entry)
        await log.make_ready((entry.producer,))
    return await log.append_all([entry])[0]


async def read_on(log: PartitionLog, offset: int, *, committed: bool = False) -> tuple[dict[int, bytes], int]:
    """The records from an offset to the end, and where a consumer is then."""
    found: dict[int, bytes] = {}
    while offset < await log.latest():
        batches = await log.read(offset, 1, TIMEOUT_SECONDS, committed=committed)
        if not batches:
            await asyncio.sleep(0.01)
        for data in batches:
            if not entries.is_control(data):
                found |= {one.offset: bytes(one.value or b"") for one in entries.records_of(data)}
            offset = entries.summary(data)[1]
    return {at: one for at, one in found.items() if at >= 0}, offset


def places(found: dict[int, bytes], of: Sequence[bytes]) -> list[int]:
    at = {one: offset for offset, one in found.items()}
    return [at[one] for one in of]


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["cold", "cached"])
async def test_a_large_record_is_whole_wherever_a_reader_begins(bench: Bench, cache_bytes: int) -> None:
    """Two at a time, with small records between: their chunks stand in each other's midst."""
    topic = await bench.topic()
    writer = bench.log(topic)
    work = [append(writer, large(1)), append(writer, large(2)), *(append(writer, prepared(2)) for _ in range(3))]
    first, second, *_ = await asyncio.gather(*work)
    last = await append(writer, large(3))
    whole = {first: value(1), second: value(2), last: value(3)}
    reader = bench.log(topic, cache_bytes)
    for start in range(await reader.latest()):
        found, end = await read_on(bench.log(topic, cache_bytes) if start % 2 else reader, start)
        assert {at: one for at, one in found.items() if at in whole} == {
            at: one for at, one in whole.items() if at >= start
        }, start
        assert end == await reader.latest()
    assert await writer.latest() == await reader.latest()


async def test_chunks_without_a_last_one_are_passed_by(bench: Bench) -> None:
    """As a bridge leaves them that is killed between two."""
    topic = await bench.topic()
    log = bench.log(topic)
    assert await append(log, prepared(1)) == 0
    for chunk in large(1).chunks("torn")[:3]:
        await log.append_all([chunk])[0]
    assert await log.latest() == 4
    for reader in (log, bench.log(topic)):
        for start in range(4):
            found, end = await read_on(reader, start)
            assert (list(found), end) == ([0] if start == 0 else [], 4)
        assert await reader.earliest() == 0
    assert (await log.at_time(NOW)).offset == 0  # type: ignore[union-attr]
    assert await log.at_time(NOW + 1) is None
    offset = await append(bench.log(topic), large(1))
    assert await read_on(log, 1) == ({offset: value(1)}, offset + 1)


async def test_a_repeated_large_record_has_the_offset_of_the_first(bench: Bench) -> None:
    topic = await bench.topic()
    log, producer = bench.log(topic), (4711, 0, 0)
    offset = await append(log, large(1, producer=producer))
    end = await log.latest()
    assert await append(log, large(1, producer=producer)) == offset
    assert await log.latest() == end, "its chunks were stored again though its offset was known"
    another = bench.log(topic)  # knows nothing of it but what Pulsar does
    await log.close()
    assert await append(another, large(1, producer=producer)) == offset
    assert await append(another, large(2, producer=(4711, 0, 1))) > offset
    found, _ = await read_on(bench.log(topic), 0)
    assert list(found.values()) == [value(1), value(2)]


async def test_the_parts_of_a_batch_have_consecutive_offsets(bench: Bench) -> None:
    """Its large records are the second and the last part; the batch comes again, to a log that knows nothing."""
    topic = await bench.topic()
    values = [b"a", value(1), b"b", b"c", value(2)]
    records = [Record(at, NOW, b"k", one, ()) for at, one in enumerate(values)]
    batch = memoryview(codec.build_batch(records, Rebuild(0, 5, 0, producer=(4711, 0, 0))))
    told = []
    for log in (bench.log(topic), bench.log(topic)):
        parts = prepare_entries(batch, Plan(_ENTRY, after_max_ms=1 << 50), NOW)
        assert [part.is_large for part in parts] == [False, True, False, True]
        await log.make_ready((parts[0].producer,))
        sent = [await log.store_chunks(part, parts[0]) if part.is_large else part for part in parts]
        told.append([await offset for offset in log.append_all(sent)])
        await log.close()
    assert told[0] == told[1] == [told[0][0] + place for place in (0, 1, 2, 4)]
    found, _ = await read_on(bench.log(topic), 0)
    assert found == {told[0][0] + place: one for place, one in enumerate(values)}


async def test_nothing_is_stored_of_what_is_refused(bench: Bench) -> None:
    topic = await bench.topic()
    log = bench.log(topic)
    await append(log, prepared(1, producer=(4711, 1, 0)))
    refused = large(1, producer=(4711, 0, 5))
    assert await log.store_chunks(refused, refused) is refused
    assert await log.latest() == 1


async def test_readers_of_committed_records_get_no_aborted_large_one(bench: Bench) -> None:
    topic, outcomes = await bench.topic(), KnownOutcomes()
    log = bench.log(topic, outcomes=outcomes)
    aborted, committed = transaction(1), transaction(2)
    await append(log, large(1, producer=(1, 0, 0))._replace(transaction=aborted))
    offset = await append(log, large(2, producer=(2, 0, 0))._replace(transaction=committed))
    outcomes.decide(committed, Outcome.COMMITTED)
    assert (await log.read(0, 1 << 20, TIMEOUT_SECONDS, committed=True)) != []  # the chunks before the open one
    outcomes.decide(aborted, Outcome.ABORTED)
    assert await read_on(log, 0, committed=True) == ({offset: value(2)}, offset + 1)


async def test_a_log_may_begin_in_the_midst_of_a_large_record(bench: Bench) -> None:
    """DeleteRecords into it: the record stands at its last chunk, and is still there."""
    topic = await bench.topic()
    log = bench.log(topic)
    await append(log, prepared(1))
    offset = await append(log, large(1))
    log.raise_start(offset - 1)
    assert await log.earliest() == offset - 1
    found, end = await read_on(log, offset - 1)
    assert (found, end) == ({offset: value(1)}, offset + 1)


async def test_the_first_record_at_a_time_may_be_a_large_one(bench: Bench) -> None:
    topic = await bench.topic()
    writer = bench.log(topic)
    offsets = [await append(writer, one) for one in (prepared(1), large(10), prepared(1, NOW + 20), large(30))]
    for log in (writer, bench.log(topic)):
        found = [await log.at_time(NOW + after) for after in (0, 1, 11, 21, 31)]
        assert [None if one is None else one.offset for one in found] == [*offsets, None]
        newest = await log.newest()
        assert newest is not None and (newest.offset, newest.timestamp) == (offsets[-1], NOW + 30)
