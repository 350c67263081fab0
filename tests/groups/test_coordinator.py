"""The front door: groups of either protocol are found, resumed, and change their protocol."""

import gc
from typing import Any

import pytest

from bridge.errors import KafkaError
from bridge.groups.classic import records as metadata
from bridge.groups.classic.events import ClassicGroupState, Leave
from bridge.groups.consumer.model import ConsumerGroupState
from bridge.groups.store.records import (
    StoredOffset,
    encode_offset,
    encode_pending,
    group_key,
    member_key,
    offset_key,
    pending_key,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.visibility import Outcome
from tests.groups.classic.bench import Bench as ClassicBench
from tests.groups.clock import settle
from tests.groups.consumer.bench import Bench, error_code
from tests.groups.fake_outcomes import transaction


async def test_resuming_waits_for_the_store_and_leaves_out_what_it_cannot_read() -> None:
    bench = ClassicBench()
    await bench.store.write("bad", {group_key("bad"): b"?"})
    await bench.formed()
    bench = bench.restarted()
    bench.store.refuses = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    bench.groups.start()
    await settle()
    bench.store.refuses = None
    assert len(bench.groups._classic.loaded) == 0
    await bench.clock.advance(1)
    assert bench.metrics.loaded.value == 1
    with pytest.raises(KafkaError) as raised:
        await bench.groups.classic_group("bad")
    assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await bench.groups.close()


async def test_stored_classic_members_that_are_gone_are_removed_without_a_request() -> None:
    bench = ClassicBench()
    await bench.formed()
    bench = bench.restarted()
    bench.groups.start()
    await settle()
    assert bench.metrics.loaded.value == 1
    await bench.clock.advance(10)
    assert await bench.state() is ClassicGroupState.EMPTY
    assert metadata.decode(bench.store.held["g"].metadata or b"").members == ()
    await bench.groups.close()


async def test_members_of_groups_taken_over_later_are_removed_without_a_request() -> None:
    bench = ClassicBench()
    await bench.formed()
    bench = bench.restarted()
    bench.groups.start()
    await settle()
    bench.groups.unload(lambda group_id: True)
    assert bench.metrics.loaded.value == 0
    for owned in bench.store.on_owned:
        owned(["g"])
    await settle()
    assert bench.metrics.loaded.value == 1
    await bench.clock.advance(10)
    assert await bench.state() is ClassicGroupState.EMPTY
    await bench.groups.close()


async def test_what_is_taken_over_while_the_node_stops_is_left_to_others(recwarn: pytest.WarningsRecorder) -> None:
    bench = ClassicBench()
    await bench.formed()
    bench = bench.restarted()
    await bench.groups.close()
    for owned in bench.store.on_owned:
        owned(["g"])
    gc.collect()  # a coroutine that is made and never run would be told here
    await settle()
    assert bench.metrics.loaded.value == 0
    assert not recwarn.list


async def test_all_groups_are_seen_also_those_not_in_memory() -> None:
    bench = ClassicBench()
    await bench.formed()
    await bench.store.write("simple", {offset_key("simple", "t", 0): encode_offset(StoredOffset(1))})
    bench = bench.restarted()
    await bench.join(group_id="new")
    assert sorted((one.id, one.state.value) for one in await bench.groups.classic_groups()) == [
        ("g", "Stable"),
        ("new", "PreparingRebalance"),
        ("simple", "Empty"),
    ]
    assert bench.metrics.loaded.value == 2


async def test_stored_consumers_that_are_gone_are_removed_without_a_request() -> None:
    bench = Bench()
    await bench.joined()
    bench = bench.restarted()
    bench.groups.start()
    await settle()
    await bench.clock.advance(45)
    assert await bench.state() is ConsumerGroupState.EMPTY
    assert bench.store.held["g"].members == {}
    await bench.groups.close()


async def test_a_classic_group_whose_members_do_not_say_what_they_want_stays_one() -> None:
    bench = Bench()
    assert await bench.classic_join() == 0
    assert await error_code(bench.join()) == ErrorCode.GROUP_ID_NOT_FOUND
    assert await error_code(bench.send("m", 1)) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_consumer_group_with_members_takes_none_that_does_not_say_what_it_wants() -> None:
    bench = Bench()
    await bench.joined()
    assert await error_code(bench.classic_join()) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert await error_code(bench.restarted().classic_join()) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert await error_code(bench.groups.heartbeat("g", "m", None, 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await bench.groups.classic_group("g") is None
    assert await bench.groups.classic_groups() == []
    assert await bench.groups.consumer_groups() == [("g", ConsumerGroupState.STABLE)]


@pytest.mark.parametrize("restarts", [False, True])
async def test_an_empty_group_changes_its_protocol_and_keeps_its_offsets(restarts: bool) -> None:
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
    assert bench.store.held["g"].offsets == {("t", 0): StoredOffset(5)}
    assert await error_code(bench.join()) == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_group_that_only_has_offsets_can_be_joined() -> None:
    bench = Bench()
    await bench.store.write("g", {offset_key("g", "t", 0): encode_offset(StoredOffset(5))})
    await bench.store.write("g", {member_key("g", "ghost"): b"?"})
    assert (await bench.joined()).epoch == 1
    assert bench.store.held["g"].members.keys() == {"m"}
    assert bench.store.held["g"].offsets == {("t", 0): StoredOffset(5)}


async def test_administrators_remove_members() -> None:
    bench = Bench()
    await bench.joined(instance_id="i")
    assert await bench.groups.leave("g", [Leave("x"), Leave("", "i")]) == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert await bench.state() is ConsumerGroupState.EMPTY
    assert await bench.groups.leave("nothing", [Leave("x")]) == [ErrorCode.UNKNOWN_MEMBER_ID]


# ---- offsets in transactions -----------------------------------------------------------------------------------------

NONE, UNKNOWN, ILLEGAL = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION
FENCED = ErrorCode.FENCED_INSTANCE_ID


async def _told(groups: Any, member: str, instance: str | None, generation: int) -> int:
    return await error_code(groups.check_commit_in_transaction("g", member, instance, generation))


@pytest.mark.parametrize("kind", ["none", "only offsets", "classic", "consumer"])
async def test_who_may_commit_in_a_transaction(kind: str) -> None:
    classic, consumer = ClassicBench(), Bench()
    bench: ClassicBench | Bench = consumer if kind == "consumer" else classic
    member, other = "m", "n"
    if kind == "only offsets":
        await bench.store.write("g", {offset_key("g", "t", 0): encode_offset(StoredOffset(5))})
    elif kind == "classic":
        member = await classic.formed()
    elif kind == "consumer":
        await consumer.joined(member)
    has_members = kind in ("classic", "consumer")
    expected = {
        ("", None, -1): NONE,  # as clients before Kafka 2.5 commit
        (member, None, 1): NONE if has_members else UNKNOWN if kind == "only offsets" else ILLEGAL,
        (member, None, 2): ILLEGAL if kind != "only offsets" else UNKNOWN,
        (other, None, 1): UNKNOWN if kind != "none" else ILLEGAL,
        (member, None, -1): ILLEGAL if has_members else NONE,
        (other, None, -1): UNKNOWN if has_members else NONE,
        ("", None, 1): UNKNOWN if kind != "none" else ILLEGAL,
    }
    assert {asked: await _told(bench.groups, *asked) for asked in expected} == expected
    assert await error_code(bench.groups.check_commit_in_transaction("", "", None, -1)) == ErrorCode.INVALID_GROUP_ID
    bench.groups.stop()
    assert await _told(bench.groups, "", None, -1) == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_rebalance_does_not_keep_a_transaction_from_committing_but_the_next_generation_does() -> None:
    bench = ClassicBench()
    member = await bench.formed(instance_id="i")
    assert [await _told(bench.groups, *asked) for asked in ((member, "i", 1), ("x", "i", 1), ("", "i", -1))] == [
        NONE, FENCED, FENCED,
    ]  # fmt: skip
    await bench.join()
    assert await bench.state() is ClassicGroupState.PREPARING
    assert await _told(bench.groups, member, "i", 1) == NONE
    assert (await bench.join(member, instance_id="i")).result().generation == 2
    assert await bench.state() is ClassicGroupState.COMPLETING
    assert await _told(bench.groups, member, "i", 2) == NONE
    assert await _told(bench.groups, member, "i", 1) == ILLEGAL
    assert metadata.decode(bench.store.held["g"].metadata or b"").generation == 1  # the next one is not stored yet


async def test_an_epoch_that_is_not_stored_yet_counts() -> None:
    bench = Bench()
    await bench.joined("m")
    bench.store.held_back = []
    join = await bench.join("n", topics="u")
    beat = await bench.send("m", 1)
    assert not join.done()
    assert not beat.done()
    assert [await _told(bench.groups, "m", None, epoch) for epoch in (1, 2)] == [ILLEGAL, NONE]
    bench.store.release()
    assert (await beat).epoch == 2


@pytest.mark.parametrize("kind", ["classic", "consumer"])
@pytest.mark.parametrize("decided", [None, Outcome.COMMITTED, Outcome.ABORTED])
async def test_a_deleted_group_keeps_what_open_transactions_commit(kind: str, decided: Outcome | None) -> None:
    classic, consumer = ClassicBench(), Bench()
    bench: ClassicBench | Bench = consumer if kind == "consumer" else classic
    if kind == "classic":
        await classic.groups.leave("g", [Leave(await classic.formed())])
        await settle()
    else:
        await consumer.joined("m")
        await consumer.beat("m", -1)
    one = transaction(1)
    pending = pending_key("g", "t", 1, one.identity)
    value = encode_pending(StoredOffset(9), one.slot)
    await bench.store.write("g", {offset_key("g", "t", 0): encode_offset(StoredOffset(5)), pending: value})
    if decided is not None:
        bench.store.outcomes.recorded[one] = decided  # this node is told when it asks
    await bench.groups.delete("g")
    assert bench.store.outcomes.confirms == 1
    if decided is not None:
        assert bench.store.held == {}
        return
    stored = bench.store.held["g"]
    assert (stored.metadata, stored.members, stored.offsets, list(stored.pendings)) == (None, {}, {}, [("t", 1)])
