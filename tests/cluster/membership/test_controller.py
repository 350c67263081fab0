"""The controller, step by step."""

from dataclasses import replace

from bridge.cluster.membership.effects import (
    MembershipState,
    NodeRefused,
    WatchHeartbeats,
)
from bridge.cluster.membership.records import Tick, WholeView
from bridge.cluster.membership.view import Sender
from bridge.pulsar.types import EARLIEST
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


def test_two_controllers_after_a_lost_log_agree_on_a_new_beginning() -> None:
    lone, rival = Lone().join(), Lone("b")
    known = lone.node.view
    rival.node.name_opened(rival.now)
    rival.node.log_read(rival.now)
    rival.run(1.0)  # it has found an empty log, and begun it
    begun = rival.told(WholeView)[0]
    lone.read(begun)
    assert lone.node.view == known, "two beginnings are too close to tell a lost log from a race"
    lone.hear("b", rival.node.node.incarnation)
    for _ in range(10):
        rival.run(0.5)
        for tick in rival.told(Tick):
            lone.read(tick)
        lone.run(0.5)
    (healed,) = [view for view in lone.told(WholeView) if not view.base and view.version > known.version]
    assert "the log began again, with b" in healed.reason
    rival.read(healed)
    assert rival.node.view == healed.view
    assert rival.node.state is MembershipState.MEMBER
    assert lone.node.state is MembershipState.CONTROLLER
    assert min(healed.view.epochs) > max(*known.epochs, *begun.view.epochs)


def test_one_late_tick_of_a_former_controller_begins_nothing() -> None:
    lone = Lone().join()
    lone.told(WholeView)
    lone.read(Tick(Sender("b", 1), 1, EARLIEST, EARLIEST))
    lone.run(10.0)
    lone.read(Tick(Sender("c", 1), 1, EARLIEST, EARLIEST))
    lone.run(10.0)
    assert lone.told(WholeView) == []
