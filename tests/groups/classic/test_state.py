"""The classic group protocol, told by what members see: joining, rebalances."""

from typing import Any

import pytest

from bridge.groups.classic.events import ClassicGroupState, Leave
from bridge.kafka.error_codes import ErrorCode
from tests.groups.classic.machine import DELAY, NONE, REBALANCE, SESSION, Machine

IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
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


def test_new_members_put_the_first_rebalance_off() -> None:
    machine = Machine()
    first = machine.join()
    machine.pass_time(DELAY - 0.1)
    second = machine.join()
    machine.pass_time(DELAY)
    assert first.held
    machine.pass_time(0.1)
    assert first.error is second.error is NONE
    assert first.joined.generation == second.joined.generation == 1


def test_new_members_cannot_put_it_off_beyond_the_rebalance_timeout() -> None:
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
    assert machine.state is ClassicGroupState.EMPTY
    again = machine.join("m1", id_required=True)
    machine.pass_time(DELAY)
    assert again.error is NONE
    assert again.joined.member_id == "m1"


def test_a_static_member_needs_no_second_join() -> None:
    machine = Machine()
    join = machine.join(instance_id="i", id_required=True)
    machine.pass_time(DELAY)
    assert join.error is NONE


def test_an_id_that_no_client_joins_with_expires() -> None:
    machine = Machine()
    machine.join(id_required=True)
    assert not machine.group.has_no_state
    machine.pass_time(SESSION)
    assert machine.group.has_no_state
    assert machine.join("m1", id_required=True).error is UNKNOWN


def test_a_pending_member_holds_up_the_rebalance_until_it_joins() -> None:
    machine = Machine()
    (leader,) = machine.formed(1)
    pending = machine.join(id_required=True).joined.member_id
    assert machine.state is ClassicGroupState.STABLE
    rejoin = machine.join(leader)
    assert rejoin.held
    new_member = machine.join(pending, id_required=True)
    assert rejoin.error is new_member.error is NONE
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
    assert machine.group.has_no_state


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
    assert machine.state is ClassicGroupState.STABLE


def test_the_protocol_with_most_votes_among_the_common_ones_is_chosen() -> None:
    machine = Machine()
    lists = "abc", "ba", "dba"
    joins = [machine.join(protocols=tuple((name, b"") for name in names)) for names in lists]
    machine.pass_time(4 * DELAY)
    assert {join.joined.protocol_name for join in joins} == {"b"}


def test_a_group_that_was_empty_may_take_another_protocol_type() -> None:
    machine = Machine()
    machine.leave(*machine.formed(1))
    assert machine.state is ClassicGroupState.EMPTY
    join = machine.join(protocol_type="connect", protocols=(("default", b""),))
    machine.pass_time(DELAY)
    assert (join.joined.protocol_type, join.joined.protocol_name) == ("connect", "default")


# ---- rebalances ------------------------------------------------------------------------------------------------------


def test_a_new_member_makes_a_stable_group_rebalance() -> None:
    machine = Machine()
    first, second = machine.formed(2)
    new_member = machine.join()
    assert machine.heartbeat(first) is IN_PROGRESS
    assert machine.heartbeat(second) is IN_PROGRESS
    rejoins = [machine.join(first), machine.join(second)]
    assert [join.joined.generation for join in (new_member, *rejoins)] == [2, 2, 2]
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
    assert machine.group.members.leader == second
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


def test_a_rebalance_that_no_client_joins_is_tried_until_the_sessions_are_over() -> None:
    machine = Machine()
    long = int(5 * REBALANCE * 1000)
    first, second = machine.formed_statically("a", "b", session_timeout_ms=long)
    machine.leave(Leave("", "b"))
    machine.pass_time(2 * REBALANCE)
    assert machine.state is ClassicGroupState.PREPARING
    assert machine.members == {first}
    machine.pass_time(4 * REBALANCE)
    assert machine.group.state is ClassicGroupState.EMPTY
    assert machine.members == set()
    assert second != first


def test_a_rebalance_that_no_client_joins_is_not_tried_without_a_pause() -> None:
    machine = Machine()
    machine.formed_statically("a", "b")
    machine.group.members["m1"].rebalance_timeout_ms = 0
    machine.leave("m2")
    machine.group.expire(machine.now)
    assert machine.state is ClassicGroupState.PREPARING
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
    assert machine.state is ClassicGroupState.STABLE


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
    assert machine.state is ClassicGroupState.COMPLETING
    assert machine.join("m1").joined == leader.joined
    assert machine.join("m2").joined == follower.joined


def test_a_member_that_changes_while_the_assignment_is_awaited_starts_over() -> None:
    machine = Machine()
    machine.join(), machine.join()
    machine.pass_time(3 * DELAY)
    waiting = machine.sync("m2")
    machine.join("m1", protocols=CHANGED)
    assert waiting.error is IN_PROGRESS
    assert machine.state is ClassicGroupState.PREPARING


def test_a_join_that_is_repeated_answers_the_first_one() -> None:
    machine = Machine()
    first, _ = machine.formed(2)
    once = machine.join(first)
    twice = machine.join(first)
    assert once.error is IN_PROGRESS
    assert twice.held
