"""Who succeeds a controller, and when."""

from dataclasses import replace

from bridge.cluster.membership.effects import (
    MembershipState,
    Probe,
    ProbeResult,
    Serving,
)
from bridge.cluster.membership.records import Tick, WholeView
from bridge.cluster.membership.timing import MembershipConfig
from bridge.cluster.membership.view import ClusterView, NodeRegistration, Sender
from bridge.pulsar.types import EARLIEST
from tests.cluster.lone import OTHER, Lone, member


def test_a_silent_controller_is_asked_for_and_succeeded_when_its_connection_is_gone() -> None:
    lone = member()
    for _ in range(20):
        lone.read(Tick(OTHER.sender, 60, EARLIEST, EARLIEST))
        lone.run(0.2)
    assert lone.told(Probe) == []
    lone.run(1.4)
    assert lone.told(Probe) == [Probe("b")]
    lone.node.probe_answered("b", ProbeResult.FREE, lone.now)
    lone.run(0.1)
    (view,) = lone.told(WholeView)
    assert (view.reason, view.view.controller, set(view.view.owners)) == ("dead: b, connection gone", 0, {0})
    assert lone.node.state is MembershipState.CONTROLLER


def test_a_node_without_a_controller_is_woken_to_propose_itself() -> None:
    lone = Lone(config=MembershipConfig(slots=8, groups=2, chance=0.5))
    began(lone)
    timing = lone.node.config.timing
    assert lone.node.wake_at == lone.now + timing.first_wait + timing.first_wait_spread / 2
    lone.now = lone.node.wake_at
    lone.node.run(lone.now)
    assert [view.reason for view in lone.told(WholeView)] == ["no controller"]


def test_the_last_node_that_left_comes_back_at_once() -> None:
    gone = Lone().join()
    gone.node.stopped(gone.now)
    gone.run(1.0)
    view = gone.node.view
    assert not view.members
    back, other = Lone(), Lone("b")
    for lone in (back, other):
        began(lone, view)
    assert back.node.wake_at <= back.now + back.node.config.timing.least_wait
    assert other.node.wake_at >= other.now + other.node.config.timing.first_wait


def test_a_node_that_was_removed_is_not_woken_to_propose_itself() -> None:
    removed = member()
    empty = replace(removed.node.view, version=61, members={}, removed={"a": 5})
    removed.read(WholeView(OTHER.sender, 60, empty))
    assert removed.wakes() < 50
    assert removed.told(WholeView) == []


def began(lone: Lone, view: ClusterView | None = None) -> None:
    """The node has its name, and has read a log that ends with this view."""
    lone.node.name_opened(lone.now)
    if view is not None:
        lone.read(WholeView(OTHER.sender, 0, view))
    lone.node.log_read(lone.now)
    lone.node.run(lone.now)
    lone.take()


def test_ticks_of_others_than_the_controller_do_not_count() -> None:
    lone = member()
    for _ in range(20):
        lone.read(Tick(Sender("b", 0), 60, EARLIEST, EARLIEST))
        lone.read(Tick(Sender("c", 1), 60, EARLIEST, EARLIEST))
        lone.run(0.2)
    assert lone.told(Probe) == [Probe("b")]


def test_a_controller_whose_connection_is_there_is_given_time() -> None:
    lone = member()
    lone.run(2.2)
    assert lone.told(Probe) == [Probe("b")]
    lone.node.probe_answered("b", ProbeResult.BUSY, lone.now)
    lone.run(2.0)
    assert lone.told(WholeView) == []


def test_a_second_successor_waits_longer() -> None:
    lone = member()
    view = lone.node.view
    elder = NodeRegistration("c", 1, 2, since=40)
    later = replace(view, version=61, members={**view.members, 2: elder}, ids={**view.ids, "c": 2})
    lone.read(WholeView(OTHER.sender, 60, later))
    lone.run(1.7)
    assert lone.told(Probe) == []
    lone.run(0.4)
    assert lone.told(Probe) == [Probe("b")]


def test_a_node_is_woken_to_suspect_the_controller() -> None:
    lone = member()
    for _ in range(10):
        lone.run(0.5)
        lone.read(Tick(OTHER.sender, 60, EARLIEST, EARLIEST))
    due = lone.now + lone.node.config.timing.suspect
    assert woken_until(lone, Probe) == due


def test_a_node_is_woken_to_suspect_another() -> None:
    lone = Lone().join()
    for _ in range(10):
        lone.run(0.5)
        lone.hear("b")
    due = lone.now + lone.node.config.timing.suspect
    assert woken_until(lone, Probe) == due
    assert lone.wakes() < 50


def woken_until(lone: Lone, kind: type[object]) -> float:
    """When the node tells this, if it runs only when it wants to."""
    lone.told(kind)
    for _ in range(50):
        lone.now = max(lone.now, lone.node.wake_at)
        lone.node.run(lone.now)
        if lone.told(kind):
            break
    return lone.now


def test_a_node_that_is_out_of_the_view_refuses() -> None:
    lone = member()
    view = lone.node.view
    lone.read(WholeView(OTHER.sender, 60, replace(view, version=61, members={1: OTHER})))
    assert lone.node.state is MembershipState.JOINING
    assert lone.serving() is Serving.REFUSE
