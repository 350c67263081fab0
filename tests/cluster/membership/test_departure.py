"""A node leaves in order."""

from dataclasses import replace

import pytest

from bridge.cluster.membership.effects import (
    HandedOver,
    Left,
    ProbeResult,
    Serving,
    ServingChanged,
)
from bridge.cluster.membership.records import Heartbeat, WholeView
from bridge.cluster.membership.view import NodeState, Sender
from tests.cluster.lone import OTHER, Lone, member


def test_a_node_that_leaves_waits_until_the_others_have_taken_over() -> None:
    lone = member()
    lone.node.leave(lone.now)
    lone.node.leave(lone.now)
    lone.run(0.1)
    assert lone.told(HandedOver) == []
    view = lone.node.view
    lone.read(WholeView(OTHER.sender, 60, replace(view, version=61, owners=(1,) * 8, groups=(1, 1))))
    assert lone.told(HandedOver) == [HandedOver()]
    lone.node.stopped(lone.now)
    lone.run(1.2)
    assert lone.told(Left) == [Left()]
    assert lone.node.node.state is NodeState.GONE


def test_of_a_node_that_has_left_the_log_says_so() -> None:
    lone = member()
    lone.told(ServingChanged)
    lone.node.leave(lone.now)
    lone.node.stopped(lone.now)
    for _ in range(30):
        lone.run(0.5)
    (told,) = lone.told(ServingChanged)
    assert (told.serving, told.cause) == (Serving.REFUSE, "this node is not a member, or has left")
    assert ServingChanged(Serving.SERVE, "").cause == "all is known again"


def test_it_does_not_wait_forever() -> None:
    lone = member()
    lone.node.leave(lone.now)
    for _ in range(21):
        lone.run(0.5)
    assert lone.told(HandedOver) == [HandedOver()]
    lone.echoes = False
    lone.node.stopped(lone.now)
    lone.run(3.2)
    assert lone.told(Left) == [Left()]


def test_a_controller_that_goes_names_its_successor() -> None:
    lone = Lone().join()
    for name in ("b", "c"):
        lone.hear(name)
        lone.run(0.1)
    lone.node.leave(lone.now)
    for _ in range(4):
        for name in ("b", "c"):
            lone.hear(name)
        lone.run(0.5)
    assert lone.told(HandedOver) == [HandedOver()]
    lone.node.stopped(lone.now)
    lone.run(0.1)
    assert (lone.node.view.controller, set(lone.node.view.members)) == (1, {1, 2})
    assert lone.told(Left) == [Left()]


def test_the_last_node_leaves_at_once_and_its_slots_stay_its_own() -> None:
    lone = Lone().join()
    lone.node.leave(lone.now)
    assert lone.told(HandedOver) == [HandedOver()]
    lone.node.stopped(lone.now)
    lone.run(0.1)
    assert lone.told(Left) == [Left()]
    assert (lone.node.view.controller, set(lone.node.view.owners)) == (-1, {0})
    again = Lone()
    again.node.name_opened(again.now)
    again.read(WholeView(Sender("a", 5), 0, lone.node.view))
    again.node.log_read(again.now)
    again.run(1.0)
    assert set(again.node.view.epochs) == set(lone.node.view.epochs)  # no leader has changed


@pytest.mark.parametrize("joined", [True, False])
def test_a_node_that_is_in_no_view_has_nothing_to_hand_over(joined: bool) -> None:
    lone = Lone()
    if joined:
        lone.node.name_opened(lone.now)
        lone.node.log_read(lone.now)
    lone.node.leave(lone.now)
    assert lone.told(HandedOver) == [HandedOver()]
    lone.node.stopped(lone.now)
    lone.run(1.0)
    assert lone.told(Left) == [Left()]


def test_heartbeats_are_read_by_the_controller_alone() -> None:
    lone = member()
    lone.node.heartbeat_read(Heartbeat(OTHER, 1.0), lone.now)
    lone.node.probe_answered("b", ProbeResult.FREE, lone.now)  # not asked
    lone.run(0.1)
    assert lone.told(WholeView) == []
