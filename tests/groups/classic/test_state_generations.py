"""The classic group protocol, told by what members see: syncing, sessions, leaving."""

from bridge.groups.classic.events import ClassicGroupState, Leave
from bridge.kafka.error_codes import ErrorCode
from tests.groups.classic.machine import DELAY, NONE, REBALANCE, SESSION, Machine

IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
FENCED = ErrorCode.FENCED_INSTANCE_ID


# ---- syncing ---------------------------------------------------------------------------------------------------------


def test_followers_wait_for_the_leaders_assignment_and_its_storage() -> None:
    machine = Machine()
    machine.store_at_once = False
    machine.join(), machine.join()
    machine.pass_time(3 * DELAY)
    follower = machine.sync("m2")
    assert follower.held
    leader = machine.sync("m1", {"m1": b"1", "m2": b"2", "stranger": b"3"}, protocol_type="consumer")
    assert leader.held
    record = machine.stored()
    assert (leader.synced.assignment, follower.synced.assignment) == (b"1", b"2")
    assert (leader.synced.protocol_type, leader.synced.protocol_name) == ("consumer", "range")
    assert machine.state is ClassicGroupState.STABLE
    assert (record.generation, record.leader, record.protocol_name) == (1, "m1", "range")
    assert [(one.id, one.subscription, one.assignment) for one in record.members] == [
        ("m1", b"r", b"1"),
        ("m2", b"r", b"2"),
    ]


def test_a_member_without_an_assignment_gets_an_empty_one() -> None:
    machine = Machine()
    machine.join(), machine.join()
    machine.pass_time(3 * DELAY)
    follower = machine.sync("m2")
    machine.sync("m1", {})
    assert (follower.error, follower.synced.assignment) == (NONE, b"")


def test_late_followers_get_their_assignment_at_once() -> None:
    machine = Machine()
    machine.join(), machine.join()
    machine.pass_time(3 * DELAY)
    machine.sync("m1", {"m2": b"2"})
    assert machine.sync("m2").synced.assignment == b"2"


def test_syncs_are_checked() -> None:
    machine = Machine()
    assert machine.sync("m1").error is UNKNOWN
    machine.join()
    machine.pass_time(DELAY)
    assert machine.sync("stranger").error is UNKNOWN
    assert machine.sync("m1", generation=0).error is ErrorCode.ILLEGAL_GENERATION
    assert machine.sync("m1", protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert machine.sync("m1", protocol_name="sticky").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert machine.sync("m1", protocol_type="consumer", protocol_name="range").error is NONE
    machine.join("m1"), machine.join()
    machine.join()
    assert machine.sync("m1").error in (IN_PROGRESS, NONE)


def test_a_sync_during_a_rebalance_is_told_to_join() -> None:
    machine = Machine()
    first, _ = machine.formed(2)
    machine.join()
    assert machine.sync(first).error is IN_PROGRESS


def test_a_sync_that_is_repeated_answers_the_first_one_and_stores_once() -> None:
    machine = Machine()
    machine.store_at_once = False
    machine.join()
    machine.pass_time(DELAY)
    once, twice = machine.sync("m1", {"m1": b"1"}), machine.sync("m1", {"m1": b"2"})
    assert once.error is IN_PROGRESS
    assert len(machine.saves) == 1
    machine.stored()
    assert twice.synced.assignment == b"1"


def test_an_assignment_that_cannot_be_stored_makes_the_group_rebalance() -> None:
    machine = Machine()
    machine.store_at_once = False
    machine.join(), machine.join()
    machine.pass_time(3 * DELAY)
    syncs = machine.sync("m2"), machine.sync("m1", {"m2": b"2"})
    machine.stored(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert {sync.error for sync in syncs} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert machine.state is ClassicGroupState.PREPARING
    machine.join("m1"), machine.join("m2")
    machine.pass_time(1.0)
    machine.sync("m1", {})
    machine.stored()
    assert (machine.state, machine.group.generation) == (ClassicGroupState.STABLE, 2)


def test_generations_come_ever_more_slowly_while_none_can_be_stored() -> None:
    machine = Machine()
    machine.store_at_once = False
    machine.join()
    machine.pass_time(DELAY)
    waits = []
    for _ in range(7):
        machine.sync("m1", {"m1": b"1"})
        machine.stored(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        began, rejoin = machine.now, machine.join("m1")
        while rejoin.held:
            machine.pass_time(0.5)
        waits.append(machine.now - began)
    assert waits == [1, 2, 4, 8, 16, 16, 16]
    assert "m1" in machine.members  # its session goes on meanwhile
    machine.sync("m1", {"m1": b"1"})
    machine.stored()
    assert machine.state is ClassicGroupState.STABLE
    assert machine.join("m1").error is NONE  # the leader's: a rebalance that waits for nothing


def test_an_unstored_generation_holds_up_no_member_for_longer_than_the_rebalance_timeout() -> None:
    machine = Machine()
    machine.store_at_once = False
    machine.join(rebalance_timeout_ms=500)
    machine.pass_time(DELAY)
    machine.sync("m1", {"m1": b"1"})
    machine.stored(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    rejoin = machine.join("m1", rebalance_timeout_ms=500)
    machine.pass_time(0.5)
    assert rejoin.error is NONE


def test_an_assignment_stored_too_late_counts_for_nothing() -> None:
    machine = Machine()
    machine.store_at_once = False
    machine.join()
    machine.pass_time(DELAY)
    sync = machine.sync("m1", {"m1": b"old"})
    new_member = machine.join()
    assert sync.error is IN_PROGRESS
    machine.stored()
    assert machine.state is ClassicGroupState.PREPARING
    machine.join("m1")
    assert new_member.joined.generation == 2
    machine.sync("m1", {"m2": b"new"})
    machine.stored()
    assert machine.sync("m2").synced.assignment == b"new"


def test_an_assignment_stored_in_the_next_generation_is_not_its() -> None:
    machine = Machine()
    machine.store_at_once = False
    machine.join()
    machine.pass_time(DELAY)
    machine.sync("m1", {"m1": b"old"})
    machine.join()
    machine.join("m1")
    machine.sync("m1", {"m1": b"new"})
    assert len(machine.saves) == 2
    machine.stored()
    assert machine.state is ClassicGroupState.COMPLETING
    machine.stored()
    assert machine.sync("m1").synced.assignment == b"new"


def test_members_that_do_not_sync_in_time_are_removed() -> None:
    machine = Machine()
    machine.join(), machine.join()
    machine.pass_time(3 * DELAY)
    waiting = machine.sync("m2")
    machine.pass_time(REBALANCE + 0.1, "m1")
    assert waiting.error is IN_PROGRESS
    assert machine.members == {"m2"}


def test_members_that_do_not_sync_are_removed_from_a_stable_group_too() -> None:
    machine = Machine()
    machine.join(), machine.join()
    machine.pass_time(3 * DELAY)
    machine.sync("m1", {})
    machine.pass_time(REBALANCE - 3 * DELAY - 0.1, "m1", "m2")
    assert machine.state is ClassicGroupState.STABLE
    machine.pass_time(3 * DELAY, "m1", "m2")
    assert machine.heartbeat("m2") is UNKNOWN
    assert machine.group.state is ClassicGroupState.PREPARING


# ---- sessions --------------------------------------------------------------------------------------------------------


def test_heartbeats_keep_a_session_alive() -> None:
    machine = Machine()
    first, second = machine.formed(2)
    machine.pass_time(3 * SESSION, first)
    assert machine.members == {first}
    assert machine.state is ClassicGroupState.PREPARING
    assert machine.heartbeat(second) is UNKNOWN


def test_the_last_members_session_over_leaves_an_empty_group() -> None:
    machine = Machine()
    machine.formed(1)
    machine.store_at_once = False
    machine.pass_time(SESSION)
    assert machine.state is ClassicGroupState.EMPTY
    record = machine.stored()
    assert (record.generation, record.protocol_type, record.protocol_name) == (2, "consumer", None)
    assert (record.leader, record.members) == (None, ())


def test_an_empty_group_that_cannot_be_stored_stays_empty() -> None:
    machine = Machine()
    members = machine.formed(1)
    machine.store_at_once = False
    machine.leave(*members)
    machine.stored(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert machine.state is ClassicGroupState.EMPTY


def test_a_held_request_counts_as_alive() -> None:
    machine = Machine()
    first, second = machine.formed(2)
    rejoin = machine.join(first)
    machine.pass_time(3 * SESSION, second)
    assert rejoin.held
    machine.join(second)
    waiting = machine.sync(second)
    machine.pass_time(3 * SESSION, first)
    assert waiting.held
    machine.sync(first)
    assert waiting.error is NONE


def test_a_new_members_held_join_counts_for_nothing_after_five_minutes() -> None:
    machine = Machine()
    (first,) = machine.formed(1, rebalance_timeout_ms=1_000_000)
    new_member = machine.join()
    machine.pass_time(299, first)
    assert new_member.held
    machine.pass_time(2, first)
    assert new_member.error is UNKNOWN
    assert new_member.joined.member_id == ""


def test_heartbeats_are_checked() -> None:
    machine = Machine()
    assert machine.heartbeat("m1") is UNKNOWN
    (member,) = machine.formed(1)
    assert machine.heartbeat(member) is NONE
    assert machine.heartbeat(member, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert machine.heartbeat("stranger") is UNKNOWN
    assert machine.heartbeat(member, instance_id="i") is UNKNOWN


def test_heartbeats_are_fine_while_the_assignment_is_awaited() -> None:
    machine = Machine()
    machine.join()
    machine.pass_time(DELAY)
    assert machine.heartbeat("m1") is NONE


def test_a_rebalance_ends_when_those_missing_are_dead() -> None:
    machine = Machine()
    first, _ = machine.formed(2)
    rejoin = machine.join(first)
    machine.pass_time(SESSION)
    assert rejoin.error is NONE


def test_timers_that_others_have_overtaken_do_nothing() -> None:
    machine = Machine()
    first, second = machine.formed(2)
    machine.join(first)  # the rebalance ends by the second's session and by its timeout at the same time
    machine.group.expire(machine.now + REBALANCE)
    assert machine.group.generation == 2
    assert machine.members == {first}
    machine = Machine()
    machine.join(), machine.join()
    machine.pass_time(3 * DELAY)
    machine.group.expire(machine.now + REBALANCE)
    assert machine.members == set()
    assert machine.state is ClassicGroupState.EMPTY
    assert second


# ---- leaving ---------------------------------------------------------------------------------------------------------


def test_a_member_that_leaves_makes_the_others_rebalance() -> None:
    machine = Machine()
    first, second = machine.formed(2)
    assert machine.leave(first) == [NONE]
    assert machine.heartbeat(second) is IN_PROGRESS
    rejoin = machine.join(second)
    assert rejoin.joined.leader == second


def test_several_members_leave_together() -> None:
    machine = Machine()
    first, second, third = machine.formed(3)
    assert machine.leave(first, "stranger", second) == [NONE, UNKNOWN, NONE]
    assert machine.members == {third}
    assert machine.group.generation == 1


def test_no_client_rebalances_when_strangers_leave() -> None:
    machine = Machine()
    machine.formed(1)
    assert machine.leave("stranger", "") == [UNKNOWN, UNKNOWN]
    assert machine.state is ClassicGroupState.STABLE


def test_a_member_leaves_while_its_requests_are_held() -> None:
    machine = Machine()
    first, second = machine.formed(2)
    rejoin = machine.join(first)
    machine.leave(first)
    assert rejoin.error is UNKNOWN
    machine.join(second)
    waiting = machine.join()
    machine.join(second)
    assert machine.state is ClassicGroupState.COMPLETING
    sync = machine.sync(waiting.joined.member_id)
    machine.leave(waiting.joined.member_id)
    assert sync.error is UNKNOWN


def test_static_members_are_removed_by_instance_id_alone_or_checked() -> None:
    machine = Machine()
    first, second = machine.formed_statically("a", "b")
    assert machine.leave(Leave("old", "a")) == [FENCED]
    assert machine.leave(Leave("", "c")) == [UNKNOWN]
    assert machine.leave(Leave("", "a"), Leave(second, "b")) == [NONE, NONE]
    assert machine.members == set()
    assert first
