"""Share groups at their coordinator: the states of partitions, other types of groups, the store."""

import asyncio
import uuid
from collections.abc import Awaitable
from typing import Any

import pytest

from bridge.errors import KafkaError
from bridge.groups.classic.events import Join, Leave, Sync
from bridge.groups.consumer.model import ConsumerGroupState
from bridge.groups.epochs.group import MemberHeartbeat
from bridge.groups.share.state_records import UNINITIALIZED
from bridge.groups.store.records import StoredOffset, encode_offset, offset_key
from bridge.kafka.error_codes import ErrorCode
from tests.groups.clock import settle
from tests.groups.consumer.bench import error_code
from tests.groups.fake_topics import FakeTopic, FakeTopics
from tests.groups.share.bench import ShareBench
from tests.groups.share.machine import SESSION

UNAVAILABLE = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def test_a_partition_has_a_state_before_it_is_assigned() -> None:
    bench = ShareBench()
    bench.store.held_back = []
    joining = asyncio.ensure_future(bench.join())
    await settle()
    assert {key[0] for records, _ in bench.store.held_back for key in records} == {"share"}
    bench.store.release()
    assert (await joining).assignment == {bench.topics.here["t"].id: frozenset({0, 1})}
    assert bench.states == [("t", 0), ("t", 1)]
    bench.topics.here["t"].partitions = 3
    await bench.clock.advance(6)
    await bench.beat("m", 1)
    assert bench.states == [("t", 0), ("t", 1), ("t", 2)]


async def test_without_states_nothing_is_assigned() -> None:
    bench = ShareBench()
    bench.store.fails = UNAVAILABLE
    assert await error_code(bench.join()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (bench.store.held, bench.metrics.loaded.value) == ({}, 0)


async def test_members_and_states_are_there_after_a_restart() -> None:
    bench = ShareBench()
    joined = await bench.join()
    bench = bench.restarted()
    assert (await bench.beat("m", 1)).assignment is None
    assert (await bench.beat("m", 1, topics=frozenset("t"))).assignment == joined.assignment
    assert await bench.groups.share_groups() == [("g", ConsumerGroupState.STABLE)]
    assert bench.states == [("t", 0), ("t", 1)]


async def test_a_member_that_is_silent_is_removed_and_its_group_stays() -> None:
    bench = ShareBench()
    await bench.join()
    await bench.clock.advance(SESSION + 1)
    assert (await bench.groups.share_snapshot("g")).state is ConsumerGroupState.EMPTY
    assert len(bench.states) == 2
    assert await error_code(bench.send("m", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await bench.groups.retention("g")).exists is False  # it does not go because it has no offsets


async def test_deleted_topics_are_forgotten_and_those_that_nobody_subscribes_to_are_not() -> None:
    bench = ShareBench()
    bench.topics.here |= {"u": FakeTopic(1), "w": FakeTopic(1)}
    await bench.join(topics="tuw")
    await bench.beat("m", 1, topics=frozenset("tw"))
    del bench.topics.here["w"]
    await bench.clock.advance(6)
    await bench.beat("m", 2)
    assert bench.states == [("t", 0), ("t", 1), ("u", 0)]


@pytest.mark.parametrize("restart", [False, True], ids=["in memory", "restarted"])
async def test_a_group_without_members_forgets_deleted_topics_and_inherits_nothing(restart: bool) -> None:
    bench = ShareBench(topics=FakeTopics(t=2, u=1))
    await bench.join(topics="tu")
    await bench.groups.share_states.alter("g", bench.topics.here["t"].id, 0, 50)
    await bench.beat("m", -1)
    bench.topics.here["t"] = FakeTopic(2)
    bench = bench.restarted() if restart else bench
    await bench.groups.forget_deleted_topics("g")
    assert bench.states == [("u", 0)]
    await bench.join(topics="tu")
    assert bench.states == [("t", 0), ("t", 1), ("u", 0)]
    summary = await bench.groups.share_states.summary("g", bench.topics.here["t"].id, 0)
    assert summary is not None
    assert summary.start == UNINITIALIZED


async def test_what_is_no_share_group_has_no_states_to_forget() -> None:
    bench = ShareBench()
    await bench.groups.forget_deleted_topics("g")
    assert bench.store.held == {}


async def test_a_topic_that_cannot_be_looked_for_is_kept() -> None:
    bench = ShareBench()
    await bench.join()
    there, bench.topics.here = bench.topics.here, {}
    bench.topics.refuses = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    await bench.clock.advance(6)
    await bench.beat("m", 1)
    bench.topics.here = there
    assert len(bench.states) == 2


async def test_offsets_are_altered_and_forgotten_while_nobody_is_a_member() -> None:
    bench = ShareBench()
    topic = bench.topics.here["t"].id
    await bench.join()
    assert await error_code(bench.groups.alter_share_offsets("g", {(topic, 0): 7})) == ErrorCode.NON_EMPTY_GROUP
    assert await error_code(bench.groups.delete_share_offsets("g", {topic})) == ErrorCode.NON_EMPTY_GROUP
    assert await error_code(bench.groups.delete("g")) == ErrorCode.NON_EMPTY_GROUP
    await bench.beat("m", -1)
    before = await bench.groups.share_summaries("g", [(topic, 0), (topic, 1)])
    await bench.groups.alter_share_offsets("g", {(topic, 0): 7})
    summaries = await bench.groups.share_summaries("g", [(topic, 0), (topic, 1), (topic, 9)])
    first, second = (one.state_epoch if one else -1 for one in before.values())
    assert [one and (one.start, one.state_epoch) for one in summaries.values()] == [(7, first + 1), (-1, second), None]
    assert await bench.groups.delete_share_offsets("g", {topic, uuid.uuid4()}) == {topic}
    assert bench.states == []


async def test_a_group_whose_last_members_go_one_after_another_can_be_deleted_at_once() -> None:
    bench = ShareBench()
    await bench.join("m")
    await bench.join("n")
    bench.store.held_back = []
    leaving = [await bench.send(one, -1) for one in ("m", "n")]
    deleting = asyncio.ensure_future(bench.groups.delete("g"))
    await settle()
    bench.store.release()
    await asyncio.gather(*leaving, deleting)
    await settle()
    assert bench.store.held == {}


async def test_a_deleted_group_leaves_nothing() -> None:
    bench = ShareBench()
    await bench.join()
    await bench.beat("m", -1)
    told: list[Any] = []
    bench.groups.share_states.on_changed.append(lambda *place: told.append(place))
    await bench.groups.delete("g")
    assert bench.store.held == {}
    assert len(told) == 2
    assert bench.metrics.loaded.value == 0
    for work in (bench.groups.delete("g"), bench.groups.share_snapshot("g"), bench.send("m", 1), bench.send("m", -1)):
        assert await error_code(work) == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await bench.join()).epoch == 1


async def test_who_joins_while_the_group_is_deleted_makes_no_states_of_a_group_that_is_gone() -> None:
    bench = ShareBench()
    await bench.join()
    await bench.beat("m", -1)
    bench.store.held_back = []
    deleting = asyncio.ensure_future(bench.groups.delete("g"))
    await settle()
    joining = asyncio.ensure_future(bench.join("n"))
    await settle()
    bench.store.release()
    await deleting
    assert await error_code(joining) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.store.held == {}
    assert (await bench.join("n")).epoch == 1


async def test_a_group_of_which_only_states_are_stored_is_a_share_group() -> None:
    bench = ShareBench()
    await bench.groups.share_states.initialize("g", bench.topics.here["t"].id, 0)
    bench = bench.restarted()
    assert await bench.groups.share_groups() == [("g", ConsumerGroupState.EMPTY)]
    assert await bench.groups.classic_groups() == []
    assert (await bench.join()).epoch == 1


def _other(bench: ShareBench) -> dict[str, tuple[Awaitable[Any], ErrorCode]]:
    join = Join("", "c1", None, "client", "/127.0.0.1", 10_000, 60_000, "consumer", (("range", b""),), False)
    beat = MemberHeartbeat("x", 0, topics=frozenset("t"), rebalance_timeout_ms=1000, owned={})
    groups = bench.groups
    return {
        "JoinGroup": (groups.join("g", join), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        "SyncGroup": (groups.sync("g", Sync("m", None, 1, None, None, {})), ErrorCode.UNKNOWN_MEMBER_ID),
        "ConsumerGroupHeartbeat": (groups.consumer_heartbeat("g", beat), ErrorCode.GROUP_ID_NOT_FOUND),
        "OffsetCommit": (groups.check_commit("g", "", None, -1, 9), ErrorCode.GROUP_ID_NOT_FOUND),
        "OffsetFetch": (groups.check_fetch("g", None, -1), ErrorCode.NONE),
    }


@pytest.mark.parametrize("what", ["JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat", "OffsetCommit", "OffsetFetch"])
@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("restart", [False, True])
async def test_to_other_apis_it_is_of_another_type(what: str, empty: bool, restart: bool) -> None:
    bench = ShareBench()
    await bench.join()
    if empty:
        await bench.beat("m", -1)
    if restart:
        bench = bench.restarted()
    asked = _other(bench)
    work, error = asked.pop(what)
    for other, _ in asked.values():
        assert asyncio.iscoroutine(other)
        other.close()
    assert await error_code(work) == error
    assert await bench.groups.heartbeat("g", "m", None, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await bench.groups.leave("g", [Leave("m", None)]) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert (await bench.groups.share_snapshot("g")).epoch == (2 if empty else 1)


async def test_a_group_of_another_type_is_no_share_group() -> None:
    bench = ShareBench()
    offset = encode_offset(StoredOffset(7))
    await bench.store.write("g", {offset_key("g", "t", 0): offset})
    for work in (bench.join(), bench.send("m", -1), bench.groups.share_snapshot("g")):
        with pytest.raises(KafkaError, match="Group g is not a share group") as refused:
            await work
        assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.states == []


async def test_a_group_that_is_lost_is_asked_for_elsewhere() -> None:
    bench = ShareBench()
    await bench.join()
    bench.store.held_back = []
    written = await bench.send("m", 1, rack_id="r")
    waiting = await bench.send("m", 1, rack_id="s")
    bench.store.lose()
    assert await error_code(waiting) == ErrorCode.NOT_COORDINATOR
    bench.store.release()
    assert (await written).epoch == 1
    assert bench.metrics.loaded.value == 0


async def test_it_is_seen_among_the_groups_in_memory() -> None:
    bench = ShareBench()
    await bench.beat("m", 0, topics=frozenset("t"), client_id="c", client_host="/127.0.0.1")
    assert list(bench.groups.in_memory.names()) == ["g"]
    assert tuple(bench.groups.in_memory.summary("g")) == ("g", "share", "Stable", 1, 1)
    assert [tuple(one) for one in bench.groups.in_memory.members("g")] == [("m", None, "c", "/127.0.0.1")]
