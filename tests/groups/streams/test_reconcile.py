"""One member's steps towards its target (the cases of Kafka's CurrentAssignmentBuilderTest, and more)."""

from typing import NamedTuple

import pytest

from bridge.groups.consumer.model import MemberState
from bridge.groups.streams.model import NO_TASKS, StreamsMember, Tasks
from bridge.groups.streams.reconcile import reconcile
from tests.groups.streams.tasks import roles, tasks

STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED, MemberState.UNRELEASED
ROLES = ["active", "standby", "warmup"]


class Step(NamedTuple):
    name: str
    state: MemberState
    epoch: int
    assigned: str
    revoking: str
    target: str
    held: str  # by another member of the same process, in the same role
    owned: str | None
    after: MemberState
    new_epoch: int
    has: str
    gives: str


# the target is that of epoch 11
STEPS = [Step(*step) for step in [
    ("the same again", STABLE, 10, "1_1 1_2 2_3", "", "1_1 1_2 2_3", "", None, STABLE, 11, "1_1 1_2 2_3", ""),
    ("nothing to do", STABLE, 11, "1_1 1_2", "", "1_1 1_2", "1_1", None, STABLE, 11, "1_1 1_2", ""),
    ("at the target's epoch", STABLE, 11, "1_1", "", "1_1 1_2", "", None, STABLE, 11, "1_1", ""),
    ("all is free", STABLE, 10, "1_1 2_3", "", "1_1 1_4 2_3 2_7", "", None, STABLE, 11, "1_1 1_4 2_3 2_7", ""),
    ("it has to give", STABLE, 10, "1_1 1_2 2_3 2_4", "", "1_2 1_3 2_4 2_5", "", None,
     UNREVOKED, 10, "1_2 2_4", "1_1 2_3"),
    ("it has to give all", STABLE, 10, "1_1 2_3", "", "", "", None, UNREVOKED, 10, "", "1_1 2_3"),
    ("it still has what it must give", STABLE, 10, "1_1 1_2", "", "1_1", "", "1_1 1_2", UNREVOKED, 10, "1_1", "1_2"),
    ("it has given already", STABLE, 10, "1_1 1_2", "", "1_1", "", "1_1", STABLE, 11, "1_1", ""),
    ("none is free", STABLE, 10, "1_1 2_3", "", "1_1 1_4 2_3 2_7", "1_4 2_7", None, UNRELEASED, 11, "1_1 2_3", ""),
    ("some is free", STABLE, 10, "1_1", "", "1_1 1_4 2_7", "2_7", None, UNRELEASED, 11, "1_1 1_4", ""),
    ("it has given, and waits", STABLE, 10, "1_1 1_2 2_3 2_4", "", "1_1 1_2 2_3 2_5", "2_5", "",
     UNRELEASED, 11, "1_1 1_2 2_3", ""),
    ("it gives, and has all", UNREVOKED, 10, "1_2 2_5", "1_1 2_4", "1_2 2_5", "", "1_2 2_5", STABLE, 11, "1_2 2_5", ""),
    ("it does not say", UNREVOKED, 10, "1_2 1_3", "1_1 2_4", "1_3", "", None, UNREVOKED, 10, "1_2 1_3", "1_1 2_4"),
    ("it has one yet", UNREVOKED, 10, "1_2", "1_1 2_4", "1_2", "", "1_1 1_2", UNREVOKED, 10, "1_2", "1_1 2_4"),
    ("it has another yet", UNREVOKED, 10, "1_2", "1_1 2_4", "1_2", "", "1_2 2_4", UNREVOKED, 10, "1_2", "1_1 2_4"),
    ("there is more to give", UNREVOKED, 10, "1_2 1_3 2_5", "1_1", "1_3", "", "1_2 1_3 2_5",
     UNREVOKED, 11, "1_3", "1_2 2_5"),
    ("it gives, and waits", UNREVOKED, 10, "1_2", "1_1", "1_2 1_4 2_7", "1_4 2_7", "1_2", UNRELEASED, 11, "1_2", ""),
    ("it gets back what it gave", UNREVOKED, 10, "1_2", "1_1", "1_1 1_2", "", "1_2", STABLE, 11, "1_1 1_2", ""),
    ("it waits for nothing more", UNRELEASED, 10, "1_2 2_5", "", "1_2 2_5", "1_2", None, STABLE, 11, "1_2 2_5", ""),
    ("what it waits for is free", UNRELEASED, 11, "1_2", "", "1_2 1_4 2_7", "", None, STABLE, 11, "1_2 1_4 2_7", ""),
    ("nothing is free yet", UNRELEASED, 11, "1_2", "", "1_2 1_4", "1_4", None, UNRELEASED, 11, "1_2", ""),
    ("one of two is free", UNRELEASED, 11, "2_5", "", "1_4 2_5 2_7", "1_4", None, UNRELEASED, 11, "2_5 2_7", ""),
    ("it has to give after all", UNRELEASED, 10, "1_2 1_3 2_5 2_6", "", "1_3 2_6", "", None,
     UNREVOKED, 10, "1_3 2_6", "1_2 2_5"),
]]  # fmt: skip


def _roles(role: str, text: str) -> Tasks:
    return roles(**{role: text})


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("how", ["assigned", "revoking"])
def test_a_step(step: Step, role: str, how: str) -> None:
    member = StreamsMember(
        "m", "p", epoch=step.epoch, previous_epoch=step.epoch - 1, state=step.state,
        assigned=_roles(role, step.assigned), revoking=_roles(role, step.revoking),
        since=dict.fromkeys(tasks(f"{step.assigned} {step.revoking}") if role == "active" else (), 5),
    )  # fmt: skip
    other = StreamsMember("n", "p", **{how: _roles(role, step.held)})  # type: ignore[arg-type]
    owned = None if step.owned is None else _roles(role, step.owned)
    result = reconcile(member, _roles(role, step.target), 11, [other], owned)
    assert (result.state, result.epoch) == (step.after, step.new_epoch)
    assert (result.assigned, result.revoking) == (_roles(role, step.has), _roles(role, step.gives))
    changed = (step.state, step.epoch, step.assigned) != (step.after, step.new_epoch, step.has)
    assert (result is member) != changed
    if changed:
        assert result.previous_epoch == step.epoch
    assert result.since.keys() == (result.assigned | result.revoking).active


FREE: dict[str, tuple[list[str], list[str]]] = {
    # to be: where the same process may have it, where another may
    "active": ([], ["standby", "warmup"]),
    "standby": ([], ROLES),
    "warmup": ([], ROLES),
}


@pytest.mark.parametrize("wanted", ROLES)
@pytest.mark.parametrize("held", ROLES)
@pytest.mark.parametrize("process", ["p", "q"])
@pytest.mark.parametrize("how", ["assigned", "revoking"])
def test_when_a_task_is_free(wanted: str, held: str, process: str, how: str) -> None:
    """A process has one state directory: two of its members can't have one task. An active task is at one member."""
    member = StreamsMember("m", "p", epoch=10)
    other = StreamsMember("n", process, **{how: _roles(held, "1_4")})  # type: ignore[arg-type]
    bystander = StreamsMember("o", "p", assigned=roles("1_5", "1_6", "1_8"))
    result = reconcile(member, _roles(wanted, "1_4 1_7"), 11, [other, bystander], None)
    if held in FREE[wanted][process == "q"]:
        assert (result.state, result.assigned) == (STABLE, _roles(wanted, "1_4 1_7"))
    else:
        assert (result.state, result.assigned) == (UNRELEASED, _roles(wanted, "1_7"))


def test_a_task_changes_its_role_at_one_member_when_the_member_has_given_it_back() -> None:
    member = StreamsMember("m", "p", epoch=10, assigned=roles("1_1", "1_2"), since={task: 3 for task in tasks("1_1")})
    gives = reconcile(member, roles("1_2", "1_1"), 11, [], None)
    assert (gives.state, gives.assigned, gives.revoking) == (UNREVOKED, NO_TASKS, roles("1_1", "1_2"))
    assert reconcile(gives, roles("1_2", "1_1"), 11, [], roles("1_1")) is gives
    assert reconcile(gives, roles("1_2", "1_1"), 11, [], roles("", "1_2")) is gives
    has = reconcile(gives, roles("1_2", "1_1"), 11, [], NO_TASKS)
    assert (has.state, has.epoch, has.assigned) == (STABLE, 11, roles("1_2", "1_1"))
    assert has.since == {task: 11 for task in tasks("1_2")}


def test_an_active_task_remembers_since_when_the_member_has_it() -> None:
    """What is kept keeps its epoch; what is given, even what was given back just now, has that of the target."""
    since = {task: epoch for epoch, text in ((5, "1_1"), (6, "1_2"), (7, "2_3"), (8, "2_4")) for task in tasks(text)}
    stable = StreamsMember("m", "p", epoch=10, assigned=roles("1_1 1_2 2_3 2_4"), since=since)
    assert reconcile(stable, stable.assigned, 11, [], None).since == since
    gives = reconcile(stable, roles("1_1 1_2 2_3 2_5"), 11, [], None)
    assert (gives.revoking, gives.since) == (roles("2_4"), since)
    revoking = StreamsMember(
        "m", "p", epoch=10, state=UNREVOKED, assigned=roles("1_1 1_2"), revoking=roles("2_3 2_4"), since=since
    )
    has = reconcile(revoking, roles("1_1 1_2 2_3 2_5"), 11, [], roles("1_1"))
    expected = {
        **dict.fromkeys(tasks("2_3 2_5"), 11),
        **dict.fromkeys(tasks("1_1"), 5),
        **dict.fromkeys(tasks("1_2"), 6),
    }
    assert (has.state, has.since) == (STABLE, expected)


def test_an_active_task_of_unknown_age_is_as_old_as_the_member_s_epoch() -> None:
    member = StreamsMember("m", "p", epoch=10, assigned=roles("1_1"))
    assert reconcile(member, roles("1_1"), 11, [], None).since == dict.fromkeys(tasks("1_1"), 10)
