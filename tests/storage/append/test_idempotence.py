"""Idempotent producers on a real Pulsar: repetitions, gaps and epochs, over restarts of the bridge."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bridge.config import Settings
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin.rest import topic_path
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.requests.session import Session
from bridge.storage.entries import PROPERTY
from bridge.storage.partition import PartitionLog
from tests.storage.conftest import Bench, prepared
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress

PID = 4711


@pytest.fixture(params=[0, 131_072], ids=["alone", "grouped"])
def log_settings(pulsar: PulsarAddress, namespace: str, request: pytest.FixtureRequest) -> Settings:
    """With each batch in an entry of its own, and with group commit."""
    return settings_for(pulsar, namespace, {"storage": {"group_commit_bytes": request.param}})


async def append(
    bench: Bench, log: PartitionLog, sequence: int, count: int = 1, epoch: int = 0, session: Session | None = None
) -> int:
    (base,) = await bench.append(log, prepared(count, producer=(PID, epoch, sequence)), session=session)
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


async def test_each_batch_of_a_group_can_be_repeated_alone_also_after_a_restart(bench: Bench) -> None:
    topic = await bench.topic()
    log = bench.log(topic)
    await log.make_ready({(PID, 0, 0)})
    batches = [prepared(2, producer=(PID, 0, 2 * number)) for number in range(8)]
    assert await asyncio.gather(*log.append_all(batches)) == [0, 2, 4, 6, 8, 10, 12, 14]
    await log.close()
    again = bench.log(topic)
    for number in (3, 0, 7, 1):
        assert await append(bench, again, 2 * number, 2) == 2 * number
    assert await append(bench, again, 16) == 16
    assert await again.latest() == 17


async def test_a_repetition_of_what_is_under_way_waits_for_it(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    batch = prepared(2, producer=(PID, 0, 0))
    await log.make_ready({(PID, 0, 0)})
    first, again = log.append_all([batch]), log.append_all([batch])
    assert await asyncio.gather(*first, *again) == [0, 0]
    assert await log.latest() == 2


async def test_giving_up_an_append_leaves_no_gap(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await log.make_ready({(PID, 0, 0)})
    (given_up,) = log.append_all([prepared(1, producer=(PID, 0, 0))])
    given_up.cancel()
    assert await append(bench, log, 0) == 0
    assert await append(bench, log, 1) == 1


async def test_what_follows_a_given_up_append_is_no_success_before_it(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await log.make_ready({(PID, 0, 0)})
    batches = [prepared(1, producer=(PID, 0, sequence)) for sequence in range(3)]
    first, *later = log.append_all(batches)
    first.cancel()
    assert {type(outcome) for outcome in await asyncio.gather(*later, return_exceptions=True)} == {
        asyncio.CancelledError
    }
    assert await asyncio.gather(*log.append_all(batches)) == [0, 1, 2]
    assert await log.latest() == 3


async def test_what_comes_after_a_given_up_append_has_to_come_again(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await log.make_ready({(PID, 0, 0)})
    batches = [prepared(1, producer=(PID, 0, sequence)) for sequence in range(3)]
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
    await log.make_ready({(PID, 0, 0)})
    searched, later, new = log.append_all([prepared(1, producer=(PID, 0, sequence)) for sequence in (0, 1, 2)])
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
    assert await bench.append(before, prepared(4)) == [3]
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
    await bench.append(before, *(prepared(1) for _ in range(40)))
    await before.close()
    await bench.admin.unload(topic)
    log = bench.log(topic)
    await bench.append(log, prepared(1))
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
    batches = [prepared(2, producer=(pid, 0, 2 * number)) for number in range(20) for pid in (1, 2, 3, -1)]
    await log.make_ready({(1, 0, 0), (2, 0, 0), (3, 0, 0), (-1, -1, -1)})
    batches = [batch if batch.producer[0] >= 0 else batch._replace(producer=(-1, -1, -1)) for batch in batches]
    bases = await asyncio.gather(*log.append_all(batches))
    assert sorted(bases) == list(range(0, 160, 2))
    for pid in range(4):
        own = bases[pid::4]
        assert own == sorted(own)


async def test_a_writer_stays_for_as_long_as_a_connection_uses_it(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    client = Session(1, "", "")
    await append(bench, log, 0, session=client)
    await log.sweep(asyncio.get_running_loop().time() + 60)
    assert log.is_ready({(PID, 0, 0)}, client)
    await log.sweep(asyncio.get_running_loop().time() + 10_000)
    assert not log.is_ready({(PID, 0, 0)}, client)
    assert [await append(bench, log, 1, session=client), await append(bench, log, 0, session=client)] == [1, 0]


async def test_a_writer_that_is_swept_before_its_first_use_is_opened_again(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    appending = asyncio.ensure_future(append(bench, log, 0, session=Session(1, "", "")))
    while not log.is_ready({(PID, 0, 0)}, None):  # noqa: ASYNC110 - each turn of the loop: who waits for it has none yet
        await asyncio.sleep(0)
    await log.sweep(asyncio.get_running_loop().time())
    assert await appending == 0


async def test_a_producer_s_name_is_free_when_its_last_connection_has_gone(bench: Bench) -> None:
    topic = await bench.topic()
    here, there = bench.log(topic), (await bench.another()).log(topic)
    one, two = Session(1, "", ""), Session(2, "", "")
    for sequence, client in enumerate((one, two)):
        await append(bench, here, sequence, session=client)
    one.closed()
    assert here.is_ready({(PID, 0, 0)}, two)
    code = ErrorCode.REQUEST_TIMED_OUT
    while code == ErrorCode.REQUEST_TIMED_OUT:  # until Pulsar has answered
        with pytest.raises(KafkaError) as raised:
            await there.make_ready({(PID, 0, 0)}, two, asyncio.get_running_loop().time() + 0.3)
        code = ErrorCode(raised.value.code)
    assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    two.closed()
    assert await append(bench, there, 2) == 2


async def test_a_name_is_free_with_the_last_outcome_of_a_connection_that_has_gone(bench: Bench) -> None:
    """The client is at another bridge by then: that one waits for the name, and no view tells this one to let go."""
    topic = await bench.topic()
    here, there = bench.log(topic), (await bench.another()).log(topic)
    client = Session(1, "", "")
    await here.make_ready({(PID, 0, 0)}, client)
    under_way = here.append_all([prepared(1, producer=(PID, 0, sequence)) for sequence in range(3)])
    client.closed()
    assert await append(bench, there, 0) == 0
    assert [await append(bench, there, sequence) for sequence in (1, 2, 3)] == [1, 2, 3]
    assert await asyncio.gather(*under_way) == [0, 1, 2]


async def test_a_connection_that_is_closed_already_keeps_no_writer_open(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    gone = Session(1, "", "")
    gone.closed()
    assert await append(bench, log, 0, session=gone) == 0
    assert not log.is_ready({(PID, 0, 0)})


async def test_what_another_bridge_has_stored_for_a_producer_is_learnt_when_its_name_comes_back(bench: Bench) -> None:
    """The name was lost here, another bridge has appended, and the client comes back with what is next."""
    topic = await bench.topic()
    here, there = bench.log(topic), (await bench.another()).log(topic)
    assert await append(bench, here, 0, 3) == 0
    elsewhere = asyncio.ensure_future(append(bench, there, 3, 3))
    while not elsewhere.done():  # both names are free for a moment; who comes first has it
        await bench.admin.unload(topic)
        await asyncio.wait((elsewhere,), timeout=1)
    assert await elsewhere == 3
    await there.close()
    assert await append(bench, here, 6) == 6
    assert [await append(bench, here, 0, 3), await append(bench, here, 3, 3)] == [0, 3]
    assert await refused(bench, here, 8) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await here.latest() == 7


async def test_a_new_epoch_does_not_answer_for_the_failures_of_the_old_one(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await log.make_ready({(PID, 0, 0)})
    (given_up,) = log.append_all([prepared(1, producer=(PID, 0, 0))])
    given_up.cancel()
    again = log.append_all([prepared(1, producer=(PID, 1, sequence)) for sequence in (0, 1)])
    first, second = await asyncio.gather(*again)
    assert second == first + 1
    assert await refused(bench, log, 1, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_a_repetition_from_far_back_is_found(bench: Bench) -> None:
    topic = await bench.topic()
    before = bench.log(topic)
    now = time.time_ns() // 1_000_000
    batch = prepared(3, now, producer=(PID, 0, 0))
    assert await bench.append(before, batch) == [0]
    assert await append(bench, before, 3) == 3
    await before.close()
    native = bench.client.producer(topic)
    receipts = [native.send(MessageMetadata(event_time=now + 1000 + number), b"", 1) for number in range(5000)]
    await asyncio.gather(*receipts)
    await native.close()
    log = bench.log(topic)
    assert await bench.append(log, batch) == [0]
    assert await append(bench, log, 4) == 5004
    assert await bench.append(log, batch) == [0]


async def test_a_repetition_of_what_pulsar_has_deleted_is_told_to_be_one(bench: Bench) -> None:
    topic = await bench.topic()
    before = bench.log(topic)
    assert await append(bench, before, 0, 3) == 0
    await before.close()
    await bench.admin.unload(topic)
    await bench.admin.call("DELETE", f"{topic_path(topic)}/truncate")
    assert await append(bench, bench.log(topic), 3) == 3
    assert await refused(bench, bench.log(topic), 0) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER


@pytest.mark.parametrize("forged", ["", f'{{"v":1,"t":5,"b":9,"p":[{PID},0,3]}}'], ids=["plain", "with its mark"])
async def test_a_batch_is_no_repetition_because_a_stranger_says_so(bench: Bench, forged: str) -> None:
    """A client that may produce can take the name of a producer that is away, and raise its sequence."""
    topic = await bench.topic()
    before = bench.log(topic)
    assert await append(bench, before, 0, 3) == 0
    await before.close()
    stranger = bench.client.producer(topic, name=f"kafka-producer-{PID}")
    metadata = MessageMetadata(sequence_id=9)
    if forged:
        metadata.properties.add(key=PROPERTY, value=forged)
    await stranger.send(metadata, b"native", 1)
    await stranger.close()
    log = bench.log(topic)
    assert await refused(bench, log, 3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await append(bench, log, 0, 3) == 0
    assert await append(bench, log, 0, epoch=1) == 4, "the client begins again, and is served"


@pytest_asyncio.fixture
async def without_deduplication(bench: Bench) -> AsyncIterator[None]:
    await bench.admin.set_namespace_deduplication(bench.settings.pulsar.full_namespace, False)
    yield
    await bench.admin.set_namespace_deduplication(bench.settings.pulsar.full_namespace, True)


@pytest.mark.usefixtures("without_deduplication")
async def test_deduplication_is_turned_on_where_it_is_off(bench: Bench) -> None:
    topic = await bench.topic()
    log = bench.log(topic)
    await log.make_ready({(PID, 0, 0)})
    assert await bench.admin.deduplication_status(topic) == "Enabled", "before anything is sent"
    assert await bench.admin.topic_deduplication(topic) is True


@pytest.mark.usefixtures("without_deduplication")
async def test_what_was_sent_first_after_deduplication_was_turned_on_is_recognised_by_another_process(
    bench: Bench,
) -> None:
    for _ in range(10):  # the broker needs some milliseconds to go by the change
        topic = await bench.topic()
        before = bench.log(topic)
        assert await append(bench, before, 0, 3) == 0
        await before.close()
        after = bench.log(topic)
        assert await append(bench, after, 0, 3) == 0
        assert await after.latest() == 3


@pytest.mark.usefixtures("without_deduplication")
async def test_deduplication_is_turned_on_for_each_partition(bench: Bench) -> None:
    whole = await bench.topic() + "-many"
    await bench.admin.create_partitioned(whole, 4)
    storage = bench.storage()
    topics = [f"{whole}-partition-{number}" for number in range(4)]
    await asyncio.gather(*[storage.deduplication.ensure(topic) for topic in topics * 2])
    assert {await bench.admin.deduplication_status(topic) for topic in topics} == {"Enabled"}
