"""The classic group protocol, told by what members see: static members, commits, beginnings."""

from typing import Any

import pytest

from bridge.groups.classic.events import ClassicGroupState, GroupConfig
from bridge.groups.classic.records import GroupRecord, MemberRecord
from bridge.groups.classic.state import FROM, ClassicGroup
from bridge.kafka.error_codes import ErrorCode
from tests.groups.classic.machine import DELAY, NONE, RANGE, REBALANCE, SESSION, Machine

IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
FENCED = ErrorCode.FENCED_INSTANCE_ID
CHANGED = (("range", b"other"),)


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
    assert machine.group.members.leader == restarted.member_id


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
    assert machine.group.members[old].session_timeout_ms == SESSION * 1000


def test_a_replacement_overtaken_by_a_rebalance_joins_it() -> None:
    machine = Machine()
    leader, _ = machine.formed_statically("a", "b")
    machine.store_at_once = False
    restarted = machine.join(instance_id="b")
    new_member = machine.join()
    machine.stored()
    assert restarted.held
    machine.join(leader, instance_id="a")
    assert restarted.joined.generation == new_member.joined.generation == 2


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
    assert machine.state is ClassicGroupState.STABLE


def test_a_commit_without_a_generation_needs_a_group_without_members() -> None:
    machine = Machine()
    assert machine.commit("", generation=-1) is NONE
    assert machine.commit("a_client", generation=-1) is NONE
    members = machine.formed(1)
    assert machine.commit("", generation=-1) is UNKNOWN
    assert machine.commit("", generation=-1, instance_id="a") is UNKNOWN
    machine.leave(*members)
    assert machine.commit("", generation=-1) is NONE


# ---- the end, and another beginning ----------------------------------------------------------------------------------


def test_a_killed_group_lets_all_members_go() -> None:
    machine = Machine()
    first, second = machine.formed(2)
    machine.join(first), machine.join(second)
    sync = machine.sync(second)
    new_member_id = machine.join(id_required=True).joined.member_id
    assert machine.holds_requests
    machine.kill()
    assert sync.error is ErrorCode.NOT_COORDINATOR
    assert not machine.holds_requests
    assert machine.group.deadline() == float("inf")
    gone = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert machine.join(new_member_id).error is machine.join().error is gone
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
    assert machine.state is ClassicGroupState.DEAD


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
    return Machine(ClassicGroup.restore("g", GroupConfig(initial_delay=DELAY), record, now=1000.0))


def test_a_stored_group_goes_on_in_its_generation() -> None:
    machine = _restored(_record())
    assert machine.state is ClassicGroupState.STABLE
    assert machine.heartbeat("m1", 7) is NONE
    assert machine.commit("m2", 7, "i") is NONE
    assert machine.sync("m1", generation=7).synced.assignment == b"m1"
    assert machine.group.members.leader == "m2"
    rejoin = machine.join("m1", protocols=(("range", b"r"),))
    assert rejoin.joined.generation == 7


def test_the_sessions_of_a_stored_group_begin_again() -> None:
    machine = _restored(_record())
    machine.pass_time(SESSION - 0.1)
    assert machine.members == {"m1", "m2"}
    machine.pass_time(0.2, "m1")
    assert machine.members == {"m1"}


def test_a_stored_group_without_members_is_empty() -> None:
    machine = _restored(_record(members=(), leader=None))
    assert machine.state is ClassicGroupState.EMPTY
    assert machine.group.generation == 7
    assert not machine.group.has_no_state


def test_a_stored_leader_that_is_no_member_does_not_lead() -> None:
    assert _restored(_record(leader="stranger")).group.members.leader == "m1"
    assert _restored(_record(leader=None)).group.members.leader == "m1"


def test_no_state_follows_that_the_table_does_not_allow() -> None:
    for target, before in FROM.items():
        for state in ClassicGroupState:
            group = ClassicGroup("g", GroupConfig())
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


# ---- how many ------------------------------------------------------------------------------------------------------


def full(size: int) -> Machine:
    return Machine(ClassicGroup("g", GroupConfig(initial_delay=DELAY, max_size=size)))


def test_a_member_too_many_is_refused_until_another_goes() -> None:
    machine = full(2)
    first, second = machine.formed(2)
    assert machine.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert machine.heartbeat(first) is NONE
    assert machine.leave(second) == [NONE]
    assert machine.join().held


def test_ids_that_are_given_out_count() -> None:
    machine = full(2)
    ids = [machine.join(id_required=True).joined.member_id for _ in range(2)]
    assert machine.join(id_required=True).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert all(machine.join(one).held for one in ids)
    assert machine.members == set(ids)


def test_who_is_a_member_may_join_again_in_a_full_group() -> None:
    machine = full(2)
    leader, follower = machine.formed_statically("a", "b")
    assert machine.join(leader, instance_id="a", protocols=CHANGED + RANGE).held
    assert machine.join(instance_id="b").error is NONE
    assert machine.join(instance_id="c").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert follower not in machine.members
