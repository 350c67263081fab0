"""The controller, step by step."""

from dataclasses import replace

from bridge.cluster.effects import (
    NodeRefused,
    WatchHeartbeats,
)
from bridge.cluster.records import Tick, WholeView
from bridge.cluster.state import MembershipState
from tests.cluster.lone import OTHER, Lone


def test_all_news_goes_into_one_view() -> None:
    lone = Lone().join()
    lone.told(WholeView)
    for name in ("b", "c"):
        lone.hear(name)
    lone.run(0.1)
    (change,) = lone.told(WholeView)
    assert change.reason.startswith("joined: b; joined: c")
    assert lone.node.view.ids == {"a": 0, "b": 1, "c": 2}


def test_what_a_member_tells_again_of_itself_goes_into_the_view() -> None:
    lone = Lone().join()
    lone.hear("b")
    lone.run(0.1)
    since = lone.node.view.members[1].since
    lone.hear("b", weight=3)
    lone.run(0.1)
    assert (lone.node.view.members[1].weight, lone.node.view.members[1].since) == (3, since)


def test_heartbeats_of_an_earlier_life_say_nothing() -> None:
    lone = Lone().join()
    lone.hear("b", 2)
    lone.run(0.1)
    lone.hear("b", 1, weight=9)
    lone.run(0.1)
    assert lone.node.view.members[1].weight == 1


def test_an_id_that_another_member_has_is_not_given_and_that_is_told_once() -> None:
    lone = Lone().join()
    lone.hear("b", id=0)
    lone.run(1.0)
    assert lone.told(NodeRefused) == [NodeRefused("b", "id 0 is another node's")]
    assert lone.node.view.members.keys() == {0}
    lone.hear("b", 2, id=4)
    lone.run(0.1)
    assert lone.node.view.ids == {"a": 0, "b": 4}


def test_a_node_that_asks_for_another_id_gets_it() -> None:
    lone = Lone().join()
    lone.hear("b")
    lone.run(0.1)
    lone.hear("b", 2, id=7)
    lone.run(0.1)
    assert lone.node.view.members.keys() == {0, 7}
    assert lone.node.view.ids == {"a": 0, "b": 7}


def test_one_proposal_is_under_way_at_a_time_and_a_lost_one_is_made_again() -> None:
    lone = Lone().join()
    lone.told(WholeView)
    lone.echoes = False
    lone.hear("b")
    lone.run(2.5)
    (first,) = lone.told(WholeView)
    lone.node.append_failed(first, lone.now)
    lone.hear("b")
    lone.run(0.1)
    assert len(lone.told(WholeView)) <= 1


def test_another_ones_view_makes_the_own_proposal_void() -> None:
    lone = Lone().join()
    lone.told(WholeView)
    lone.echoes = False
    lone.hear("b")
    lone.run(0.1)
    (proposal,) = lone.told(WholeView)
    view = lone.node.view
    other = replace(view, version=view.version + 1, controller=1, members={**view.members, 1: OTHER})
    lone.read(WholeView(OTHER.sender, view.version, other))
    lone.read(proposal)
    assert (lone.node.view.controller, lone.node.void_records) == (1, 1)
    assert lone.node.state is MembershipState.MEMBER
    assert lone.told(WatchHeartbeats) == [WatchHeartbeats(False)]


def test_the_view_is_written_as_a_whole_now_and_then() -> None:
    lone = Lone().join()
    lone.told(WholeView)
    lone.run(299.0)
    assert lone.told(WholeView) == []
    lone.run(2.0)
    assert len(lone.told(WholeView)) == 1


def test_a_tick_says_where_to_start_reading() -> None:
    lone = Lone().join()
    lone.told(Tick)
    lone.run(1.1)
    (tick,) = lone.told(Tick)
    assert (tick.version, tick.whole_at.entry) == (lone.node.view.version, 0)
    lone.echoes = False
    lone.run(1.1)
    (tick,) = lone.told(Tick)
    lone.run(1.1)
    assert lone.told(Tick) == []  # one at a time
    lone.node.append_failed(tick, lone.now)
    lone.run(0.1)
    assert len(lone.told(Tick)) == 1
