"""The view log: which records count, and what they make of the view."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bridge.cluster.membership.record_format import decode, encode
from bridge.cluster.membership.records import Challenge, Tick, ViewDifference, WholeView
from bridge.cluster.membership.view import ClusterView, NodeRegistration, Sender, names_away
from bridge.cluster.membership.view_log import ViewLog, applied, view_record
from bridge.pulsar.types import EARLIEST, Position
from tests.cluster.strategies import views

A, B = Sender("a", 1), Sender("b", 1)
FIRST = ClusterView(100, 0, {0: NodeRegistration("a", 1, 0)}, {"a": 0}, (0, 0, 0, 0), (100,) * 4, (0, 0))


def _log(*records: WholeView | ViewDifference) -> ViewLog:
    log = ViewLog()
    for entry, record in enumerate(records):
        log.fold(record, Position(0, entry))
    return log


def _next(view: ClusterView, owner: int) -> ViewDifference:
    version = view.version + 1
    return ViewDifference(A, view.version, version, 0, 1, slots={owner: (1, 3)})


def test_of_two_first_views_the_first_in_the_log_counts() -> None:
    log = _log(WholeView(A, 0, FIRST), WholeView(B, 0, replace(FIRST, version=150)))
    assert log.view == FIRST


def test_a_first_view_far_ahead_is_that_of_a_log_that_was_lost() -> None:
    later = replace(FIRST, version=FIRST.version + 3600, controller=1)
    log = _log(WholeView(A, 0, FIRST), _next(FIRST, 7), WholeView(B, 0, later), _next(FIRST, 8))
    assert log.view == later
    assert log.version == later.version


def test_a_node_that_finds_no_beginning_starts_again_at_the_whole_view_that_a_tick_names() -> None:
    log = ViewLog()
    lost = replace(FIRST, version=500)
    assert not log.fold(WholeView(A, 499, lost), Position(7, 3))
    assert not log.fold(_next(lost, 7), Position(7, 4))
    tick = Tick(A, 501, Position(7, 3), Position(7, 4))
    assert not log.fold(tick, Position(7, 5))
    assert log.start_at(tick) == Position(7, 3)
    assert log.fold(WholeView(A, 499, lost), Position(7, 3))
    assert log.fold(_next(lost, 7), Position(7, 4))
    assert log.version == 501


def test_a_view_counts_if_it_was_made_from_the_one_before() -> None:
    log = _log(WholeView(A, 0, FIRST), _next(FIRST, 7), _next(FIRST, 8))
    assert log.version == 101
    assert log.view.owners == (0, 7, 0, 7)
    assert log.view.epochs == (100, 101, 100, 101)


def test_a_version_is_the_one_after_its_base() -> None:
    assert _log(WholeView(A, 0, FIRST), replace(_next(FIRST, 7), version=102)).view == FIRST
    assert _log(WholeView(A, 0, FIRST), WholeView(A, 100, replace(FIRST, version=102))).view == FIRST
    assert _log(ViewDifference(A, 0, 1, 0, 1)).version == 0  # a log begins with a whole view


def test_nothing_else_changes_the_view() -> None:
    log = _log(WholeView(A, 0, FIRST))
    assert not log.fold(Challenge(A, 1.0), Position(0, 1))
    assert not log.fold(Tick(A, 500, EARLIEST, EARLIEST), Position(0, 2))
    assert (log.view, log.folded_to, log.whole_at) == (FIRST, Position(0, 2), Position(0, 0))


def test_a_record_that_is_read_again_changes_nothing() -> None:
    log = ViewLog()
    assert log.fold(WholeView(A, 0, FIRST), Position(0, 5))
    assert not log.fold(WholeView(A, 0, FIRST), Position(0, 5))
    assert not log.fold(_next(FIRST, 7), Position(0, 4))


def test_a_difference_that_does_not_fit_counts_for_no_node() -> None:
    for change in (
        replace(_next(FIRST, 7), slots={7: (4,)}),
        replace(_next(FIRST, 7), groups={7: (2,)}),
    ):
        assert _log(WholeView(A, 0, FIRST), change).view == FIRST


def test_a_node_that_starts_reads_from_the_last_whole_view_on() -> None:
    whole = WholeView(A, 150, replace(FIRST, version=151))
    tick = Tick(A, 152, Position(0, 8), Position(0, 11))
    log = ViewLog()
    assert log.start_at(tick) == Position(0, 8)
    assert log.fold(whole, Position(0, 8))  # the controller has said that it counted
    assert log.fold(_next(whole.view, 7), Position(0, 9))
    assert not log.fold(WholeView(B, 150, replace(FIRST, version=151, controller=1)), Position(0, 10))
    assert log.version == 152


@given(views(), views(), st.text(max_size=5))
def test_a_difference_leads_from_any_view_to_any_later_one(
    before: ClusterView, after: ClusterView, reason: str
) -> None:
    after = replace(
        after,
        version=before.version + 1,
        owners=(after.owners + (7,) * len(before.owners))[: len(before.owners)],
        groups=(after.groups + (7,) * len(before.groups))[: len(before.groups)],
        ids={**before.ids, **after.ids},
    )
    if -1 in after.owners or -1 in after.groups or after.version > 2**31 - 1:
        return  # no record takes a slot from a node and gives it to none
    away = names_away(before, after.members, after.ids, after.version)
    after = replace(after, away=away, drained=before.drained, removed=before.removed)
    epochs = zip(before.owners, after.owners, before.epochs, strict=True)
    after = replace(after, epochs=tuple(after.version if old != new else epoch for old, new, epoch in epochs))
    record = view_record(A, before, after, reason)
    assert isinstance(record, ViewDifference)
    assert decode(encode(record)) == record
    assert applied(before, record) == after


def test_what_no_difference_can_say_is_written_as_a_whole() -> None:
    after = replace(FIRST, version=101)
    assert isinstance(view_record(A, FIRST, after, ""), ViewDifference)
    for changed in (
        replace(after, ids={}),
        replace(after, owners=(0,), epochs=(0,)),
        replace(after, groups=()),
        replace(after, drained=frozenset({"a"})),
        replace(after, removed={"a": 1}),
    ):
        assert view_record(A, FIRST, changed, "x") == WholeView(A, 100, changed, "x")
    assert isinstance(view_record(A, ClusterView(), FIRST, ""), WholeView)
