"""Lookups by time on a real Pulsar, compared with a look at every record."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise

import pytest

from bridge.codec import Record
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import ConnectionLost
from bridge.storage import entries
from bridge.storage.partition import PartitionLog
from bridge.storage.read import search
from bridge.storage.read.time_lookup import TimeOffset
from tests.storage.conftest import NOW, Bench, prepared


async def read_all(log: PartitionLog) -> list[Record]:
    records: list[Record] = []
    while len(records) < await log.latest():
        found = await log.read(len(records), 1 << 20, 10.0)
        records += [record for data in found for record in entries.records_of(data)]
    return records


def expected(records: list[Record], timestamp: int) -> TimeOffset | None:
    return next((TimeOffset(one.offset, one.timestamp) for one in records if one.timestamp >= timestamp), None)


def newest(records: list[Record]) -> TimeOffset:
    best = max(records, key=lambda one: (one.timestamp, -one.offset))
    return TimeOffset(best.offset, best.timestamp)


async def check(log: PartitionLog, records: list[Record], count: int = 60, seed: int = 1) -> None:
    chance = random.Random(seed)
    times = {one.timestamp for one in records}
    for timestamp in [*chance.sample(sorted(times), min(count, len(times))), 0, max(times) + 1]:
        assert await log.at_time(timestamp) == expected(records, timestamp)
    assert await log.newest() == newest(records)


async def test_resent_batches_of_several_producers_are_found_by_their_times(bench: Bench) -> None:
    """After a lost connection each producer sends its own again as soon as it is back: timestamps run backwards."""
    topic = await bench.topic()
    log = bench.log(topic)
    pids = (1, 2, 3, 4)
    await log.make_ready({(pid, 0, 0) for pid in pids})
    offsets: list[asyncio.Future[int]] = []
    now = NOW
    for sequence in range(100):
        for pid in pids:
            now += 10
            offsets += log.append_all([prepared(2, now, producer=(pid, 0, 2 * sequence))])
        if sequence % 40 == 35:
            await asyncio.wait(offsets[:-20])  # some are on their way, some not
            for connection in list(bench.client._pool._connections.values()):
                connection.abort(ConnectionLost("by the test"))
        elif sequence % 3 == 0:
            await asyncio.sleep(0)
    await asyncio.gather(*offsets)
    records = await read_all(log)
    assert len(records) == 2 * len(offsets)
    backwards = sum(later.timestamp < one.timestamp for one, later in pairwise(records))
    assert backwards, "nothing was stored out of the order of its timestamps: the test tests nothing"
    await check(log, records)
    await check(bench.log(topic), records)


@pytest.mark.parametrize("seed", range(3))
async def test_times_in_any_order_of_one_writer(bench: Bench, seed: int) -> None:
    topic = await bench.topic()
    log = bench.log(topic)
    chance = random.Random(seed)
    await log.make_ready()
    for _ in range(5):
        times = [NOW + chance.randint(-100_000_000, 100_000_000) for _ in range(30)]
        await asyncio.gather(*log.append_all([prepared(chance.randint(1, 3), one) for one in times]))
    records = await read_all(log)
    await check(log, records, 40, seed)
    await check(bench.log(topic), records, 20, seed)


async def test_a_log_goes_on_where_its_last_entries_were_on_their_way_together(bench: Bench) -> None:
    """The last entry's mark does not speak for the one before it, which is newer and was sent after it."""
    topic = await bench.topic()
    first = bench.log(topic)
    await first.make_ready({(1, 0, 0), (2, 0, 0)})
    early, late = prepared(1, NOW, producer=(1, 0, 0)), prepared(1, NOW + 5000, producer=(2, 0, 0))
    await asyncio.gather(*first.append_all([early, late]))
    log = bench.log(topic)
    for number in range(10):
        await bench.append(log, prepared(1, NOW + number))
    await check(log, await read_all(log))


async def test_what_a_native_producer_writes_between_is_found(bench: Bench) -> None:
    topic = await bench.topic()
    log = bench.log(topic)
    native = bench.client.producer(topic)
    chance = random.Random(5)
    for number in range(60):
        moment = NOW + number * 1000
        await bench.append(log, prepared(2, moment))
        if number % 7 == 3:
            late = moment - chance.randint(0, search.DISORDER_MS // 2)
            await native.send(MessageMetadata(event_time=late), b"native", 1)
            await native.send(MessageMetadata(event_time=moment + 3000), b"native", 1)
    await native.close()
    records = await read_all(log)
    await check(log, records)
    await check(bench.log(topic), records)


async def test_where_others_write_disorder_within_the_bound_is_harmless(bench: Bench) -> None:
    topic = await bench.topic()
    native = bench.client.producer(topic)
    chance = random.Random(7)
    now = NOW
    for _ in range(200):
        now += 1000
        moment = now - chance.randint(0, search.DISORDER_MS)
        native.send(MessageMetadata(event_time=moment), b"native", 1)
    await native.send(MessageMetadata(event_time=now), b"native", 1)
    await native.close()
    log = bench.log(topic)
    records = await read_all(log)
    times = sorted({one.timestamp for one in records})
    for timestamp in times[::5]:
        assert await log.at_time(timestamp) == expected(records, timestamp)


async def write_natively(bench: Bench, topic: str, *moments: int, mark: str = "", count: int = 1) -> None:
    """Entries of a stranger, each with a record; `mark`: what it says of others."""
    native = bench.client.producer(topic)
    sent = []
    for moment in moments:
        for _ in range(count):
            metadata = MessageMetadata(event_time=moment)
            if mark:
                metadata.properties.add(key=entries.PROPERTY, value=mark)
            sent.append(native.send(metadata, b"native", 1))
    await asyncio.gather(*sent)
    await native.close()


@pytest.mark.parametrize("count", [1, 10, pytest.param(100, marks=pytest.mark.soak)])
@pytest.mark.parametrize("mark", ["", '{"v":1,"t":5,"b":1000000}', '{"v":1,"t":5,"b":1000000,"m":"0123456789abcdef"}'])
async def test_what_a_stranger_writes_hides_no_records_of_others(bench: Bench, mark: str, count: int) -> None:
    """Nor by a mark that promises for the whole log, nor by times of long ago; here and after a start."""
    topic = await bench.topic()
    log = bench.log(topic)
    for number in range(20):
        await bench.append(log, prepared(1, NOW + number * 60_000))
        if number % 5 == 2:
            await write_natively(bench, topic, 7, mark=mark, count=count)
    records = await read_all(log)
    await check(log, records)
    again = bench.log(topic)
    await bench.append(again, prepared(1, NOW + 20 * 60_000))
    await check(again, await read_all(again))


async def test_a_mark_that_a_stranger_wrote_last_is_not_taken_over(bench: Bench) -> None:
    """A log goes on with what its last entry promises: not with what a stranger does."""
    topic = await bench.topic()
    await bench.append(bench.log(topic), prepared(1, NOW))
    await write_natively(bench, topic, NOW + 1, mark='{"v":1,"t":5,"b":2}')
    log = bench.log(topic)
    await bench.append(log, prepared(1, NOW - 60_000))
    await bench.append(bench.log(topic), prepared(1, NOW - 30_000))
    await check(log, await read_all(log))


async def test_the_newest_record_is_found_though_the_newest_append_failed(bench: Bench) -> None:
    topic = await bench.topic()
    log = bench.log(topic)
    await bench.append(log, prepared(1, NOW), prepared(1, NOW + 70), prepared(1, NOW + 20))
    mark = log.end.time_marks.start_append(NOW + 1_000_000)  # on its way
    await bench.append(log, prepared(1, NOW + 30))
    assert mark.newest == NOW + 1_000_000
    assert await log.newest() == TimeOffset(1, NOW + 70)
    assert await log.at_time(NOW + 71) is None


async def test_the_newest_record_is_found_in_few_steps_though_others_have_written_an_old_one_last(bench: Bench) -> None:
    topic = await bench.topic()
    await write_natively(bench, topic, *(NOW + 10 * number for number in range(120)), NOW)
    log = bench.log(topic)
    before = bench.metrics.storage.cold_lookups.value
    assert await log.newest() == TimeOffset(119, NOW + 1190)
    assert bench.metrics.storage.cold_lookups.value - before < 40, "by halves, not record by record"
