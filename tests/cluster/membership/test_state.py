"""One node's membership, step by step; what many do together is in `test_simulation`."""

from dataclasses import replace

from bridge.cluster.membership.effects import (
    Append,
    MembershipState,
    NameInUse,
    ReadLogFrom,
    Replaced,
    SendHeartbeat,
    Serving,
    WatchHeartbeats,
)
from bridge.cluster.membership.records import Tick, ViewDifference, WholeView
from bridge.cluster.membership.state import Membership
from bridge.cluster.membership.timing import MembershipConfig
from bridge.cluster.membership.view import ClusterView, NodeRegistration, Sender
from bridge.pulsar.types import Position
from tests.cluster.lone import Lone


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


def test_a_node_without_the_logs_beginning_waits_for_the_whole_view_that_the_controller_names() -> None:
    node = Membership(NodeRegistration("b", 1), MembershipConfig(slots=8, groups=2), 0.0)
    node.name_opened(0.1)
    node.log_read(0.1)
    other = Sender("a", 1)
    for second in range(1, 6):
        node.record_read(Tick(other, 500, Position(7, 3), Position(7, 9)), Position(7, 9 + second), float(second))
        node.run(second + 0.1)
    effects = node.take_effects()
    assert [one for one in effects if isinstance(one, ReadLogFrom)] == [
        ReadLogFrom(Tick(other, 500, Position(7, 3), Position(7, 9)))
    ]
    assert not [one for one in effects if isinstance(one, Append) and isinstance(one.record, WholeView)]


def test_a_node_that_missed_records_which_pulsar_deleted_reads_from_the_whole_view() -> None:
    """It was stopped for longer than the retention: the record that has its end is gone."""
    lone = Lone().join()
    before, other = lone.node.view, Sender("b", 1)
    tick = Tick(other, before.version + 2, Position(9, 3), Position(9, 4))
    for entry in range(5, 8):
        lone.node.record_read(tick, Position(9, entry), lone.now)
    assert lone.told(ReadLogFrom) == [ReadLogFrom(tick)]  # once
    assert lone.serving() is Serving.REFUSE
    void = ViewDifference(other, before.version, before.version + 1, 3, before.level)
    lone.node.record_read(void, Position(9, 8), lone.now)
    assert lone.node.view == before
    after = replace(before, version=before.version + 1)
    lone.node.record_read(WholeView(other, before.version + 7, after), lone.node.log.start_at(tick), lone.now)
    assert lone.node.view == after
    assert lone.serving() is Serving.SERVE
    lone.node.record_read(replace(tick, version=after.version), Position(9, 5), lone.now)
    assert lone.told(ReadLogFrom) == []
    one, other_one = replace(tick, version=after.version + 2), replace(tick, version=after.version + 3)
    for _ in range(3):  # some more are missing, and two say that they lead
        lone.node.log.start_at(tick)
        lone.node.record_read(one, Position(9, 16), lone.now)
        lone.node.record_read(other_one, Position(9, 17), lone.now)
    assert lone.told(ReadLogFrom) == [ReadLogFrom(one), ReadLogFrom(other_one)]


def test_nothing_is_waited_for_by_turning() -> None:
    """A node that starts, is disconnected or reads nothing of its own wakes now and then, not all the time."""
    lone = Lone()
    lone.node.name_opened(lone.now)  # and the view log is not read yet
    assert lone.wakes() < 50
    lone = Lone().join()
    lone.hear("b")
    lone.node.connection_lost(lone.now)
    assert lone.wakes() < 150
    lone = Lone().join()
    lone.echoes = False
    lone.hear("b")
    assert lone.wakes() < 150


def test_a_tick_that_was_read_before_the_start_was_over_keeps_a_node_from_proposing_itself() -> None:
    lone = Lone()
    lone.node.name_opened(lone.now)
    lone.read(Tick(Sender("b", 1), 70, Position(0, 5), Position(0, 9)))  # of a log without its beginning
    lone.node.log_read(lone.now)
    lone.run(2.0)
    assert lone.told(WholeView) == []
    lone.run(2.5)
    assert len(lone.told(WholeView)) == 1  # the controller has gone, too


def test_a_view_that_is_made_from_one_that_this_node_cannot_know_shows_that_there_is_a_controller() -> None:
    lone = Lone()
    lone.node.name_opened(lone.now)
    lone.node.log_read(lone.now)
    lone.read(WholeView(Sender("b", 1), 70, ClusterView(71)))
    lone.run(2.0)
    assert lone.told(WholeView) == []
