"""The classic group protocol, told by what members see."""

from typing import Any

import pytest

from bridge.groups.events import Leave, Timing
from bridge.groups.metadata import GroupRecord, MemberRecord
from bridge.groups.state import FROM, Group, State
from bridge.kafka.error_codes import ErrorCode
from tests.groups.machine import DELAY, NONE, RANGE, REBALANCE, SESSION, Machine

IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
FENCED = ErrorCode.FENCED_INSTANCE_ID
CHANGED = (("range", b"other"),)


# ---- joining ---------------------------------------------------------------------------------------------------------


def test_the_first_rebalance_waits_for_the_initial_delay() -> None:
    machine = Machine()
    join = machine.join()
    machine.pass_time(DELAY - 0.1)
    assert join.held
    machine.pass_time(0.2)
    assert join.error is NONE
    assert join.joined.generation == 1
    assert join.joined.leader == join.joined.member_id
    assert (join.joined.protocol_type, join.joined.protocol_name) == ("consumer", "range")


def test_newcomers_put_the_first_rebalance_off() -> None:
    machine = Machine()
    first = machine.join()
    machine.pass_time(DELAY - 0.1)
    second = machine.join()
    machine.pass_time(DELAY)
    assert first.held
    machine.pass_time(0.1)
    assert first.error is second.error is NONE
    assert first.joined.generation == second.joined.generation == 1


def test_newcomers_cannot_put_it_off_beyond_the_rebalance_timeout() -> None:
    machine = Machine()
    first = machine.join(rebalance_timeout_ms=int(2.5 * DELAY * 1000))
    for _ in range(10):
        machine.pass_time(DELAY / 4)
        machine.join(rebalance_timeout_ms=1)
    assert first.error is NONE


def test_only_the_leader_sees_the_members() -> None:
    machine = Machine()
    first, second = machine.join(), machine.join(protocols=(("range", b"second"),), instance_id="i")
    machine.pass_time(3 * DELAY)
    assert first.joined.members == (("m1", None, b"r"), ("m2", "i", b"second"))
    assert second.joined.members == ()
    assert second.joined.leader == "m1"


def test_a_new_dynamic_member_is_told_its_id_first() -> None:
    machine = Machine()
    first = machine.join(id_required=True)
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.joined.member_id == "m1"
    assert machine.state is State.EMPTY
    again = machine.join("m1", id_required=True)
    machine.pass_time(DELAY)
    assert again.error is NONE
    assert again.joined.member_id == "m1"


def test_a_static_member_needs_no_second_join() -> None:
    machine = Machine()
    join = machine.join(instance_id="i", id_required=True)
    machine.pass_time(DELAY)
    assert join.error is NONE


def test_an_id_that_nobody_joins_with_expires() -> None:
    machine = Machine()
    machine.join(id_required=True)
    assert not machine.group.blank
    machine.pass_time(SESSION)
    assert machine.group.blank
    assert machine.join("m1", id_required=True).error is UNKNOWN


def test_a_pending_member_holds_up_the_rebalance_until_it_joins() -> None:
    machine = Machine()
    (leader,) = machine.formed(1)
    pending = machine.join(id_required=True).joined.member_id
    assert machine.state is State.STABLE
    rejoin = machine.join(leader)
    assert rejoin.held
    newcomer = machine.join(pending, id_required=True)
    assert rejoin.error is newcomer.error is NONE
    assert len(rejoin.joined.members) == 2


def test_a_pending_member_that_never_joins_holds_it_up_no_longer_than_its_session() -> None:
    machine = Machine()
    (leader,) = machine.formed(1)
    machine.join(id_required=True, session_timeout_ms=2000)
    rejoin = machine.join(leader)
    machine.pass_time(1.9)
    assert rejoin.held
    machine.pass_time(0.2)
    assert rejoin.error is NONE


def test_a_pending_member_can_leave() -> None:
    machine = Machine()
    (leader,) = machine.formed(1)
    pending = machine.join(id_required=True).joined.member_id
    rejoin = machine.join(leader)
    assert machine.leave(pending) == [NONE]
    assert rejoin.error is NONE
    machine = Machine()
    assert machine.leave(machine.join(id_required=True).joined.member_id) == [NONE]
    assert machine.group.blank


def test_an_unknown_id_is_refused() -> None:
    machine = Machine()
    assert machine.join("stranger").error is UNKNOWN
    machine.formed(1)
    refused = machine.join("stranger")
    assert refused.error is UNKNOWN
    assert refused.joined.member_id == "stranger"


@pytest.mark.parametrize(
    "changes", [{"protocol_type": ""}, {"protocols": ()}], ids=["no protocol type", "no protocols"]
)
def test_the_first_member_must_name_its_protocols(changes: dict[str, Any]) -> None:
    assert Machine().join(**changes).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("changes", [{"protocol_type": "connect"}, {"protocols": (("sticky", b""),)}], ids=str)
def test_a_member_must_fit_the_group(changes: dict[str, Any]) -> None:
    machine = Machine()
    (member,) = machine.formed(1)
    for member_id in ("", member):
        assert machine.join(member_id, **changes).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert machine.state is State.STABLE


def test_the_protocol_with_most_votes_among_the_common_ones_is_chosen() -> None:
    machine = Machine()
    lists = "abc", "ba", "dba"
    joins = [machine.join(protocols=tuple((name, b"") for name in names)) for names in lists]
    machine.pass_time(4 * DELAY)
    assert {join.joined.protocol_name for join in joins} == {"b"}


def test_a_group_that_was_empty_may_take_another_protocol_type() -> None:
    machine = Machine()
    machine.leave(*machine.formed(1))
    assert machine.state is State.EMPTY
    join = machine.join(protocol_type="connect", protocols=(("default", b""),))
    machine.pass_time(DELAY)
    assert (join.joined.protocol_type, join.joined.protocol_name) == ("connect", "default")


# ---- rebalances ------------------------------------------------------------------------------------------------------


def test_a_newcomer_makes_a_stable_group_rebalance() -> None:
    machine = Machine()
    first, second = machine.formed(2)
    newcomer = machine.join()
    assert machine.heartbeat(first) is IN_PROGRESS
    assert machine.heartbeat(second) is IN_PROGRESS
    rejoins = [machine.join(first), machine.join(second)]
    assert [join.joined.generation for join in (newcomer, *rejoins)] == [2, 2, 2]
    assert rejoins[0].joined.leader == first


def test_a_rebalance_waits_for_every_member_up_to_the_rebalance_timeout() -> None:
    machine = Machine()
    first, second = machine.formed(2)
    rejoin = machine.join(first)
    machine.pass_time(REBALANCE - 0.1, second)
    assert rejoin.held
    machine.pass_time(0.2, second)
    assert rejoin.error is NONE
    assert machine.members == {first}
    assert machine.heartbeat(second) is UNKNOWN


def test_the_most_patient_member_sets_the_rebalance_timeout() -> None:
    machine = Machine()
    first = machine.join(rebalance_timeout_ms=1000)
    machine.join(rebalance_timeout_ms=30_000)
    machine.pass_time(3 * DELAY)
    machine.sync("m1")
    machine.sync("m2")
    assert first.error is NONE
    rejoin = machine.join("m1", rebalance_timeout_ms=1000)
    machine.pass_time(29, "m2")
    assert rejoin.held
    machine.pass_time(1.1, "m2")
    assert rejoin.error is NONE


def test_a_leader_that_does_not_come_back_is_replaced() -> None:
    machine = Machine()
    first, second = machine.formed(2)
    machine.join(second, protocols=CHANGED)
    machine.pass_time(REBALANCE + 0.1, first)
    assert machine.group.roster.leader == second
    first, second = (machine := Machine()).formed_statically("a", "b", session_timeout_ms=10 * int(REBALANCE * 1000))
    rejoin = machine.join(second, instance_id="b", protocols=CHANGED)
    machine.pass_time(REBALANCE + 0.1)
    assert rejoin.joined.leader == second
    assert len(rejoin.joined.members) == 2


def test_static_members_stay_when_they_miss_a_rebalance() -> None:
    machine = Machine()
    first, second = machine.formed_statically("a", "b", session_timeout_ms=10 * int(REBALANCE * 1000))
    rejoin = machine.join(first, instance_id="a")
    machine.pass_time(REBALANCE + 0.1)
    assert [member for member, _, _ in rejoin.joined.members] == [first, second]


def test_a_rebalance_that_nobody_joins_is_tried_until_the_sessions_are_over() -> None:
    machine = Machine()
    long = int(5 * REBALANCE * 1000)
    first, second = machine.formed_statically("a", "b", session_timeout_ms=long)
    machine.leave(Leave("", "b"))
    machine.pass_time(2 * REBALANCE)
    assert machine.state is State.PREPARING
    assert machine.members == {first}
    machine.pass_time(4 * REBALANCE)
    assert machine.group.state is State.EMPTY
    assert machine.members == set()
    assert second != first


def test_a_rebalance_that_nobody_joins_is_not_tried_without_a_pause() -> None:
    machine = Machine()
    machine.formed_statically("a", "b")
    machine.group.roster["m1"].rebalance_timeout_ms = 0
    machine.leave("m2")
    machine.group.expire(machine.now)
    assert machine.state is State.PREPARING
    assert machine.group.deadline() > machine.now


def test_the_leader_can_ask_for_a_rebalance_by_joining_again() -> None:
    machine = Machine()
    leader, follower = machine.formed(2)
    rejoin = machine.join(leader)
    assert rejoin.held
    machine.join(follower)
    assert rejoin.joined.generation == 2


def test_a_follower_that_joins_again_unchanged_is_told_of_the_same_generation() -> None:
    machine = Machine()
    leader, follower = machine.formed(2)
    rejoin = machine.join(follower)
    assert (rejoin.error, rejoin.joined.generation, rejoin.joined.leader) == (NONE, 1, leader)
    assert machine.sync(follower).synced.assignment == follower.encode()
    assert machine.state is State.STABLE


def test_a_member_that_changes_its_subscription_makes_the_group_rebalance() -> None:
    machine = Machine()
    leader, follower = machine.formed(2)
    rejoin = machine.join(follower, protocols=CHANGED)
    assert rejoin.held
    assert machine.join(leader).joined.members[1] == (follower, None, b"other")


def test_a_member_that_missed_the_answer_to_its_join_gets_it_again() -> None:
    machine = Machine()
    leader, follower = machine.join(), machine.join()
    machine.pass_time(3 * DELAY)
    assert machine.state is State.COMPLETING
    assert machine.join("m1").joined == leader.joined
    assert machine.join("m2").joined == follower.joined


def test_a_member_that_changes_while_the_assignment_is_awaited_starts_over() -> None:
    machine = Machine()
    machine.join(), machine.join()
    machine.pass_time(3 * DELAY)
    waiting = machine.sync("m2")
    machine.join("m1", protocols=CHANGED)
    assert waiting.error is IN_PROGRESS
    assert machine.state is State.PREPARING


def test_a_join_that_is_repeated_answers_the_first_one() -> None:
    machine = Machine()
    first, _ = machine.formed(2)
    once = machine.join(first)
    twice = machine.join(first)
    assert once.error is IN_PROGRESS
    assert twice.held


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
    assert machine.state is State.STABLE
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
    assert machine.state is State.PREPARING
    machine.join("m1"), machine.join("m2")
    machine.sync("m1", {})
    machine.stored()
    assert (machine.state, machine.group.generation) == (State.STABLE, 2)


def test_an_assignment_stored_too_late_counts_for_nothing() -> None:
    machine = Machine()
    machine.store_at_once = False
    machine.join()
    machine.pass_time(DELAY)
    sync = machine.sync("m1", {"m1": b"old"})
    newcomer = machine.join()
    assert sync.error is IN_PROGRESS
    machine.stored()
    assert machine.state is State.PREPARING
    machine.join("m1")
    assert newcomer.joined.generation == 2
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
    assert machine.state is State.COMPLETING
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
    assert machine.state is State.STABLE
    machine.pass_time(3 * DELAY, "m1", "m2")
    assert machine.heartbeat("m2") is UNKNOWN
    assert machine.group.state is State.PREPARING


# ---- sessions --------------------------------------------------------------------------------------------------------


def test_heartbeats_keep_a_session_alive() -> None:
    machine = Machine()
    first, second = machine.formed(2)
    machine.pass_time(3 * SESSION, first)
    assert machine.members == {first}
    assert machine.state is State.PREPARING
    assert machine.heartbeat(second) is UNKNOWN


def test_the_last_members_session_over_leaves_an_empty_group() -> None:
    machine = Machine()
    machine.formed(1)
    machine.store_at_once = False
    machine.pass_time(SESSION)
    assert machine.state is State.EMPTY
    record = machine.stored()
    assert (record.generation, record.protocol_type, record.protocol_name) == (2, "consumer", None)
    assert (record.leader, record.members) == (None, ())


def test_an_empty_group_that_cannot_be_stored_stays_empty() -> None:
    machine = Machine()
    members = machine.formed(1)
    machine.store_at_once = False
    machine.leave(*members)
    machine.stored(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert machine.state is State.EMPTY


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
    newcomer = machine.join()
    machine.pass_time(299, first)
    assert newcomer.held
    machine.pass_time(2, first)
    assert newcomer.error is UNKNOWN
    assert newcomer.joined.member_id == ""


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
    assert machine.state is State.EMPTY
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


def test_nobody_rebalances_when_strangers_leave() -> None:
    machine = Machine()
    machine.formed(1)
    assert machine.leave("stranger", "") == [UNKNOWN, UNKNOWN]
    assert machine.state is State.STABLE


def test_a_member_leaves_while_its_requests_are_held() -> None:
    machine = Machine()
    first, second = machine.formed(2)
    rejoin = machine.join(first)
    machine.leave(first)
    assert rejoin.error is UNKNOWN
    machine.join(second)
    waiting = machine.join()
    machine.join(second)
    assert machine.state is State.COMPLETING
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


# ---- static members --------------------------------------------------------------------------------------------------


def test_a_restarted_static_follower_gets_its_assignment_without_a_rebalance() -> None:
    machine = Machine()
    leader, follower = machine.formed_statically("a", "b")
    machine.store_at_once = False
    restarted = machine.join(instance_id="b")
    assert restarted.held
    record = machine.stored()
    new_id = restarted.joined.member_id
    assert new_id != follower
    assert [one.id for one in record.members] == [leader, new_id]
    assert (restarted.joined.generation, restarted.joined.leader) == (1, leader)
    assert not restarted.joined.skip_assignment
    assert machine.sync(new_id, instance_id="b").synced.assignment == follower.encode()
    assert machine.heartbeat(leader, instance_id="a") is NONE


def test_the_old_incarnation_is_fenced() -> None:
    machine = Machine()
    (old,) = machine.formed_statically("a")
    new = machine.join(instance_id="a").joined.member_id
    assert machine.heartbeat(old, instance_id="a") is FENCED
    assert machine.heartbeat(old) is UNKNOWN
    assert machine.commit(old, instance_id="a") is FENCED
    assert machine.sync(old, instance_id="a").error is FENCED
    assert machine.join(old, instance_id="a").error is FENCED
    assert machine.heartbeat(new, instance_id="a") is NONE


def test_a_restarted_static_leader_skips_the_assignment() -> None:
    machine = Machine()
    old, follower = machine.formed_statically("a", "b")
    restarted = machine.join(instance_id="a").joined
    assert restarted.skip_assignment
    assert restarted.leader == restarted.member_id
    assert {member for member, _, _ in restarted.members} == {restarted.member_id, follower}
    assert old not in machine.members


def test_a_restarted_static_leader_that_cannot_skip_takes_itself_for_a_follower() -> None:
    machine = Machine()
    old, _ = machine.formed_statically("a", "b")
    restarted = machine.join(instance_id="a", may_skip=False).joined
    assert (restarted.leader, restarted.members, restarted.skip_assignment) == (old, (), False)
    assert machine.group.roster.leader == restarted.member_id


def test_a_restarted_static_member_that_changes_the_protocol_makes_the_group_rebalance() -> None:
    machine = Machine()
    machine.formed_statically("a", "b")
    restarted = machine.join(instance_id="b", protocols=(("roundrobin", b""), ("range", b"")))
    assert restarted.error is NONE  # range still wins: the leader's vote came first
    (alone,) = (machine := Machine()).formed_statically("a")
    restarted = machine.join(instance_id="a", protocols=(("roundrobin", b""), ("range", b"")))
    assert restarted.joined.generation == 2
    assert restarted.joined.protocol_name == "roundrobin"
    assert alone not in machine.members


def test_a_replacement_that_cannot_be_stored_is_undone() -> None:
    machine = Machine()
    (old,) = machine.formed_statically("a")
    machine.store_at_once = False
    restarted = machine.join(instance_id="a", session_timeout_ms=20_000)
    machine.stored(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert restarted.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert restarted.joined.member_id == ""
    assert machine.members == {old}
    assert machine.heartbeat(old, instance_id="a") is NONE
    assert machine.group.roster[old].session_timeout_ms == SESSION * 1000


def test_a_replacement_overtaken_by_a_rebalance_joins_it() -> None:
    machine = Machine()
    leader, _ = machine.formed_statically("a", "b")
    machine.store_at_once = False
    restarted = machine.join(instance_id="b")
    newcomer = machine.join()
    machine.stored()
    assert restarted.held
    machine.join(leader, instance_id="a")
    assert restarted.joined.generation == newcomer.joined.generation == 2


def test_a_static_member_restarted_twice_fences_the_first_restart() -> None:
    machine = Machine()
    machine.formed_statically("a")
    machine.store_at_once = False
    once, twice = machine.join(instance_id="a"), machine.join(instance_id="a")
    assert once.error is FENCED
    machine.stored()
    machine.stored()
    assert twice.error is NONE


def test_a_static_member_restarted_while_the_assignment_is_awaited_starts_the_group_over() -> None:
    machine = Machine()
    first, second = machine.join(instance_id="a"), machine.join(instance_id="b")
    machine.pass_time(3 * DELAY)
    waiting = machine.sync(second.joined.member_id, instance_id="b")
    restarted = machine.join(instance_id="b")
    assert waiting.error is FENCED
    assert restarted.held
    rejoin = machine.join(first.joined.member_id, instance_id="a")
    assert rejoin.joined.generation == restarted.joined.generation == 2


def test_a_static_member_restarted_during_a_rebalance_takes_its_place_in_it() -> None:
    machine = Machine()
    first, second = machine.formed_statically("a", "b")
    waiting = machine.join(second, instance_id="b", protocols=CHANGED)
    restarted = machine.join(instance_id="b")
    assert waiting.error is FENCED
    machine.join(first, instance_id="a")
    assert restarted.joined.generation == 2


def test_a_static_member_restarted_before_it_synced_must_still_sync() -> None:
    machine = Machine()
    first, second = machine.join(instance_id="a"), machine.join(instance_id="b")
    machine.pass_time(3 * DELAY)
    machine.sync(first.joined.member_id, instance_id="a")
    restarted = machine.join(instance_id="b").joined.member_id
    machine.pass_time(REBALANCE, first.joined.member_id, restarted)
    assert machine.members == {first.joined.member_id}
    assert second.error is NONE


def test_a_pending_member_cannot_become_static() -> None:
    machine = Machine()
    pending = machine.join(id_required=True).joined.member_id
    assert machine.join(pending, instance_id="a").error is UNKNOWN


# ---- commits ---------------------------------------------------------------------------------------------------------


def test_a_member_commits_in_its_generation() -> None:
    machine = Machine()
    (member,) = machine.formed(1)
    assert machine.commit(member) is NONE
    assert machine.commit(member, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert machine.commit("stranger") is UNKNOWN
    assert machine.commit(member, generation=-1) is ErrorCode.ILLEGAL_GENERATION


def test_a_member_may_commit_until_it_has_joined_again() -> None:
    machine = Machine()
    first, second = machine.formed(2)
    machine.join(first)
    assert machine.commit(second) is NONE
    machine.join(second)
    assert machine.commit(second) is IN_PROGRESS


def test_a_commit_is_a_sign_of_life() -> None:
    machine = Machine()
    (member,) = machine.formed(1)
    machine.pass_time(SESSION - 1)
    machine.commit(member)
    machine.pass_time(SESSION - 1)
    assert machine.state is State.STABLE


def test_a_commit_without_a_generation_needs_a_group_without_members() -> None:
    machine = Machine()
    assert machine.commit("", generation=-1) is NONE
    assert machine.commit("somebody", generation=-1) is NONE
    members = machine.formed(1)
    assert machine.commit("", generation=-1) is UNKNOWN
    assert machine.commit("", generation=-1, instance_id="a") is UNKNOWN
    machine.leave(*members)
    assert machine.commit("", generation=-1) is NONE


# ---- the end, and another beginning ----------------------------------------------------------------------------------


def test_a_killed_group_lets_everybody_go() -> None:
    machine = Machine()
    first, second = machine.formed(2)
    machine.join(first), machine.join(second)
    sync = machine.sync(second)
    newcomer_id = machine.join(id_required=True).joined.member_id
    assert machine.group.waits
    machine.kill()
    assert sync.error is ErrorCode.NOT_COORDINATOR
    assert not machine.group.waits
    assert machine.group.deadline() == float("inf")
    gone = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert machine.join(newcomer_id).error is machine.join().error is gone
    assert machine.heartbeat(first) is machine.commit(first) is machine.commit("", -1) is gone
    assert machine.sync(first).error is gone
    assert machine.leave(first) == [gone]


def test_a_killed_group_answers_held_joins() -> None:
    machine = Machine()
    join = machine.join()
    machine.kill()
    assert join.error is ErrorCode.NOT_COORDINATOR
    assert join.joined.member_id == "m1"


def test_a_write_that_ends_after_the_group_does_nothing() -> None:
    machine = Machine()
    machine.store_at_once = False
    machine.join()
    machine.pass_time(DELAY)
    machine.sync("m1")
    machine.kill()
    machine.stored()
    assert machine.state is State.DEAD


def _record(**changes: Any) -> GroupRecord:
    members = tuple(
        MemberRecord(
            id=member_id,
            instance_id=instance_id,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            subscription=b"r",
            assignment=member_id.encode(),
        )
        for member_id, instance_id in (("m1", None), ("m2", "i"))
    )
    values: dict[str, Any] = {"leader": "m2", "members": members, **changes}
    return GroupRecord(7, "consumer", "range", **values)


def _restored(record: GroupRecord) -> Machine:
    return Machine(Group.restore("g", Timing(initial_delay=DELAY), record, now=1000.0))


def test_a_stored_group_goes_on_in_its_generation() -> None:
    machine = _restored(_record())
    assert machine.state is State.STABLE
    assert machine.heartbeat("m1", 7) is NONE
    assert machine.commit("m2", 7, "i") is NONE
    assert machine.sync("m1", generation=7).synced.assignment == b"m1"
    assert machine.group.roster.leader == "m2"
    rejoin = machine.join("m1", protocols=(("range", b"r"),))
    assert rejoin.joined.generation == 7


def test_the_sessions_of_a_stored_group_begin_anew() -> None:
    machine = _restored(_record())
    machine.pass_time(SESSION - 0.1)
    assert machine.members == {"m1", "m2"}
    machine.pass_time(0.2, "m1")
    assert machine.members == {"m1"}


def test_a_stored_group_without_members_is_empty() -> None:
    machine = _restored(_record(members=(), leader=None))
    assert machine.state is State.EMPTY
    assert machine.group.generation == 7
    assert not machine.group.blank


def test_a_stored_leader_that_is_no_member_does_not_lead() -> None:
    assert _restored(_record(leader="stranger")).group.roster.leader == "m1"
    assert _restored(_record(leader=None)).group.roster.leader == "m1"


def test_no_state_follows_that_the_table_does_not_allow() -> None:
    for target, before in FROM.items():
        for state in State:
            group = Group("g", Timing())
            group.state = state
            if state in before:
                group._move(target)
                assert group.state is target
            else:
                with pytest.raises(RuntimeError):
                    group._move(target)


def test_protocols_are_matched_in_order() -> None:
    machine = Machine()
    leader, follower = machine.formed(2)
    assert machine.join(follower, protocols=RANGE[::-1]).held
    assert leader
