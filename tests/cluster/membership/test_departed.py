"""Who is remembered of those that have left, and for how long."""

from __future__ import annotations

from bridge.cluster.membership.departed import LISTED_SECONDS, DepartedNodes
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration, NodeState


def member(id_: int, state: NodeState = NodeState.UP, port: int = 9092) -> NodeRegistration:
    return NodeRegistration(f"n{id_}", 1, id_, (Endpoint("PLAINTEXT", "host", port),), state=state)


def view(*members: NodeRegistration) -> ClusterView:
    return ClusterView(1, 1, {one.id: one for one in members})


def listed(departed: DepartedNodes, now: float) -> list[int]:
    return [one.id for one in departed.members(lambda: now)]


def test_a_member_that_has_left_is_known_for_a_minute() -> None:
    departed = DepartedNodes()
    assert listed(departed, 0.0) == []
    departed.observe(view(member(1), member(2), member(3)), view(member(1), member(3)), lambda: 10.0)
    departed.observe(view(member(1), member(3)), view(member(1)), lambda: 20.0)
    assert listed(departed, 20.0) == [2, 3]
    assert listed(departed, 10.0 + LISTED_SECONDS) == [3]
    assert listed(departed, 20.0 + LISTED_SECONDS) == []


def test_one_that_says_it_is_gone_has_left_then_and_not_once_more_when_the_view_drops_it() -> None:
    departed = DepartedNodes()
    gone = view(member(1), member(2, NodeState.GONE))
    departed.observe(view(member(1), member(2, NodeState.LEAVING)), gone, lambda: 10.0)
    departed.observe(gone, view(member(1)), lambda: 50.0)
    assert listed(departed, 9.0 + LISTED_SECONDS) == [2]
    assert listed(departed, 10.0 + LISTED_SECONDS) == []


def test_one_that_is_back_has_not_left() -> None:
    departed = DepartedNodes()
    departed.observe(view(member(1), member(2)), view(member(1)), lambda: 10.0)
    departed.observe(view(member(1)), view(member(1), member(2, port=9093)), lambda: 11.0)
    assert listed(departed, 11.0) == []
