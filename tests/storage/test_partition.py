"""A partition's log on a real Pulsar: offsets, watermarks, reading from anywhere, times."""

import asyncio
import random

import pytest

from bridge.codec import NO_PRODUCER, Record
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin.rest import topic_path
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.runtime.futures import FutureWaiter
from bridge.storage import entries
from bridge.storage.partition import PartitionLog
from bridge.storage.read.time_lookup import TimeOffset
from bridge.storage.visibility import Outcome
from tests.storage.conftest import NOW, Bench, prepared
from tests.storage.outcomes import KnownOutcomes, transaction

TIMEOUT_SECONDS = 10.0


async def read(log: PartitionLog, offset: int, max_bytes: int = 1 << 20, *, committed: bool = False) -> list[Record]:
    found = await log.read(offset, max_bytes, TIMEOUT_SECONDS, committed=committed)
    return [record for data in found for record in entries.records_of(data)]


async def read_all(log: PartitionLog) -> list[Record]:
    records: list[Record] = []
    while len(records) < await log.latest():
        records += await read(log, len(records))
    return records


async def test_an_empty_log_begins_and_ends_at_0(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    assert (await log.earliest(), await log.latest()) == (0, 0)
    assert await log.read(0, 100, TIMEOUT_SECONDS) == []
    assert await log.at_time(0) is None
    assert await log.newest() is None


async def test_offsets_are_dense_and_stay_after_a_restart(bench: Bench) -> None:
    topic = await bench.topic()
    assert await bench.append(bench.log(topic), prepared(3), prepared(1), prepared(5)) == [0, 3, 4]
    log = bench.log(topic)
    assert (await log.earliest(), await log.latest()) == (0, 9)
    assert await bench.append(log, prepared(2)) == [9]
    assert await log.latest() == 11
    assert [record.offset for record in await read_all(log)] == list(range(11))


async def test_a_log_is_ready_when_preparing_it_would_wait_for_nothing(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    assert not log.is_ready({NO_PRODUCER})
    await log.make_ready()
    assert log.is_ready({NO_PRODUCER})
    assert not log.is_ready({NO_PRODUCER, (4711, 0, 0)})  # nothing is known of this producer
    await log.make_ready({(4711, 0, 0)})
    assert log.is_ready({NO_PRODUCER, (4711, 0, 0)})


async def test_the_beginning_of_a_log_is_found_without_a_search(bench: Bench) -> None:
    topic = await bench.topic()
    await bench.append(bench.log(topic), *(prepared(2) for _ in range(20)))
    log = bench.log(topic)
    assert (await read(log, 0))[0].offset == 0
    assert bench.metrics.storage.cold_lookups.value == 0
    await read(bench.log(topic), 21)
    assert bench.metrics.storage.cold_lookups.value == 1


async def test_many_appends_keep_their_order(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await log.make_ready()
    offsets = [offset for number in range(200) for offset in log.append_all([prepared(1 + number % 3)])]
    expected, at = [], 0
    for number in range(200):
        expected.append(at)
        at += 1 + number % 3
    assert await asyncio.gather(*offsets) == expected


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["cold", "cached"])
async def test_any_offset_can_be_read(bench: Bench, cache_bytes: int) -> None:
    topic = await bench.topic()
    await bench.append(bench.log(topic), *[prepared(7, value=b"x" * 50) for _ in range(30)])
    log = bench.log(topic, cache_bytes)
    for offset in (0, 1, 6, 7, 100, 150, 208, 209, 3, 209, 0):
        records = await read(log, offset, 1)
        assert offset in [record.offset for record in records]
        assert len(records) == 7  # at least a whole batch, however little was asked for
    assert [record.offset for record in await read_all(log)] == list(range(210))


async def test_reading_waits_for_nothing_at_the_end_and_beyond_is_out_of_range(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await bench.append(log, prepared(4))
    assert await log.read(4, 100, TIMEOUT_SECONDS) == []
    for offset in (5, -1, 1 << 40):
        with pytest.raises(KafkaError) as raised:
            await log.read(offset, 100, TIMEOUT_SECONDS)
        assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_waiting_reader_is_told_of_new_records(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    assert await log.latest() == 0
    grown = FutureWaiter()
    log.end.add_waiter(grown)
    await bench.append(log, prepared(1))
    await asyncio.wait_for(grown.future, TIMEOUT_SECONDS)
    assert log.end.offset == 1


async def test_another_s_records_are_counted_and_seen(bench: Bench) -> None:
    topic = await bench.topic()
    ours, theirs = bench.log(topic), bench.log(topic)
    assert await bench.append(ours, prepared(2)) == [0]
    assert await bench.append(theirs, prepared(3)) == [2]
    assert await bench.append(ours, prepared(1)) == [5]
    assert await bench.append(theirs, prepared(1), prepared(1)) == [6, 7]
    assert bench.metrics.storage.reanchors.value >= 2
    # an offset learnt from elsewhere is looked for before it is refused
    assert await ours.read(8, 100, TIMEOUT_SECONDS) == []
    assert [record.offset for record in await read_all(ours)] == list(range(8))


async def test_offsets_stay_true_while_others_write_between(bench: Bench) -> None:
    topic = await bench.topic()
    log = bench.log(topic)
    await log.make_ready()
    await log.latest()  # the tail is open: it tells the offsets, no entry is read back
    native = bench.client.producer(topic)
    offsets = []
    for number in range(100):
        native.send(pb.MessageMetadata(), b"native", 1)
        offsets += log.append_all([prepared(2, value=b"%d" % number)])
        await asyncio.sleep(0)  # let both get to their sockets in turns
    bases = await asyncio.gather(*offsets)
    await native.close()
    records = await read_all(log)
    assert [record.offset for record in records] == list(range(300))
    for number, base in enumerate(bases):
        assert [records[base + i].value for i in (0, 1)] == [b"%d" % number] * 2


async def test_a_partition_with_foreign_writers_is_watched_instead_of_read_back(bench: Bench) -> None:
    topic = await bench.topic()
    ours, theirs = bench.log(topic), bench.log(topic)
    for _ in range(8):
        for log in (ours, theirs):
            await bench.append(log, prepared(1))
    assert bench.metrics.storage.reanchors.value <= 16
    count = 16
    async with asyncio.timeout(30):
        while ours.end.reached is None or theirs.end.reached is None:  # the readers are opened beside
            for log in (ours, theirs):
                await bench.append(log, prepared(1))
                count += 1
    assert [record.offset for record in await read_all(ours)] == list(range(count))


async def test_times_are_found_in_order_and_out_of_it(bench: Bench) -> None:
    topic = await bench.topic()
    # the third batch is older than the second: Kafka finds the first record that is new enough all the same
    batches = [prepared(10, NOW), prepared(10, NOW + 1000), prepared(10, NOW + 500), prepared(10, NOW + 2000)]
    await bench.append(bench.log(topic), *batches)
    log = bench.log(topic)
    assert await log.at_time(0) == TimeOffset(0, NOW)
    assert await log.at_time(NOW + 5) == TimeOffset(5, NOW + 5)
    assert await log.at_time(NOW + 10) == TimeOffset(10, NOW + 1000)
    assert await log.at_time(NOW + 505) == TimeOffset(10, NOW + 1000)
    assert await log.at_time(NOW + 1500) == TimeOffset(30, NOW + 2000)
    assert await log.at_time(NOW + 2009) == TimeOffset(39, NOW + 2009)
    assert await log.at_time(NOW + 2010) is None
    assert await log.newest() == TimeOffset(39, NOW + 2009)


async def test_the_newest_record_need_not_be_the_last(bench: Bench) -> None:
    topic = await bench.topic()
    await bench.append(bench.log(topic), prepared(3, NOW), prepared(3, NOW + 9000), prepared(3, NOW + 10))
    assert await bench.log(topic).newest() == TimeOffset(5, NOW + 9002)


async def test_a_batch_above_pulsar_s_limit_is_refused_and_nothing_is_sent(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await log.writable()
    with pytest.raises(KafkaError) as raised:
        log.append_all([prepared(1), prepared(1, value=b"x" * (6 << 20))])
    assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert await bench.append(log, prepared(1)) == [0]


async def test_a_cancelled_append_does_not_disturb_the_next(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await log.make_ready()
    first, second, third = log.append_all([prepared(1), prepared(1), prepared(1)])
    second.cancel()
    assert await first == 0
    # written before it was given up or not: either way the third's offset is where it is read
    base = await third
    records = await read(log, base)
    assert records[0].offset == base
    assert base in (1, 2)


async def test_a_deleted_topic_ends_its_log(bench: Bench) -> None:
    topic = await bench.topic()
    log = bench.log(topic)
    await bench.append(log, prepared(1))
    await log.latest()
    await bench.admin.delete_non_partitioned(topic)
    with pytest.raises(KafkaError) as raised:
        for offset in log.append_all([prepared(1)]):
            await asyncio.wait_for(offset, TIMEOUT_SECONDS)
    assert raised.value.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def test_the_end_is_of_this_moment_while_the_reader_at_the_tail_has_a_broker(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await bench.append(log, prepared(3))
    assert (log.known_end, log.is_current) == (3, False)
    await log.read(0, 1 << 20, 10)
    tail = log._tails.running
    assert tail is not None
    assert log.is_current
    reader = tail._reader
    connection, reader._connection = reader._connection, None
    assert (log.is_followed, log.is_current) == (True, False)
    reader._connection = connection
    assert log.is_current
    await log.close()
    assert not log.is_current


async def test_an_idle_tail_is_closed_and_opened_again(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await bench.append(log, prepared(2))
    assert await log.read(2, 100, TIMEOUT_SECONDS) == []
    assert log.read_nowait(2, 100) == []
    await log.sweep(asyncio.get_running_loop().time() + 1000)
    assert log.read_nowait(2, 100) is None
    await bench.append(log, prepared(2))
    assert len(await read_all(log)) == 4


# --- older records in memory ---


@pytest.fixture
def believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is shown however slow the test is, not for a second only."""
    monkeypatch.setattr("bridge.storage.read.log_reader._MEMORY_FRESH_SECONDS", float("inf"))


@pytest.mark.usefixtures("believed")
async def test_older_records_are_had_from_pulsar_once(bench: Bench) -> None:
    topic = await bench.topic()
    await bench.append(bench.log(topic), *[prepared(7, value=b"x" * 50) for _ in range(60)])
    log = bench.log(topic)
    first = await read_by_pieces(log)
    assert [record.offset for record in first] == list(range(420))
    asked = bench.metrics.storage.cache_misses.value
    assert asked > 1
    again = await read_by_pieces(log)
    assert again == first
    assert bench.metrics.storage.cache_misses.value == asked
    found = log.read_nowait(20, 1000)
    assert found, "it is there at once"
    assert entries.records_of(found[0])[0].offset == 14


async def read_by_pieces(log: PartitionLog) -> list[Record]:
    """As consumers do: from memory if it can be, and an entry at a time.

    How many entries a larger piece would have is up to the broker: Pulsar 4 sends eight in one go, Pulsar 3.0 one or
    four. By entries the reader for what is behind the tail always comes to the tail, and is closed there.
    """
    await log.latest()
    records: list[Record] = []
    while len(records) < log.end.offset:
        found = log.read_nowait(len(records), 1)
        if found is None:
            found = await log.read(len(records), 1, TIMEOUT_SECONDS)
        records += [record for data in found for record in entries.records_of(data)]
    return records


@pytest.mark.usefixtures("believed")
async def test_what_is_read_anywhere_is_true_however_little_is_kept(bench: Bench) -> None:
    topic = await bench.topic()
    writer = bench.log(topic)
    chance = random.Random(20261121)
    truth: list[bytes] = []

    async def write(count: int) -> None:
        for _ in range(count):
            size = chance.randrange(1, 9)
            value = b"%d:" % len(truth) + b"x" * chance.randrange(2000)
            assert await bench.append(writer, prepared(size, value=value)) == [len(truth)]
            truth.extend([value] * size)

    await write(60)
    log = bench.log(topic, cache_bytes=60_000)  # some ten batches of each kind
    for turn in range(400):
        if turn % 40 == 0:
            await write(2)
        offset = chance.randrange(len(truth))
        for _ in range(chance.randrange(1, 4)):  # goes on, as a consumer does
            limit = chance.choice([1, 3000, 30_000])
            found = log.read_nowait(offset, limit)
            if found is None:
                found = await log.read(offset, limit, TIMEOUT_SECONDS)
            records = [record for data in found for record in entries.records_of(data)]
            numbers = [record.offset for record in records]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            assert offset in numbers
            assert [record.value for record in records] == truth[numbers[0] : numbers[-1] + 1]
            offset = numbers[-1] + 1
            if offset == len(truth):
                break
    assert bench.metrics.storage.cache_hits.value > 20
    assert bench.metrics.storage.cache_misses.value > 20


@pytest.mark.usefixtures("believed")
async def test_records_that_are_deleted_are_not_read_from_memory(bench: Bench) -> None:
    topic = await bench.topic()
    await bench.append(bench.log(topic), *[prepared(5) for _ in range(10)])
    log = bench.log(topic)
    await read_by_pieces(log)
    assert log.read_nowait(20, 100) is not None
    log.raise_start(30)
    assert log.read_nowait(20, 100) is None
    with pytest.raises(KafkaError) as raised:
        await log.read(20, 100, TIMEOUT_SECONDS)
    assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert [record.offset for record in await read(log, 30, 1)] == [30, 31, 32, 33, 34]


@pytest.mark.usefixtures("believed")
async def test_older_records_are_shown_only_while_it_is_known_where_the_log_starts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await bench.topic()
    await bench.append(bench.log(topic), *[prepared(5) for _ in range(10)])
    log = bench.log(topic)
    await read_by_pieces(log)
    assert log.read_nowait(20, 100) is not None
    monkeypatch.setattr("bridge.storage.read.log_reader._MEMORY_FRESH_SECONDS", -1.0)
    assert log.read_nowait(20, 100) is None
    assert [record.offset for record in await read(log, 20, 1)] == [20, 21, 22, 23, 24]


async def test_what_pulsar_deleted_long_ago_is_not_committed_for_being_in_memory(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it was aborted is forgotten then."""
    monkeypatch.setattr("bridge.storage.read.log_reader._OLD_MS", -60_000)
    topic, outcomes, aborted = await bench.topic(), KnownOutcomes(), transaction(5)
    log = bench.log(topic, outcomes=outcomes)
    await log.latest()
    await bench.append(log, prepared(3, producer=(5, 0, 0), transaction=aborted), prepared(1))
    outcomes.decide(aborted, Outcome.ABORTED)
    assert [record.offset for record in await read(log, 0, committed=True)] == [3]
    assert log.read_nowait(0, 1 << 20, committed=True) is not None, "Pulsar was asked a moment ago"
    await bench.admin.unload(topic)
    await bench.admin.call("DELETE", f"{topic_path(topic)}/truncate")
    outcomes.decide(aborted, Outcome.COMMITTED)
    monkeypatch.setattr("bridge.storage.read.log_reader._OLD_FRESH_SECONDS", -1.0)
    assert log.read_nowait(0, 1 << 20, committed=True) is None
    with pytest.raises(KafkaError) as raised:
        await read(log, 0, committed=True)
    assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_an_idle_partition_gives_its_older_records_back_too(bench: Bench) -> None:
    topic = await bench.topic()
    await bench.append(bench.log(topic), *[prepared(5) for _ in range(10)])
    log = bench.log(topic)
    await read_by_pieces(log)
    assert bench.metrics.storage.cache_bytes.value > 0
    await log.sweep(asyncio.get_running_loop().time() + 1000)
    assert bench.metrics.storage.cache_bytes.value == 0
    assert len(await read_by_pieces(log)) == 50
    await log.close()
    assert bench.metrics.storage.cache_bytes.value == 0


@pytest.mark.usefixtures("believed")
async def test_reading_from_memory_is_use(bench: Bench) -> None:
    topic = await bench.topic()
    await bench.append(bench.log(topic), *[prepared(5) for _ in range(10)])
    log = bench.log(topic)
    await read_by_pieces(log)
    later = asyncio.get_running_loop().time() + bench.settings.storage.tail_idle_seconds
    assert log.read_nowait(0, 100) is not None
    await log.sweep(later)
    assert log.read_nowait(0, 100) is not None
