"""One member's steps towards its target."""

import uuid

import pytest

from bridge.groups.consumer.model import Assignment, ConsumerMember, MemberState
from bridge.groups.consumer.reconcile import reconcile

T, U = uuid.UUID(int=1), uuid.UUID(int=2)
STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED, MemberState.UNRELEASED


def _t(*numbers: int) -> Assignment:
    return {T: frozenset(numbers)} if numbers else {}


def _member(
    state: MemberState = STABLE, epoch: int = 5, assigned: Assignment | None = None, **more: Assignment
) -> ConsumerMember:
    return ConsumerMember("m", epoch=epoch, previous_epoch=epoch - 1, state=state, assigned=assigned or {}, **more)  # type: ignore[arg-type]


def _other(assigned: Assignment, revoking: Assignment) -> list[ConsumerMember]:
    return [ConsumerMember("n", epoch=5, assigned=assigned, revoking=revoking)]


# state, epoch, assigned, revoking | target of epoch 6, others have, owned | state, epoch, assigned, revoking
STEPS = [
    ("nothing to do", STABLE, 6, _t(0), {}, _t(1), {}, None, STABLE, 6, _t(0), {}),
    ("all is free", STABLE, 5, {}, {}, _t(0, 1), {}, None, STABLE, 6, _t(0, 1), {}),
    ("the same again", STABLE, 5, _t(0), {}, _t(0), {}, None, STABLE, 6, _t(0), {}),
    ("some is not free", STABLE, 5, {}, {}, _t(0, 1), _t(1), None, UNRELEASED, 6, _t(0), {}),
    ("it has to give", STABLE, 5, _t(0, 1), {}, _t(0), {}, None, UNREVOKED, 5, _t(0), _t(1)),
    ("it has given already", STABLE, 5, _t(0, 1), {}, _t(0), {}, _t(0), STABLE, 6, _t(0), {}),
    ("it gives before it gets", STABLE, 5, _t(0), {}, _t(1), {}, None, UNREVOKED, 5, {}, _t(0)),
    ("it does not say", UNREVOKED, 5, _t(0), _t(1), _t(0), {}, None, UNREVOKED, 5, _t(0), _t(1)),
    ("it still has it", UNREVOKED, 5, _t(0), _t(1), _t(0), {}, _t(0, 1), UNREVOKED, 5, _t(0), _t(1)),
    ("it has given", UNREVOKED, 5, _t(0), _t(1), _t(0, 2), {}, _t(0), STABLE, 6, _t(0, 2), {}),
    ("it gets back what it gave", UNREVOKED, 5, _t(0), _t(1), _t(0, 1), {}, _t(0), STABLE, 6, _t(0, 1), {}),
    ("more to give", UNREVOKED, 4, _t(0), _t(1), {}, {}, _t(0), UNREVOKED, 5, {}, _t(0)),
    ("others still have it", UNRELEASED, 6, _t(0), {}, _t(0, 1), _t(1), None, UNRELEASED, 6, _t(0), {}),
    ("others have given", UNRELEASED, 6, _t(0), {}, _t(0, 1), {}, None, STABLE, 6, _t(0, 1), {}),
    ("others have given some", UNRELEASED, 6, {}, {}, _t(0, 1), _t(1), None, UNRELEASED, 6, _t(0), {}),
    ("a topic is gone", STABLE, 5, {U: frozenset({0})}, {}, {}, {}, None, UNREVOKED, 5, {}, {U: frozenset({0})}),
]  # fmt: skip


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step[0])
@pytest.mark.parametrize("revoking", [False, True], ids=["assigned", "being revoked"])
def test_a_step(step: tuple[object, ...], revoking: bool) -> None:
    _, state, epoch, assigned, pending, target, held, owned, after, new_epoch, has, gives = step
    member = _member(state, epoch, assigned, revoking=pending)  # type: ignore[arg-type]
    others = _other({}, held) if revoking else _other(held, {})  # type: ignore[arg-type]
    result = reconcile(member, target, 6, others, owned)  # type: ignore[arg-type]
    assert (result.state, result.epoch, result.assigned, result.revoking) == (after, new_epoch, has, gives)
    if (result.state, result.epoch, result.assigned) == (state, epoch, assigned):
        assert result is member
    else:
        assert result.previous_epoch == epoch
