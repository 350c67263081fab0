"""Idempotent producers on a real Pulsar: repetitions, gaps and epochs, over restarts of the bridge."""

import asyncio

import pytest

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.partition import PartitionLog
from tests.storage.conftest import Bench, sealed

pytestmark = pytest.mark.pulsar

PID = 4711


async def append(bench: Bench, log: PartitionLog, sequence: int, count: int = 1, epoch: int = 0) -> int:
    (base,) = await bench.append(log, sealed(count, producer=(PID, epoch, sequence)))
    return base


async def refused(bench: Bench, log: PartitionLog, sequence: int, epoch: int = 0) -> int:
    with pytest.raises(KafkaError) as raised:
        await append(bench, log, sequence, epoch=epoch)
    return raised.value.code


async def test_a_repetition_has_its_original_offset_and_is_not_stored(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    assert [await append(bench, log, 0, 3), await append(bench, log, 3, 2)] == [0, 3]
    assert [await append(bench, log, 0, 3), await append(bench, log, 3, 2)] == [0, 3]
    assert await append(bench, log, 5) == 5
    assert await log.latest() == 6


async def test_a_repetition_of_what_is_under_way_waits_for_it(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    batch = sealed(2, producer=(PID, 0, 0))
    await log.prepare({PID})
    first, again = log.append_all([batch]), log.append_all([batch])
    assert await asyncio.gather(*first, *again) == [0, 0]
    assert await log.latest() == 2


async def test_giving_up_an_append_leaves_no_gap(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await log.prepare({PID})
    (given_up,) = log.append_all([sealed(1, producer=(PID, 0, 0))])
    given_up.cancel()
    assert await append(bench, log, 0) == 0
    assert await append(bench, log, 1) == 1


async def test_what_follows_a_given_up_append_is_no_success_before_it(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await log.prepare({PID})
    batches = [sealed(1, producer=(PID, 0, sequence)) for sequence in range(3)]
    first, *later = log.append_all(batches)
    first.cancel()
    assert {type(outcome) for outcome in await asyncio.gather(*later, return_exceptions=True)} == {
        asyncio.CancelledError
    }
    assert await asyncio.gather(*log.append_all(batches)) == [0, 1, 2]
    assert await log.latest() == 3


async def test_what_comes_after_a_given_up_append_has_to_come_again(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await log.prepare({PID})
    batches = [sealed(1, producer=(PID, 0, sequence)) for sequence in range(3)]
    (given_up,) = log.append_all(batches[:1])
    given_up.cancel()
    later = log.append_all(batches[1:])
    assert all(answer.cancelled() for answer in later)  # at once
    # a client that has given up the first goes on with the second, one that has not with the first
    assert await asyncio.gather(*log.append_all(batches[1:])) == [1, 2]
    assert await asyncio.gather(*log.append_all(batches)) == [0, 1, 2]
    assert await append(bench, log, 3) == 3


async def test_a_repetition_found_at_once_waits_for_one_that_is_searched(bench: Bench) -> None:
    topic = await bench.topic()
    before = bench.log(topic)
    assert [await append(bench, before, 0), await append(bench, before, 1)] == [0, 1]
    await before.close()
    log = bench.log(topic)
    await log.prepare({PID})
    searched, later, new = log.append_all([sealed(1, producer=(PID, 0, sequence)) for sequence in (0, 1, 2)])
    searched.cancel()
    for answer in (later, new):
        with pytest.raises(asyncio.CancelledError):
            await answer
    assert await append(bench, log, 2) == 2


async def test_a_gap_and_an_old_epoch_are_refused(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await append(bench, log, 0, 3)
    assert await refused(bench, log, 4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await refused(bench, log, 5, epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await append(bench, log, 0, epoch=1) == 3
    assert await refused(bench, log, 3, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await log.latest() == 4


async def test_the_past_outlives_the_bridge(bench: Bench) -> None:
    topic = await bench.topic()
    before = bench.log(topic)
    assert await append(bench, before, 0, 3, epoch=2) == 0
    assert await bench.append(before, sealed(4)) == [3]
    assert await append(bench, before, 3, 1, epoch=2) == 7
    await before.close()
    log = bench.log(topic)
    assert await append(bench, log, 3, 1, epoch=2) == 7
    assert await append(bench, log, 0, 3, epoch=2) == 0
    assert await refused(bench, log, 0, epoch=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await refused(bench, log, 9, epoch=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await append(bench, log, 4, 1, epoch=2) == 8
    assert await log.latest() == 9


async def test_a_repetition_may_be_cut_otherwise(bench: Bench) -> None:
    topic = await bench.topic()
    before = bench.log(topic)
    assert await append(bench, before, 0, 3) == 0
    assert await append(bench, before, 3, 3) == 3
    await before.close()
    log = bench.log(topic)
    assert [await append(bench, log, 1), await append(bench, log, 2, 3), await append(bench, log, 5)] == [1, 2, 5]
    assert await log.latest() == 6


async def test_a_repetition_is_found_behind_the_end_of_its_ledger(bench: Bench) -> None:
    topic = await bench.topic()
    before = bench.log(topic)
    assert await append(bench, before, 0, 3) == 0
    await bench.append(before, *(sealed(1) for _ in range(40)))
    await before.close()
    await bench.admin.unload(topic)
    log = bench.log(topic)
    await bench.append(log, sealed(1))
    assert [await append(bench, log, 3), await append(bench, log, 0, 3)] == [44, 0]
    assert len([one for one in await bench.admin.ledgers(topic) if one.entries]) == 2


async def test_sequences_go_round(bench: Bench) -> None:
    topic = await bench.topic()
    log = bench.log(topic)
    last = (1 << 31) - 1
    assert [await append(bench, log, last - 1, 4), await append(bench, log, 2)] == [0, 4]
    await log.close()
    log = bench.log(topic)
    assert await append(bench, log, last - 1, 4) == 0
    assert await append(bench, log, 3) == 5


async def test_many_producers_share_a_partition(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    batches = [sealed(2, producer=(pid, 0, 2 * number)) for number in range(20) for pid in (1, 2, 3, -1)]
    await log.prepare({1, 2, 3, -1})
    batches = [batch if batch.producer[0] >= 0 else batch._replace(producer=(-1, -1, -1)) for batch in batches]
    bases = await asyncio.gather(*log.append_all(batches))
    assert sorted(bases) == list(range(0, 160, 2))
    for pid in range(4):
        own = bases[pid::4]
        assert own == sorted(own)


async def test_idle_writers_go_and_come_back(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await append(bench, log, 0)
    writers = log._appender._writers
    writer = writers.get(PID)
    assert writer is not None
    writer.used_at -= 10_000
    await log.sweep()
    assert writers.get(PID) is None
    assert await append(bench, log, 1) == 1
    assert await append(bench, log, 0) == 0


async def test_deduplication_is_turned_on_where_it_is_off(bench: Bench) -> None:
    topic = await bench.topic()
    await bench.admin.set_namespace_deduplication(bench.settings.pulsar.full_namespace, False)
    try:
        log = bench.log(topic)
        await append(bench, log, 0)
        assert await bench.admin.topic_deduplication(topic) is True
    finally:
        await bench.admin.set_namespace_deduplication(bench.settings.pulsar.full_namespace, True)
