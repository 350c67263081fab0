"""What an operator may order, and what the cluster makes of it."""

from dataclasses import replace

import pytest

from bridge.cluster.membership.effects import HandedOver, MembershipState, NodeRefused, Serving
from bridge.cluster.membership.orders import Order, OrderRefused, ordered
from bridge.cluster.membership.records import WholeView
from bridge.cluster.membership.view import NodeState, Sender
from tests.cluster.lone import Lone

TOOL = Sender("operator", 1)


def two() -> Lone:
    """A controller, and a member of the name b."""
    lone = Lone().join()
    lone.hear("b")
    lone.run(0.1)
    return lone


def order(lone: Lone, what: Order, name: str) -> None:
    """The tool's record comes next in the log."""
    record = ordered(lone.node.view, TOOL, what, name)
    assert isinstance(record, WholeView)
    lone.read(record)
    lone.run(0.1)


def test_a_removed_node_is_out_at_once_and_this_life_is_not_admitted_again() -> None:
    lone = two()
    order(lone, Order.REMOVE, "b")
    assert set(lone.node.view.owners) == {0}
    lone.hear("b")
    lone.run(0.1)
    lone.hear("b", weight=2)
    lone.run(0.1)
    assert lone.node.view.members.keys() == {0}
    assert lone.told(NodeRefused) == [NodeRefused("b", "it was removed; a restart brings it back")]
    lone.hear("b", 2)
    lone.run(0.1)
    assert lone.node.view.members.keys() == {0, 1}
    assert not lone.node.view.removed


def test_a_controller_that_is_removed_is_succeeded_and_does_not_come_back_by_itself() -> None:
    lone = two()
    order(lone, Order.REMOVE, "a")
    assert (lone.node.view.controller, lone.node.state) == (1, MembershipState.JOINING)
    assert lone.serving() is Serving.REFUSE
    lone.told(WholeView)
    lone.run(30.0)  # the other one is silent, too
    assert lone.told(WholeView) == []


def test_a_process_that_starts_after_a_removal_is_a_later_life() -> None:
    lone = two()
    order(lone, Order.REMOVE, "b")
    other = Lone("b")
    view = replace(lone.node.view, removed={"b": 70})
    other.read(WholeView(TOOL, 0, view))
    assert other.node.node.incarnation == 71


def test_a_drained_node_leads_nothing_whatever_it_tells_and_over_restarts() -> None:
    lone = two()
    order(lone, Order.DRAIN, "b")
    lone.hear("b", weight=9)
    lone.run(0.5)
    lone.hear("b", 2)
    lone.run(0.5)
    assert (set(lone.node.view.owners), set(lone.node.view.groups)) == ({0}, {0})
    order(lone, Order.UNDRAIN, "b")
    lone.run(1.0)
    assert set(lone.node.view.owners) == {0, 1}


def test_a_drained_node_leads_if_no_other_is_left() -> None:
    lone = two()
    order(lone, Order.DRAIN, "a")
    assert set(lone.node.view.owners) == {1}
    order(lone, Order.REMOVE, "b")
    assert set(lone.node.view.owners) == {0}


def test_a_node_that_leaves_gives_to_a_drained_one_if_no_other_is_left() -> None:
    lone = two()
    order(lone, Order.DRAIN, "b")
    lone.told(HandedOver)
    lone.node.leave(lone.now)
    assert lone.told(HandedOver) == []
    lone.run(0.5)
    assert set(lone.node.view.owners) == {1}
    assert lone.told(HandedOver) == [HandedOver()]


@pytest.mark.parametrize(
    ("what", "name", "why"),
    [
        (Order.REMOVE, "x", "there is no node 'x'"),
        (Order.REMOVE, "c", "'c' is not a member"),
        (Order.DRAIN, "d", "'d' is drained"),
        (Order.UNDRAIN, "a", "'a' is not drained"),
        (Order.DRAIN, "a", "no other node could lead what 'a' leads"),
        (Order.REMOVE, "a", "'a' is the only node"),
    ],
)
def test_what_cannot_be_is_refused(what: Order, name: str, why: str) -> None:
    view = Lone().join().node.view
    view = replace(view, ids={**view.ids, "c": 3}, drained=frozenset({"d"}))
    with pytest.raises(OrderRefused, match=why):
        ordered(view, TOOL, what, name)


def test_the_last_node_that_is_up_is_not_removed() -> None:
    view = two().node.view
    leaving = replace(view.members[1], state=NodeState.LEAVING)
    with pytest.raises(OrderRefused):
        ordered(replace(view, members={**view.members, 1: leaving}), TOOL, Order.REMOVE, "a")


def test_a_successor_is_the_member_that_has_been_here_longest() -> None:
    lone = two()
    lone.hear("c")
    lone.run(0.1)
    record = ordered(lone.node.view, TOOL, Order.REMOVE, "a")
    assert isinstance(record, WholeView)
    assert record.view.controller == 1
    later = replace(lone.node.view.members[1], since=10_000)
    view = replace(lone.node.view, members={**lone.node.view.members, 1: later})
    record = ordered(view, TOOL, Order.REMOVE, "a")
    assert isinstance(record, WholeView)
    assert record.view.controller == 2


def test_ids_of_names_that_have_been_away_for_longest_are_forgotten() -> None:
    lone = Lone().join()
    lone.node.config = replace(lone.node.config, timing=replace(lone.node.config.timing, kept_ids=4))
    assert lone.node.controller
    lone.node.controller.timing = lone.node.config.timing
    for name in "bcdefg":
        lone.hear(name)
        lone.run(0.1)
    for name in "gfedc":
        order(lone, Order.REMOVE, name)
        for alive in "ab":
            lone.hear(alive)
    lone.run(0.1)
    assert lone.node.view.ids.keys() == {"a", "b", "c", "d", "e"}
    assert list(lone.node.view.away) == ["e", "d", "c"]
