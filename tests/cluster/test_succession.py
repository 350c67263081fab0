"""Who succeeds a controller, and when."""

from dataclasses import replace

from bridge.cluster.effects import (
    Probe,
    ProbeResult,
    Serving,
)
from bridge.cluster.records import Tick, WholeView
from bridge.cluster.state import MembershipState
from bridge.cluster.view import NodeRegistration, Sender
from bridge.pulsar.types import EARLIEST
from tests.cluster.lone import OTHER, member


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
    lone.run(2.0)
    assert lone.told(Probe) == []
    lone.run(0.4)
    assert lone.told(Probe) == [Probe("b")]


def test_a_node_that_is_out_of_the_view_refuses() -> None:
    lone = member()
    view = lone.node.view
    lone.read(WholeView(OTHER.sender, 60, replace(view, version=61, members={1: OTHER})))
    assert lone.node.state is MembershipState.JOINING
    assert lone.serving() is Serving.REFUSE
