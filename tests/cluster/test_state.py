"""One node's membership, step by step; what many do together is in `test_simulation`."""

from dataclasses import replace

import pytest

from bridge.cluster.effects import (
    HandedOver,
    Left,
    NameInUse,
    NodeRefused,
    Probe,
    ProbeResult,
    Replaced,
    SendHeartbeat,
    Serving,
    WatchHeartbeats,
)
from bridge.cluster.records import Challenge, Heartbeat, Tick, ViewDifference, WholeView
from bridge.cluster.state import MembershipState
from bridge.cluster.timing import MembershipConfig, Timing
from bridge.cluster.view import ClusterView, NodeRegistration, NodeState, Sender
from bridge.pulsar.types import EARLIEST
from tests.cluster.lone import Lone

OTHER = NodeRegistration("b", 1, 1, since=50)


def _member() -> Lone:
    """A node in a view whose controller is another."""
    lone = Lone()
    lone.node.name_opened(lone.now)
    lone.node.log_read(lone.now)
    mine = replace(lone.node.node, id=0, since=51)
    view = ClusterView(60, 1, {0: mine, 1: OTHER}, {"a": 0, "b": 1}, (0, 1) * 4, (60,) * 8, (0, 1))
    lone.read(WholeView(OTHER.sender, 0, view))
    return lone


def test_the_first_node_makes_the_first_view_and_leads_all() -> None:
    lone = Lone(config=MembershipConfig(slots=8, groups=2, first_version=777)).join()
    view = lone.node.view
    assert lone.node.state is MembershipState.CONTROLLER
    assert (view.version, view.controller, view.owners, view.epochs, view.groups) == (
        777,
        0,
        (0,) * 8,
        (777,) * 8,
        (0, 0),
    )
    assert lone.serving() is Serving.SERVE
    assert lone.told(WatchHeartbeats) == [WatchHeartbeats(True)]


def test_nothing_is_done_before_the_name_is_held_and_the_log_read() -> None:
    lone = Lone()
    lone.node.log_read(lone.now)
    lone.run(2.0)
    assert lone.node.state is MembershipState.STARTING
    assert lone.told(SendHeartbeat) == []


def test_a_name_that_stays_in_use_is_given_up_after_a_while() -> None:
    lone = Lone()
    for _ in range(14):
        lone.node.name_refused("10.0.0.7:4711", lone.now)
        lone.run(1.0)
    assert lone.told(NameInUse) == []
    lone.run(1.0)
    lone.node.name_refused("10.0.0.7:4711", lone.now)
    assert lone.told(NameInUse) == [NameInUse("10.0.0.7:4711")]
    assert lone.node.state is MembershipState.ENDED


def test_a_node_whose_clock_went_back_takes_a_later_incarnation() -> None:
    lone = Lone()
    lone.node.name_opened(lone.now)
    former = NodeRegistration("a", 9, 0, since=60)
    lone.read(WholeView(former.sender, 0, ClusterView(60, 0, {0: former}, {"a": 0}, (0,), (60,), (0,))))
    lone.node.log_read(lone.now)
    lone.run(1.0)
    assert lone.node.state is MembershipState.CONTROLLER  # holding the name, it knows that the former life is over
    assert lone.node.view.members[0].incarnation == 10
    assert lone.node.view.epochs == (60,)


def test_an_earlier_life_ends_when_it_reads_of_a_later_one() -> None:
    lone = Lone().join()
    view = lone.node.view
    later = replace(view.members[0], incarnation=6)
    lone.read(WholeView(later.sender, view.version, replace(view, version=view.version + 1, members={0: later})))
    assert lone.told(Replaced) == [Replaced(6)]
    assert lone.serving() is Serving.REFUSE
    lone.run(5.0)
    assert lone.told(SendHeartbeat) == []


# ---- heartbeats and contact ------------------------------------------------------------------------------------------


def test_one_heartbeat_is_under_way_and_a_late_receipt_makes_the_next_one_wait() -> None:
    lone = Lone().join()
    lone.run(1.0)
    lone.echoes = False
    lone.told(SendHeartbeat)
    lone.run(3.0)
    (sent,) = lone.told(SendHeartbeat)
    lone.node.heartbeat_stored(sent.heartbeat.at, lone.now)
    lone.run(0.9)
    assert lone.told(SendHeartbeat) == []
    lone.run(0.2)
    assert len(lone.told(SendHeartbeat)) == 1
    lone.node.heartbeat_failed(lone.now)
    lone.run(1.1)
    assert len(lone.told(SendHeartbeat)) == 1


def test_a_node_without_receipts_refuses_until_its_records_come_back() -> None:
    lone = Lone().join()
    lone.echoes = False
    lone.run(4.7)
    assert lone.serving() is Serving.REFUSE
    assert "cut off" in lone.node.contact.reason
    (challenge,) = lone.told(Challenge)
    lone.node.append_failed(challenge, lone.now)
    lone.node.connection_lost(lone.now)
    lone.node.name_opened(lone.now)
    lone.node.heartbeat_failed(lone.now)
    lone.echoes = True
    lone.run(2.0)
    assert lone.serving() is Serving.SERVE


def test_a_node_that_did_not_run_holds_until_it_has_read_back_a_challenge() -> None:
    lone = Lone().join()
    lone.echoes = False
    lone.now += 2.0
    lone.node.run(lone.now)
    assert lone.serving() is Serving.HOLD
    (challenge,) = lone.told(Challenge)
    lone.read(challenge)
    assert lone.serving() is Serving.SERVE


def test_requests_are_not_held_for_long() -> None:
    lone = Lone().join()
    lone.echoes = False
    lone.now += 2.0
    lone.run(3.1)
    assert lone.serving() is Serving.REFUSE


def test_above_500_nodes_everything_takes_longer() -> None:
    timing = Timing()
    assert timing.for_members(500) is timing
    assert timing.for_members(1000).heartbeat == 2.0
    assert timing.for_members(1000).dead == 6.0


# ---- the controller --------------------------------------------------------------------------------------------------


def test_all_news_goes_into_one_view() -> None:
    lone = Lone().join()
    for name in ("b", "c"):
        lone.hear(name)
    lone.run(0.1)
    (change,) = lone.told(ViewDifference)
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
    lone.echoes = False
    lone.hear("b")
    lone.run(2.5)
    (first,) = lone.told(ViewDifference)
    lone.node.append_failed(first, lone.now)
    lone.hear("b")
    lone.run(0.1)
    assert len(lone.told(ViewDifference)) <= 1


def test_another_ones_view_makes_the_own_proposal_void() -> None:
    lone = Lone().join()
    lone.echoes = False
    lone.hear("b")
    lone.run(0.1)
    (proposal,) = lone.told(ViewDifference)
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


def test_a_lost_log_begins_again_with_the_members_slots_and_epochs_that_there_were() -> None:
    lone = Lone().join()
    before = lone.node.view
    lone.node.log_restarted(5_000, lone.now)
    lone.run(1.0)
    after = lone.node.view
    assert after.version == 5_000
    assert (after.owners, after.epochs, after.ids) == (before.owners, before.epochs, before.ids)
    assert lone.node.state is MembershipState.CONTROLLER


# ---- succession ------------------------------------------------------------------------------------------------------


def test_a_silent_controller_is_asked_for_and_succeeded_when_its_connection_is_gone() -> None:
    lone = _member()
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
    lone = _member()
    for _ in range(20):
        lone.read(Tick(Sender("b", 0), 60, EARLIEST, EARLIEST))
        lone.read(Tick(Sender("c", 1), 60, EARLIEST, EARLIEST))
        lone.run(0.2)
    assert lone.told(Probe) == [Probe("b")]


def test_a_controller_whose_connection_is_there_is_given_time() -> None:
    lone = _member()
    lone.run(2.2)
    assert lone.told(Probe) == [Probe("b")]
    lone.node.probe_answered("b", ProbeResult.BUSY, lone.now)
    lone.run(2.0)
    assert lone.told(WholeView) == []


def test_a_second_successor_waits_longer() -> None:
    lone = _member()
    view = lone.node.view
    elder = NodeRegistration("c", 1, 2, since=40)
    later = replace(view, version=61, members={**view.members, 2: elder}, ids={**view.ids, "c": 2})
    lone.read(WholeView(OTHER.sender, 60, later))
    lone.run(2.0)
    assert lone.told(Probe) == []
    lone.run(0.4)
    assert lone.told(Probe) == [Probe("b")]


def test_a_node_that_is_out_of_the_view_refuses() -> None:
    lone = _member()
    view = lone.node.view
    lone.read(WholeView(OTHER.sender, 60, replace(view, version=61, members={1: OTHER})))
    assert lone.node.state is MembershipState.JOINING
    assert lone.serving() is Serving.REFUSE


# ---- leaving ---------------------------------------------------------------------------------------------------------


def test_a_node_that_leaves_waits_until_the_others_have_taken_over() -> None:
    lone = _member()
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


def test_it_does_not_wait_forever() -> None:
    lone = _member()
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
    lone = _member()
    lone.node.heartbeat_read(Heartbeat(OTHER, 1.0), lone.now)
    lone.node.probe_answered("b", ProbeResult.FREE, lone.now)  # not asked
    lone.run(0.1)
    assert lone.told(WholeView) == []
