"""Groups of the classic protocol: held requests, timers, the store, the end of the process."""

import asyncio
import logging

import pytest

from bridge.errors import KafkaError
from bridge.groups.classic import records as metadata
from bridge.groups.classic.events import ClassicGroupState, Leave
from bridge.groups.store.records import StoredOffset, encode_offset, offset_key
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import MAX_STRING
from tests.groups.classic.bench import Bench
from tests.groups.clock import settle

NONE = ErrorCode.NONE


def code_of(raised: "pytest.ExceptionInfo[KafkaError]") -> int:
    return raised.value.code


async def test_a_group_is_stored_when_it_is_stable() -> None:
    bench = Bench()
    bench.store.held_back = []
    join = await bench.join()
    await bench.clock.advance(0.1)
    sync = await bench.sync(join.result().member_id)
    await settle()
    assert not sync.done()
    assert await bench.state() is ClassicGroupState.COMPLETING
    bench.store.release()
    await settle()
    assert sync.result().error is NONE
    assert await bench.state() is ClassicGroupState.STABLE
    stored = bench.store.held["g"].metadata
    assert stored is not None
    record = metadata.decode(stored)
    assert (record.generation, record.since_ms, len(record.members)) == (1, 77_000, 1)
    assert bench.metrics.rebalances.value == 1


async def test_members_go_on_after_a_restart() -> None:
    bench = Bench()
    member = await bench.formed()
    bench = bench.restarted()
    assert await bench.heartbeat(member) is NONE
    await bench.groups.check_commit("g", member, None, 1, 8)
    assert (await bench.sync(member)).result().assignment == b"mine"
    assert await bench.heartbeat(member, 2) is ErrorCode.ILLEGAL_GENERATION


async def test_sessions_end_by_the_timers() -> None:
    bench = Bench()
    member = await bench.formed()
    for _ in range(5):
        await bench.clock.advance(9)
        assert await bench.heartbeat(member) is NONE
    await bench.clock.advance(11)
    assert await bench.state() is ClassicGroupState.EMPTY
    assert await bench.heartbeat(member) is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_heartbeat_arms_no_timer_and_makes_no_task() -> None:
    bench = Bench()
    member = await bench.formed()
    armed, tasks = bench.clock.armed, len(asyncio.all_tasks())
    for _ in range(100):
        await bench.heartbeat(member)
    assert bench.clock.armed == armed
    assert len(asyncio.all_tasks()) == tasks


async def test_a_group_that_cannot_be_stored_rebalances_and_says_why() -> None:
    for error, told in (
        (KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (KafkaError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE), ErrorCode.UNKNOWN_SERVER_ERROR),
        (ValueError("a mistake of ours"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ):
        bench = Bench()
        bench.store.fails = error
        join = await bench.join()
        await bench.clock.advance(0.1)
        sync = await bench.sync(join.result().member_id)
        await settle()
        assert sync.result().error is told
        assert await bench.state() is ClassicGroupState.PREPARING


async def test_a_store_that_refuses_at_once_is_the_same() -> None:
    bench = Bench()
    join = await bench.join()
    await bench.clock.advance(0.1)
    bench.store.refuses = KafkaError(ErrorCode.NOT_COORDINATOR)
    sync = await bench.sync(join.result().member_id)
    await settle()
    assert sync.result().error is ErrorCode.NOT_COORDINATOR


async def test_a_write_that_is_given_up_is_an_error_too() -> None:
    bench = Bench()
    bench.store.held_back = []
    join = await bench.join()
    await bench.clock.advance(0.1)
    sync = await bench.sync(join.result().member_id)
    bench.store.held_back[0][1].cancel()
    await settle()
    assert sync.result().error is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_lost_slot_lets_its_groups_go() -> None:
    bench = Bench()
    member = await bench.formed()
    rejoin = await bench.join(member)
    other = await bench.join(group_id="other")
    new_member = await bench.join()
    bench.store.lose(lambda group_id: group_id == "g")
    assert new_member.result().error is ErrorCode.NOT_COORDINATOR
    assert rejoin.done()
    assert not other.done()
    assert bench.metrics.loaded.value == 1
    bench.store.refuses = KafkaError(ErrorCode.NOT_COORDINATOR)
    with pytest.raises(KafkaError) as raised:
        await bench.heartbeat(member)
    assert code_of(raised) == ErrorCode.NOT_COORDINATOR


async def test_nothing_is_held_when_the_process_stops() -> None:
    bench = Bench()
    join = await bench.join()
    bench.groups.stop()
    assert join.result().error is ErrorCode.NOT_COORDINATOR
    for request in (
        bench.join(), bench.sync("m1"), bench.heartbeat("m1"), bench.groups.leave("g", []),
        bench.groups.classic_group("g"), bench.groups.classic_groups(), bench.groups.delete("g"),
        bench.groups.check_commit("g", "", None, -1, 8),
    ):  # fmt: skip
        with pytest.raises(KafkaError) as raised:
            await request
        assert code_of(raised) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await bench.groups.close()
    assert bench.clock.waiting == 0


async def test_closing_waits_for_what_is_being_stored() -> None:
    bench = Bench()
    member = await bench.formed()
    bench.store.held_back = []
    await bench.groups.leave("g", [Leave(member)])
    closing = asyncio.ensure_future(bench.groups.close())
    await settle()
    assert not closing.done()
    bench.store.release()
    await closing


async def test_a_group_that_never_came_to_be_is_forgotten() -> None:
    bench = Bench()
    told = (await bench.join(id_required=True)).result()
    assert told.error is ErrorCode.MEMBER_ID_REQUIRED
    assert bench.metrics.loaded.value == 1
    await bench.clock.advance(10)
    assert bench.metrics.loaded.value == 0
    assert bench.store.held == {}
    refused = await bench.join(protocols=())
    assert refused.result().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.metrics.loaded.value == 0


async def test_a_group_is_loaded_once_by_many() -> None:
    bench = Bench()
    bench.store.slow = True
    joins = await asyncio.gather(*(bench.join() for _ in range(5)))
    await bench.clock.advance(1)
    assert {join.result().generation for join in joins} == {1}
    assert bench.metrics.loaded.value == 1


async def test_an_answer_that_no_client_waits_for_is_dropped() -> None:
    bench = Bench()
    (await bench.join()).cancel()
    await bench.clock.advance(0.1)
    assert await bench.state() is ClassicGroupState.COMPLETING


async def test_a_deleted_group_is_gone_only_when_that_is_stored() -> None:
    bench = Bench()
    member = await bench.formed()
    await bench.groups.leave("g", [Leave(member)])
    await settle()
    bench.store.fails = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(KafkaError):
        await bench.groups.delete("g")
    assert await bench.state() is ClassicGroupState.EMPTY
    bench.store.fails = None
    await bench.groups.delete("g")
    assert await bench.state() is None
    assert bench.store.held == {}
    with pytest.raises(KafkaError) as raised:
        await bench.groups.delete("g")
    assert code_of(raised) == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_member_that_joins_while_its_group_is_deleted_stays() -> None:
    bench = Bench()
    member = await bench.formed()
    await bench.groups.leave("g", [Leave(member)])
    await settle()
    bench.store.held_back = []
    deleting = asyncio.ensure_future(bench.groups.delete("g"))
    await settle()
    join = await bench.join()
    bench.store.release()
    await deleting
    await bench.clock.advance(0.1)
    assert join.result().error is NONE
    assert await bench.state() is ClassicGroupState.COMPLETING


# ---- what committed offsets ask --------------------------------------------------------------------------------------


async def _commit(bench: Bench, member_id: str, instance_id: str | None, generation: int, version: int = 8) -> int:
    try:
        await bench.groups.check_commit("g", member_id, instance_id, generation, version)
    except KafkaError as error:
        return error.code
    return 0


async def test_commits_are_checked() -> None:
    bench = Bench()
    assert await _commit(bench, "", None, -1) == NONE
    assert await _commit(bench, "m1", None, 1) == ErrorCode.ILLEGAL_GENERATION
    assert await _commit(bench, "m1", None, 1, version=9) == ErrorCode.GROUP_ID_NOT_FOUND
    member = await bench.formed()
    assert await _commit(bench, member, None, 1) == NONE
    assert await _commit(bench, "", None, -1) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_what_keeps_offsets() -> None:
    bench = Bench()
    await bench.store.write("simple", {offset_key("simple", "t", 0): encode_offset(StoredOffset(1))})
    assert not (await bench.groups.retention("nothing")).exists
    assert not (await bench.groups.retention("simple")).exists
    member = await bench.formed()
    hold = await bench.groups.retention("g")
    assert (hold.exists, hold.members, hold.consumer, hold.empty_since_ms) == (True, 1, True, 0)
    assert hold.subscribed == frozenset({"a", "b"})
    await bench.groups.leave("g", [Leave(member)])
    hold = await bench.groups.retention("g")
    assert (hold.exists, hold.members, hold.subscribed, hold.empty_since_ms) == (True, 0, None, 77_000)
    bench = bench.restarted()
    assert await bench.groups.retention("g") == hold


async def test_subscriptions_that_no_client_can_read_are_not_known() -> None:
    for changes in ({"protocol_type": "connect"}, {"protocols": (("range", b"?"),)}):
        bench = Bench()
        await bench.formed(**changes)
        assert (await bench.groups.retention("g")).subscribed is None


async def test_an_empty_group_without_offsets_can_be_forgotten() -> None:
    bench = Bench()
    await bench.groups.forget("nothing")
    member = await bench.formed()
    await bench.groups.forget("g")
    assert await bench.state() is ClassicGroupState.STABLE
    await bench.groups.leave("g", [Leave(member)])
    await settle()
    await bench.groups.forget("g")
    assert await bench.state() is None
    assert bench.store.held == {}


async def test_a_group_that_a_client_is_about_to_join_is_not_forgotten() -> None:
    bench = Bench()
    member = await bench.formed()
    await bench.groups.leave("g", [Leave(member)])
    await settle()
    told = (await bench.join(id_required=True)).result().member_id
    await bench.groups.forget("g")
    join = await bench.join(told)
    await bench.clock.advance(0.1)
    assert join.result().error is NONE


async def test_rebalances_are_told_with_their_reason(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    with caplog.at_level(logging.INFO):
        await bench.formed(reason="starting up")
    fields = [one.__dict__["fields"] for one in caplog.records if one.message == "= group"]
    assert [(one["state"], one.get("reason")) for one in fields] == [
        ("PreparingRebalance", "m1 joins: starting up"),
        ("CompletingRebalance", None),
        ("Stable", None),
    ]


@pytest.mark.parametrize("saving", [False, True])
async def test_a_group_that_has_gone_takes_no_memory_when_its_timers_and_writes_end(saving: bool) -> None:
    bench = Bench()
    member = await bench.formed()
    if saving:
        bench.store.held_back = []
        join = await bench.join(member)
        await settle()
        sync = await bench.sync(member, join.result().generation)
    bench.store.lose()
    if saving:
        bench.store.release()
        assert sync.result().error is ErrorCode.NOT_COORDINATOR
    await bench.clock.advance(120)
    assert bench.metrics.metadata_bytes.value == 0


async def test_a_group_whose_members_join_while_it_is_deleted_keeps_what_they_commit() -> None:
    bench = Bench()
    member = await bench.formed()
    await bench.groups.leave("g", [Leave(member)])
    await settle()
    held = bench.store.holds_load = asyncio.Event()
    deleting = asyncio.ensure_future(bench.groups.delete("g"))
    await settle()
    bench.store.holds_load = None
    member = await bench.formed()
    await bench.store.write("g", {offset_key("g", "t", 0): encode_offset(StoredOffset(2))})
    held.set()
    with pytest.raises(KafkaError) as raised:
        await deleting
    assert raised.value.code == ErrorCode.NON_EMPTY_GROUP
    assert bench.store.held["g"].offsets["t", 0].offset == 2
    assert await bench.heartbeat(member, 3) is NONE


async def test_no_member_gets_an_id_that_is_too_long_to_be_read_again() -> None:
    bench = Bench()
    with pytest.raises(KafkaError) as raised:
        await bench.join(new_id=f"{'c' * MAX_STRING}-1")
    assert code_of(raised) == ErrorCode.INVALID_REQUEST
    await bench.formed(new_id="c" * MAX_STRING)
    bench = bench.restarted()
    assert await bench.state() is ClassicGroupState.STABLE
    assert await bench.heartbeat("c" * MAX_STRING) is NONE
