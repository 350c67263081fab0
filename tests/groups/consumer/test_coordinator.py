"""The shell of groups of the new consumer protocol: answers that wait, topics, kinds of groups, the end."""

import asyncio
import logging
from typing import Any

import pytest

from bridge.config import Settings
from bridge.errors import KafkaError
from bridge.groups.classic.events import ClassicGroupState, Join, Leave
from bridge.groups.consumer import patterns as consumer_patterns
from bridge.groups.consumer.model import Assignment, ConsumerGroupState
from bridge.groups.consumer.state import Heartbeat, HeartbeatAnswer
from bridge.groups.coordinator import GroupCoordinator
from bridge.groups.store.records import StoredOffset, encode_offset, group_key, member_key, offset_key
from bridge.kafka.error_codes import ErrorCode
from bridge.metrics import GroupMetrics
from tests.groups.clock import FakeClock, settle
from tests.groups.fake_topics import FakeTopics
from tests.groups.store.fake_store import FakeStore

UNAVAILABLE = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Bench:
    """One node; `restarted` is the next process on the same store and topics."""

    def __init__(self, store: FakeStore | None = None, topics: FakeTopics | None = None) -> None:
        self.store = store or FakeStore()
        self.topics = topics or FakeTopics(t=4)
        self.clock = FakeClock()
        self.metrics = GroupMetrics()
        self.groups = GroupCoordinator(
            self.store, Settings().groups, self.metrics, self.topics, self.clock, wall=lambda: 77.0
        )

    def restarted(self) -> "Bench":
        self.store.on_lost.clear()
        return Bench(self.store, self.topics)

    async def send(self, member: str, epoch: int, group: str = "g", **fields: Any) -> "asyncio.Future[HeartbeatAnswer]":
        return await self.groups.consumer_heartbeat(group, Heartbeat(member, epoch, **fields))

    async def join(
        self, member: str = "m", topics: str | None = "t", **fields: Any
    ) -> "asyncio.Future[HeartbeatAnswer]":
        owned: Assignment = {}
        whole = {"rebalance_timeout_ms": 60_000, "topics": frozenset(topics or ()), "owned": owned, **fields}
        return await self.send(member, 0, **whole)

    async def joined(self, member: str = "m", **fields: Any) -> HeartbeatAnswer:
        return await asyncio.wait_for(await self.join(member, **fields), 1)

    async def beat(self, member: str, epoch: int, **fields: Any) -> HeartbeatAnswer:
        return await asyncio.wait_for(await self.send(member, epoch, **fields), 1)

    async def state(self, group: str = "g") -> ConsumerGroupState | None:
        snapshot = await self.groups.consumer_snapshot(group)
        return None if snapshot is None else snapshot.state

    async def classic_join(self, member: str = "") -> ErrorCode:
        join = Join(member, "c1", None, "client", "/127.0.0.1", 10_000, 60_000, "consumer", (("range", b""),), False)
        answer = await self.groups.join("g", join)
        await self.clock.advance(0.2)
        return answer.result().error


async def _code(work: Any) -> int:
    try:
        result = await work
        if isinstance(result, asyncio.Future):
            await result
    except KafkaError as error:
        return error.code
    return 0


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
    assert bench.store.stored["g"].members.keys() == {"m"}
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
    assert await _code(bench.send("m", 2)) == ErrorCode.FENCED_MEMBER_EPOCH


async def test_stored_members_that_are_gone_are_found_out_though_nobody_asks() -> None:
    bench = Bench()
    await bench.joined()
    bench = bench.restarted()
    bench.groups.start()
    await settle()
    await bench.clock.advance(45)
    assert await bench.state() is ConsumerGroupState.EMPTY
    assert bench.store.stored["g"].members == {}
    await bench.groups.close()


async def test_a_failed_write_takes_back_what_happened() -> None:
    bench = Bench()
    await bench.joined()
    bench.store.fails = UNAVAILABLE
    assert await _code(bench.join("n")) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.store.fails = None
    assert await _code(bench.send("n", 2)) == ErrorCode.UNKNOWN_MEMBER_ID
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
    assert await _code(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    for key, value in records.items():  # it comes late
        bench.store._put(key, value)
    assert bench.store.stored["g"].members.keys() == {"m", "n"}
    await bench.joined("o")
    assert bench.store.stored["g"].members.keys() == {"m", "o"}
    group = await bench.restarted().groups.consumer_snapshot("g")
    assert group is not None
    assert group.members.keys() == {"m", "o"}


async def test_what_fails_at_once_leaves_nothing_behind() -> None:
    bench = Bench()
    bench.topics.refuses = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    assert await _code(bench.join()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.metrics.loaded.value == 0
    bench.topics.refuses = None
    bench.store.fails = UNAVAILABLE
    assert await _code(bench.join()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.metrics.loaded.value == 0
    assert await _code(bench.join(regex="(")) == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert await _code(bench.send("m", 1)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert await _code(bench.send("m", -1)) == ErrorCode.GROUP_ID_NOT_FOUND


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
    monkeypatch.setattr(consumer_patterns, "MOST_NAMES", 2)
    bench = Bench(topics=FakeTopics(t=1, u=1))
    await bench.joined("m", topics=None, regex=".")
    assert await _code(bench.join("n", topics=None, regex=".+")) == ErrorCode.GROUP_MAX_SIZE_REACHED
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
    assert await _code(bench.send("m", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
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
    assert await _code(late) == ErrorCode.NOT_COORDINATOR
    assert bench.metrics.loaded.value == 0
    for _, done in bench.store.held_back:
        done.set_exception(KafkaError(ErrorCode.NOT_COORDINATOR))
    assert await _code(join) == ErrorCode.NOT_COORDINATOR
    await settle()
    assert bench.metrics.loaded.value == 0


async def test_nothing_is_answered_when_the_process_stops() -> None:
    bench = Bench()
    await bench.joined()
    bench.store.held_back = []
    await bench.join("n")
    late = await bench.join("o")
    bench.groups.stop()
    assert await _code(late) == ErrorCode.NOT_COORDINATOR
    assert await _code(bench.send("m", 1)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    closing = asyncio.ensure_future(bench.groups.close())
    await settle()
    assert not closing.done()
    bench.store.release()
    await closing


# ---- kinds of groups -------------------------------------------------------------------------------------------------


async def test_a_classic_group_with_members_stays_one() -> None:
    bench = Bench()
    assert await bench.classic_join() == 0
    assert await _code(bench.join()) == ErrorCode.GROUP_ID_NOT_FOUND
    assert await _code(bench.send("m", 1)) == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_consumer_group_with_members_stays_one() -> None:
    bench = Bench()
    await bench.joined()
    assert await _code(bench.classic_join()) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert await _code(bench.restarted().classic_join()) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert await _code(bench.classic_join("c1")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await bench.groups.heartbeat("g", "m", None, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await bench.groups.classic_group("g") is None
    assert await bench.groups.classic_groups() == []
    assert await bench.groups.consumer_groups() == [("g", ConsumerGroupState.STABLE)]


@pytest.mark.parametrize("restarts", [False, True])
async def test_an_empty_group_becomes_of_the_other_kind_and_keeps_its_offsets(restarts: bool) -> None:
    bench = Bench()
    assert await bench.classic_join() == 0
    await bench.store.write("g", {offset_key("g", "t", 0): encode_offset(StoredOffset(5))})
    await bench.groups.leave("g", [Leave("c1")])
    await settle()
    bench = bench.restarted() if restarts else bench
    assert (await bench.joined()).epoch == 1
    assert await bench.groups.classic_group("g") is None
    await bench.beat("m", -1)
    bench = bench.restarted() if restarts else bench
    assert await bench.classic_join() == 0
    group = await bench.groups.classic_group("g")
    assert group is not None
    assert group.state is ClassicGroupState.COMPLETING
    assert await bench.state() is None
    assert bench.store.stored["g"].offsets == {("t", 0): StoredOffset(5)}
    assert await _code(bench.join()) == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_group_that_only_has_offsets_can_be_joined() -> None:
    bench = Bench()
    await bench.store.write("g", {offset_key("g", "t", 0): encode_offset(StoredOffset(5))})
    await bench.store.write("g", {member_key("g", "ghost"): b"?"})
    assert (await bench.joined()).epoch == 1
    assert bench.store.stored["g"].members.keys() == {"m"}
    assert bench.store.stored["g"].offsets == {("t", 0): StoredOffset(5)}


async def test_a_group_that_cannot_be_read_is_not_available() -> None:
    bench = Bench()
    await bench.store.write("g", {group_key("g"): b'{"v":2,?'})
    assert await _code(bench.join()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await _code(bench.classic_join()) == ErrorCode.COORDINATOR_NOT_AVAILABLE


# ---- what others ask -------------------------------------------------------------------------------------------------


async def test_commits_and_fetches_are_checked() -> None:
    bench = Bench()
    await bench.joined()
    groups = bench.groups
    assert await _code(groups.check_commit("g", "m", None, 1, 9)) == 0
    assert await _code(groups.check_commit("g", "m", None, 2, 9)) == ErrorCode.STALE_MEMBER_EPOCH
    assert await _code(groups.check_commit("g", "m", None, 1, 8)) == ErrorCode.UNSUPPORTED_VERSION
    assert await _code(groups.check_commit("g", "", None, -1, 9)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await _code(groups.check_fetch("g", "m", 1)) == 0
    assert await _code(groups.check_fetch("g", "m", 0)) == ErrorCode.STALE_MEMBER_EPOCH
    assert await _code(groups.check_fetch("nothing", "m", 0)) == 0


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
    assert await _code(bench.groups.delete("g")) == ErrorCode.NON_EMPTY_GROUP
    await bench.groups.forget("g")
    assert await bench.state() is ConsumerGroupState.STABLE
    await bench.beat("m", -1)
    await bench.groups.delete("g")
    assert bench.store.stored == {}
    assert await _code(bench.groups.delete("g")) == ErrorCode.GROUP_ID_NOT_FOUND
    await bench.joined()
    await bench.beat("m", -1)
    await bench.groups.forget("g")
    assert bench.store.stored == {}
    assert bench.metrics.loaded.value == 0


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


async def test_administrators_remove_members() -> None:
    bench = Bench()
    await bench.joined(instance_id="i")
    assert await bench.groups.leave("g", [Leave("x"), Leave("", "i")]) == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert await bench.state() is ConsumerGroupState.EMPTY
    assert await bench.groups.leave("nothing", [Leave("x")]) == [ErrorCode.UNKNOWN_MEMBER_ID]
