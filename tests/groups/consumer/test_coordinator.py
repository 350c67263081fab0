"""Groups of the consumer protocol: answers that wait, topics, the store, the end of the process."""

import asyncio
import logging

import pytest

from bridge.errors import KafkaError
from bridge.groups.consumer import patterns as consumer_patterns
from bridge.groups.consumer.model import ConsumerGroupState
from bridge.groups.store.records import StoredOffset, encode_offset, group_key, offset_key
from bridge.kafka.error_codes import ErrorCode
from tests.groups.clock import settle
from tests.groups.consumer.bench import Bench, error_code
from tests.groups.fake_topics import FakeTopics

UNAVAILABLE = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def test_an_answer_waits_until_it_is_stored() -> None:
    bench = Bench()
    bench.store.held_back = []
    join = await bench.join()
    await settle()
    assert not join.done()
    assert await bench.state() is ConsumerGroupState.EMPTY
    bench.store.release()
    await settle()
    assert join.result().epoch == 1
    assert await bench.state() is ConsumerGroupState.STABLE
    assert bench.store.held["g"].members.keys() == {"m"}
    assert (bench.metrics.rebalances.value, bench.metrics.loaded.value) == (1, 1)


async def test_a_heartbeat_without_news_stores_nothing() -> None:
    bench = Bench()
    await bench.joined()
    writes, armed = bench.store.writes, bench.clock.armed
    for _ in range(10):
        assert (await bench.beat("m", 1)).assignment is None
    assert (bench.store.writes, bench.clock.armed) == (writes, armed)


async def test_what_happens_during_a_write_goes_with_the_next() -> None:
    bench = Bench()
    bench.store.held_back = []
    first = await bench.join("m")
    others = [await bench.join(name) for name in "nop"]
    await settle()
    assert len(bench.store.held_back) == 1
    bench.store.release()
    await settle()
    assert first.done()
    assert all(one.done() for one in others)
    assert bench.store.writes == 2


async def test_a_heartbeat_waits_for_a_write_that_it_was_answered_from() -> None:
    bench = Bench()
    await bench.joined()
    bench.store.held_back = []
    await bench.join("n")
    silent = await bench.send("m", 1)
    assert not silent.done()
    bench.store.release()
    await settle()
    assert silent.result().assignment is not None


async def test_members_go_on_after_a_restart() -> None:
    bench = Bench()
    beat = await bench.joined()
    bench = bench.restarted()
    assert (await bench.beat("m", 1)).epoch == 1
    assert (await bench.beat("m", 1, owned=beat.assignment)).epoch == 1
    assert await error_code(bench.send("m", 2)) == ErrorCode.FENCED_MEMBER_EPOCH


async def test_a_failed_write_takes_back_what_happened() -> None:
    bench = Bench()
    await bench.joined()
    bench.store.fails = UNAVAILABLE
    assert await error_code(bench.join("n")) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.store.fails = None
    assert await error_code(bench.send("n", 2)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await bench.beat("m", 1)).assignment is None
    assert (await bench.joined("o")).epoch == 2


async def test_a_failed_write_that_was_stored_after_all_is_undone_by_the_next() -> None:
    bench = Bench()
    await bench.joined()
    bench.store.held_back = []
    join = await bench.join("n")
    await settle()
    (records, done), bench.store.held_back = bench.store.held_back[0], None
    done.set_exception(UNAVAILABLE)
    await settle()
    assert await error_code(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    for key, value in records.items():  # it comes late
        bench.store._put(key, value)
    assert bench.store.held["g"].members.keys() == {"m", "n"}
    await bench.joined("o")
    assert bench.store.held["g"].members.keys() == {"m", "o"}
    group = await bench.restarted().groups.consumer_snapshot("g")
    assert group is not None
    assert group.members.keys() == {"m", "o"}


async def test_what_fails_at_once_leaves_nothing_behind() -> None:
    bench = Bench()
    bench.topics.refuses = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    assert await error_code(bench.join()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.metrics.loaded.value == 0
    bench.topics.refuses = None
    bench.store.fails = UNAVAILABLE
    assert await error_code(bench.join()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.metrics.loaded.value == 0
    assert await error_code(bench.join(regex="(")) == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert await error_code(bench.send("m", 1)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert await error_code(bench.send("m", -1)) == ErrorCode.GROUP_ID_NOT_FOUND


async def test_topics_are_looked_at_again_after_a_while() -> None:
    bench = Bench()
    await bench.joined()
    asked = bench.topics.asked
    bench.topics.here["t"].partitions = 5
    assert (await bench.beat("m", 1)).epoch == 1
    assert bench.topics.asked == asked
    await bench.clock.advance(6)
    assert (await bench.beat("m", 1)).epoch == 2
    bench.topics.refuses = UNAVAILABLE
    await bench.clock.advance(6)
    assert (await bench.beat("m", 2)).epoch == 2


async def test_a_pattern_finds_topics_made_a_moment_ago() -> None:
    bench = Bench()
    await bench.joined("m", topics=None, regex="t.*")
    bench.topics.here["tt"] = FakeTopics(tt=1).here["tt"]
    beat = await bench.joined("n", topics=None, regex="tt")
    assert beat.assignment == {bench.topics.here["tt"].id: frozenset({0})}
    group = await bench.groups.consumer_snapshot("g")
    assert group is not None
    assert sorted(group.view.topics) == ["t", "tt"]


async def test_a_look_that_takes_long_keeps_no_other_member_waiting() -> None:
    bench = Bench()
    await bench.joined("m", topics=None, regex="t")
    assert (await bench.joined("n", topics=None, regex="t")).epoch == 2
    await bench.beat("m", 1, owned={})
    bench.topics.holds = asyncio.Event()
    await bench.clock.advance(6)
    looking = asyncio.ensure_future(bench.beat("m", 2))
    await settle()
    await bench.clock.advance(6)
    assert (await bench.beat("n", 2)).epoch == 2
    assert not looking.done()
    bench.topics.holds.set()
    assert (await looking).epoch == 2


async def test_a_group_whose_patterns_fit_too_many_topics_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_patterns, "MAX_MATCHES", 2)
    bench = Bench(topics=FakeTopics(t=1, u=1))
    await bench.joined("m", topics=None, regex=".")
    assert await error_code(bench.join("n", topics=None, regex=".+")) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (await bench.joined("o", topics=None, regex=".")).epoch == 2


async def test_sessions_end_by_the_timers(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    await bench.joined()
    for _ in range(3):
        await bench.clock.advance(40)
        await bench.beat("m", 1)
    with caplog.at_level(logging.INFO):
        await bench.clock.advance(46)
    assert await bench.state() is ConsumerGroupState.EMPTY
    assert await error_code(bench.send("m", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert [one.__dict__["fields"]["reason"] for one in caplog.records if one.message == "= member removed"] == [
        "its session is over"
    ]


async def test_a_session_that_cannot_be_ended_is_ended_later() -> None:
    bench = Bench()
    await bench.joined()
    bench.store.fails = UNAVAILABLE
    await bench.clock.advance(46)
    assert await bench.state() is ConsumerGroupState.STABLE
    bench.store.fails = None
    await bench.clock.advance(46)
    assert await bench.state() is ConsumerGroupState.EMPTY


async def test_a_lost_slot_lets_its_groups_go() -> None:
    bench = Bench()
    await bench.joined()
    bench.store.held_back = []
    join = await bench.join("n")
    late = await bench.join("o")
    bench.store.lose()
    assert await error_code(late) == ErrorCode.NOT_COORDINATOR
    assert bench.metrics.loaded.value == 0
    for _, done in bench.store.held_back:
        done.set_exception(KafkaError(ErrorCode.NOT_COORDINATOR))
    assert await error_code(join) == ErrorCode.NOT_COORDINATOR
    await settle()
    assert bench.metrics.loaded.value == 0


async def test_nothing_is_answered_when_the_process_stops() -> None:
    bench = Bench()
    await bench.joined()
    bench.store.held_back = []
    await bench.join("n")
    late = await bench.join("o")
    bench.groups.stop()
    assert await error_code(late) == ErrorCode.NOT_COORDINATOR
    assert await error_code(bench.send("m", 1)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    closing = asyncio.ensure_future(bench.groups.close())
    await settle()
    assert not closing.done()
    bench.store.release()
    await closing


# ---- kinds of groups -------------------------------------------------------------------------------------------------


async def test_a_group_that_cannot_be_read_is_not_available() -> None:
    bench = Bench()
    await bench.store.write("g", {group_key("g"): b'{"v":2,?'})
    assert await error_code(bench.join()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await error_code(bench.classic_join()) == ErrorCode.COORDINATOR_NOT_AVAILABLE


# ---- what others ask -------------------------------------------------------------------------------------------------


async def test_commits_and_fetches_are_checked() -> None:
    bench = Bench()
    await bench.joined()
    groups = bench.groups
    assert await error_code(groups.check_commit("g", "m", None, 1, 9)) == 0
    assert await error_code(groups.check_commit("g", "m", None, 2, 9)) == ErrorCode.STALE_MEMBER_EPOCH
    assert await error_code(groups.check_commit("g", "m", None, 1, 8)) == ErrorCode.UNSUPPORTED_VERSION
    assert await error_code(groups.check_commit("g", "", None, -1, 9)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await error_code(groups.check_fetch("g", "m", 1)) == 0
    assert await error_code(groups.check_fetch("g", "m", 0)) == ErrorCode.STALE_MEMBER_EPOCH
    assert await error_code(groups.check_fetch("nothing", "m", 0)) == 0


async def test_what_keeps_offsets() -> None:
    bench = Bench()
    await bench.joined(topics=None, regex="t")
    hold = await bench.groups.retention("g")
    assert (hold.exists, hold.members, hold.consumer, hold.subscribed, hold.empty_since_ms) == (
        True, 1, True, frozenset("t"), 0,
    )  # fmt: skip
    await bench.beat("m", -1)
    hold = await bench.groups.retention("g")
    assert (hold.members, hold.subscribed, hold.empty_since_ms) == (0, frozenset(), 77_000)
    assert await bench.restarted().groups.retention("g") == hold


async def test_a_group_without_members_is_deleted_with_its_offsets() -> None:
    bench = Bench()
    await bench.joined()
    await bench.store.write("g", {offset_key("g", "t", 0): encode_offset(StoredOffset(5))})
    assert await error_code(bench.groups.delete("g")) == ErrorCode.NON_EMPTY_GROUP
    await bench.groups.forget("g")
    assert await bench.state() is ConsumerGroupState.STABLE
    await bench.beat("m", -1)
    await bench.groups.delete("g")
    assert bench.store.held == {}
    assert await error_code(bench.groups.delete("g")) == ErrorCode.GROUP_ID_NOT_FOUND
    await bench.joined()
    await bench.beat("m", -1)
    await bench.groups.forget("g")
    assert bench.store.held == {}
    assert bench.metrics.loaded.value == 0


async def test_a_group_whose_last_members_go_one_after_another_can_be_deleted_at_once() -> None:
    bench = Bench()
    await bench.joined("m")
    await bench.joined("n")
    bench.store.held_back = []
    leaving = [await bench.send(one, -1) for one in ("m", "n")]
    deleting = asyncio.ensure_future(bench.groups.delete("g"))
    await settle()
    bench.store.release()
    await asyncio.gather(*leaving, deleting)
    await settle()
    assert bench.store.held == {}
    assert await bench.state() is None


async def test_a_deleted_group_leaves_nothing_of_a_member_whose_write_seemed_to_fail() -> None:
    bench = Bench()
    await bench.joined()
    await bench.beat("m", -1)
    bench.store.held_back, bench.store.fails = [], KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    join = await bench.join("n")
    (late, _), *_ = bench.store.held_back
    bench.store.release()
    assert await error_code(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.store.fails, bench.store.held_back = None, []
    deleting = asyncio.ensure_future(bench.groups.delete("g"))
    await settle()
    bench.store.held_back.insert(0, (late, asyncio.get_running_loop().create_future()))  # it was stored after all
    bench.store.release()
    await deleting
    assert bench.store.held == {}


async def test_a_member_that_joins_while_its_group_is_deleted_stays() -> None:
    bench = Bench()
    await bench.joined()
    await bench.beat("m", -1)
    bench.store.held_back = []
    deleting = asyncio.ensure_future(bench.groups.delete("g"))
    await settle()
    join = await bench.join("n")
    bench.store.release()
    await deleting
    assert (await join).epoch == 3
    group = await bench.restarted().groups.consumer_snapshot("g")
    assert group is not None
    assert (group.epoch, list(group.members)) == (3, ["n"])
