"""The records of one share partition: the cases of Kafka's SharePartitionTest, as they hold here."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest

from bridge.errors import KafkaError
from bridge.groups.share.state_records import ACKNOWLEDGED, ARCHIVED, AVAILABLE, StateBatch
from bridge.kafka.error_codes import ErrorCode
from bridge.shares.state import (
    ACCEPT,
    ACQUIRED,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    Acquired,
    Limits,
    SharePartition,
    Snapshot,
    Span,
)

_LIMITS = Limits(5, 100, 30.0)
_Shown = list[tuple[int, int, int, int]]


def _shown(partition: SharePartition) -> _Shown:
    return [(one.first, one.last, one.state, one.count) for one in partition.ranges]


def _said(*said: tuple[int, int, int]) -> list[Acknowledgement]:
    return [Acknowledgement(*one) for one in said]


def _store(partition: SharePartition) -> Snapshot:
    snapshot = partition.begin_write()
    partition.written()
    return snapshot


def _acquire(
    partition: SharePartition, *read: Span, member: str = "a", most: int = 500, limits: Limits = _LIMITS,
    now: float = 0, is_strict: bool = False,
) -> list[Acquired]:  # fmt: skip
    position = partition.position(limits)
    assert position is not None
    return partition.acquire(member, position, read, most, limits, now, is_strict=is_strict)


@pytest.mark.parametrize(
    ("said", "start", "left"),
    [
        ([(0, 9, ACCEPT)], 10, []),
        ([(0, 9, GAP)], 10, []),
        ([(0, 9, REJECT)], 10, []),
        ([(0, 9, RELEASE)], 0, [(0, 9, AVAILABLE, 1)]),
        ([(0, 4, ACCEPT)], 5, [(5, 9, ACQUIRED, 1)]),
        ([(5, 9, ACCEPT)], 0, [(0, 4, ACQUIRED, 1), (5, 9, ACKNOWLEDGED, 1)]),
        ([(3, 3, REJECT)], 0, [(0, 2, ACQUIRED, 1), (3, 3, ARCHIVED, 1), (4, 9, ACQUIRED, 1)]),
        ([(0, 1, ACCEPT), (2, 3, RELEASE), (4, 9, ACCEPT)], 2, [(2, 3, AVAILABLE, 1), (4, 9, ACKNOWLEDGED, 1)]),
        ([(0, 0, ACCEPT), (1, 1, GAP), (2, 9, REJECT)], 10, []),
        ([], 0, [(0, 9, ACQUIRED, 1)]),
    ],
)
def test_what_acknowledgements_make(said: list[tuple[int, int, int]], start: int, left: _Shown) -> None:
    partition = SharePartition(0)
    assert _acquire(partition, (0, 9)) == [(0, 9, 1)]
    assert partition.acknowledge("a", _said(*said), _LIMITS, 1.0) == bool(said)
    assert partition.start == 0  # nothing counts before it is stored
    snapshot = _store(partition)
    assert (partition.start, _shown(partition)) == (start, left)
    assert snapshot.start == start
    assert SharePartition(snapshot.start, snapshot.batches).start == start


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ("b", [(0, 9, ACCEPT)]),
        ("a", [(0, 10, ACCEPT)]),
        ("a", [(10, 12, ACCEPT)]),
        ("a", [(20, 22, ACCEPT)]),
        ("a", [(0, 3, ACCEPT), (4, 20, ACCEPT)]),
        ("b", [(0, 9, RENEW)]),
        ("a", [(0, 10, RENEW)]),
        ("a", [(0, 3, RENEW), (4, 20, ACCEPT)]),
        ("a", [(0, 3, ACCEPT), (4, 20, RENEW)]),
    ],
)
def test_nothing_changes_where_a_member_has_not_all_that_it_acknowledges(
    member: str, said: list[tuple[int, int, int]]
) -> None:
    partition = SharePartition(0)
    _acquire(partition, (0, 9), most=10)
    with pytest.raises(KafkaError) as raised:
        partition.acknowledge(member, _said(*said), _LIMITS, 1.0)
    assert raised.value.code == ErrorCode.INVALID_RECORD_STATE
    assert not partition.has_news
    assert _shown(partition) == [(0, 9, ACQUIRED, 1)]
    assert partition.deadline == 30.0


@pytest.mark.parametrize("store", [True, False])
def test_nothing_is_acknowledged_twice(store: bool) -> None:
    partition = SharePartition(0)
    _acquire(partition, (0, 9))
    partition.acknowledge("a", _said((3, 5, ACCEPT)), _LIMITS, 1.0)
    if store:
        _store(partition)
    with pytest.raises(KafkaError):
        partition.acknowledge("a", _said((5, 5, ACCEPT)), _LIMITS, 1.0)


def test_below_the_start_is_ignored() -> None:
    partition = SharePartition(10)
    _acquire(partition, (10, 19))
    assert partition.acknowledge("b", _said((0, 9, ACCEPT)), _LIMITS, 1.0) is False
    assert partition.acknowledge("a", _said((5, 11, ACCEPT)), _LIMITS, 1.0) is True
    _store(partition)
    assert partition.start == 12


def test_two_members_have_different_records_and_what_is_released_comes_first() -> None:
    partition = SharePartition(0)
    assert _acquire(partition, (0, 4), (5, 9), most=5) == [(0, 4, 1)]
    assert _acquire(partition, (5, 9), (10, 14), member="b", most=5) == [(5, 9, 1)]
    partition.acknowledge("a", _said((1, 2, RELEASE)), _LIMITS, 1.0)
    assert partition.position(_LIMITS) == 10  # it is not given again before it is stored
    _store(partition)
    assert partition.position(_LIMITS) == 1
    assert _acquire(partition, (0, 4), (5, 9), (10, 14), member="c") == [(1, 2, 2), (10, 14, 1)]
    with pytest.raises(KafkaError):
        partition.acknowledge("a", _said((0, 4, ACCEPT)), _LIMITS, 1.0)


def test_batches_are_given_whole_and_the_limit_of_locks_is_kept() -> None:
    partition, limits = SharePartition(0), Limits(5, 25, 30.0)
    assert _acquire(partition, (0, 9), (10, 19), (20, 29), most=11, limits=limits) == [(0, 9, 1), (10, 19, 1)]
    assert _acquire(partition, (20, 29), (30, 39), member="b", limits=limits) == [(20, 24, 1)]
    assert partition.position(limits) is None
    partition.acknowledge("a", _said((3, 3, RELEASE), (4, 9, ACCEPT)), limits, 1.0)
    _store(partition)
    assert _acquire(partition, (0, 9), (10, 19), (20, 29), member="b", limits=limits) == [(3, 3, 2)]
    partition.acknowledge("a", _said((0, 2, ACCEPT)), limits, 1.0)
    _store(partition)
    assert partition.start == 3
    assert _acquire(partition, (20, 29), limits=limits) == [(25, 27, 1)]
    assert partition.acquired == 19


@pytest.mark.parametrize(
    ("read", "taken", "start"),
    [
        ([(5, 9)], [(5, 9, 1)], 5),  # nothing before it, as where transactions were aborted
        ([(0, 4), (8, 9)], [(0, 4, 1), (8, 9, 1)], 0),
        ([(0, 1), (3, 3)], [(0, 1, 1), (3, 3, 1)], 0),
    ],
)
def test_offsets_without_records_are_archived(read: Sequence[Span], taken: list[Acquired], start: int) -> None:
    partition = SharePartition(0)
    assert _acquire(partition, *read) == taken
    assert partition.start == start
    partition.acknowledge("a", _said(*((first, last, ACCEPT) for first, last, _ in taken)), _LIMITS, 1.0)
    _store(partition)
    assert partition.start == partition.end == read[-1][1] + 1


def test_a_hole_wider_than_the_locks_is_passed() -> None:
    partition, limits = SharePartition(0), Limits(5, 10, 30.0)
    assert _acquire(partition, (1000, 1004), limits=limits) == []
    assert partition.start == 1000
    assert _acquire(partition, (1000, 1004), limits=limits) == [(1000, 1004, 1)]


def test_a_lock_runs_out() -> None:
    partition = SharePartition(0)
    _acquire(partition, (0, 9))
    _acquire(partition, (10, 19), member="b", now=10.0)
    assert partition.deadline == 30.0
    assert not partition.expire(_LIMITS, 29.9)
    assert partition.expire(_LIMITS, 30.0)
    assert partition.deadline == 40.0
    assert partition.has_news
    assert _shown(partition) == [(0, 9, AVAILABLE, 1), (10, 19, ACQUIRED, 1)]
    with pytest.raises(KafkaError):
        partition.acknowledge("b", _said((10, 19, ACCEPT)), _LIMITS, 40.0)


def test_an_acknowledgement_holds_though_the_lock_runs_out_while_it_is_stored() -> None:
    partition = SharePartition(0)
    _acquire(partition, (0, 9))
    partition.acknowledge("a", _said((0, 4, ACCEPT)), _LIMITS, 29.0)
    partition.begin_write()
    assert partition.expire(_LIMITS, 31.0)
    partition.written()
    assert (partition.start, _shown(partition)) == (5, [(5, 9, AVAILABLE, 1)])


@pytest.mark.parametrize(("now", "state"), [(29.0, ACQUIRED), (31.0, AVAILABLE)])
def test_what_is_not_stored_is_undone(now: float, state: int) -> None:
    partition = SharePartition(0)
    _acquire(partition, (0, 9))
    partition.acknowledge("a", _said((0, 9, ACCEPT)), _LIMITS, 28.0)
    assert partition.begin_write() == (10, (), 0)
    partition.failed(_LIMITS, now)
    assert (partition.start, _shown(partition)) == (0, [(0, 9, state, 1)])
    assert partition.begin_write().start == 0  # what may have been stored is undone, too


def test_what_comes_while_it_is_stored_goes_with_the_next() -> None:
    partition = SharePartition(0)
    _acquire(partition, (0, 9))
    partition.acknowledge("a", _said((0, 4, ACCEPT)), _LIMITS, 1.0)
    partition.begin_write()
    partition.acknowledge("a", _said((5, 9, ACCEPT)), _LIMITS, 1.0)
    partition.written()
    assert partition.start == 5
    assert partition.has_news
    _store(partition)
    assert partition.start == 10
    assert not partition.has_news


@pytest.mark.parametrize(
    ("counts", "left"), [(True, [(0, 2, ARCHIVED, 2), (3, 9, AVAILABLE, 1)]), (False, [(0, 9, AVAILABLE, 1)])]
)
def test_what_a_member_has_is_released(counts: bool, left: _Shown) -> None:
    partition = SharePartition(0, [StateBatch(0, 2, AVAILABLE, 1), StateBatch(12, 12, ACKNOWLEDGED, 1)])
    limits = Limits(2, 100, 30.0)
    _acquire(partition, (0, 9), limits=limits) if counts else _acquire(partition, (0, 2), limits=limits)
    if not counts:
        partition.release("a", limits, counts=False)
        assert _shown(partition)[0] == (0, 2, AVAILABLE, 1)
        return
    assert partition.release("b", limits, counts=True) is False
    assert partition.release("a", limits, counts=True) is True
    assert partition.start == 3  # those were delivered too often
    assert _shown(partition)[0] == left[1]


def test_a_record_is_archived_when_it_was_delivered_too_often_and_alone_before() -> None:
    partition, others, deliveries = SharePartition(0), set[int](), list[list[Acquired]]()
    while partition.start < 10:
        taken = _acquire(partition, (0, 9))
        deliveries.append(taken)
        bad = [one for one in taken if one.first <= 6 <= one.last]
        if bad:  # it takes its consumer along
            partition.release("a", _LIMITS, counts=True)
        else:
            partition.acknowledge("a", _said(*((first, last, ACCEPT) for first, last, _ in taken)), _LIMITS, 1.0)
            others.update(offset for first, last, _ in taken for offset in range(first, last + 1))
        _store(partition)
    assert others == set(range(10)) - {6}
    with_it = [taken for taken in deliveries if any(one.first <= 6 <= one.last for one in taken)]
    assert len(with_it) == 5
    assert with_it[-1] == [(6, 6, 5)]


@pytest.mark.parametrize(
    ("said", "left", "next_deadline"),
    [
        ([(0, 9, RENEW)], [(0, 9, ACQUIRED, 1)], 50.0),
        ([(0, 4, RENEW), (5, 9, RENEW)], [(0, 9, ACQUIRED, 1)], 50.0),
        ([(0, 4, RENEW)], [(0, 4, ACQUIRED, 1), (5, 9, AVAILABLE, 1)], 50.0),
        ([(3, 3, RENEW)], [(0, 2, AVAILABLE, 1), (3, 3, ACQUIRED, 1), (4, 9, AVAILABLE, 1)], 50.0),
        ([(0, 2, ACCEPT), (3, 9, RENEW)], [(3, 9, ACQUIRED, 1)], 50.0),
        ([(0, 2, RENEW), (3, 9, ACCEPT)], [(0, 2, ACQUIRED, 1), (3, 9, ACKNOWLEDGED, 1)], 50.0),
        ([(0, 2, RELEASE), (3, 5, RENEW), (6, 9, REJECT)],
         [(0, 2, AVAILABLE, 1), (3, 5, ACQUIRED, 1), (6, 9, ARCHIVED, 1)], 50.0),
        ([], [(0, 9, AVAILABLE, 1)], inf),
    ],
)  # fmt: skip
def test_what_is_renewed_is_its_member_s_for_longer(
    said: list[tuple[int, int, int]], left: _Shown, next_deadline: float
) -> None:
    partition = SharePartition(0)
    _acquire(partition, (0, 9))
    partition.acknowledge("a", _said(*said), _LIMITS, 20.0)
    _store(partition)
    partition.expire(_LIMITS, 30.0)
    assert (_shown(partition), partition.deadline) == (left, next_deadline)
    partition.expire(_LIMITS, 50.0)
    assert partition.acquired == 0


def test_a_renewal_is_not_stored_and_may_be_repeated() -> None:
    partition = SharePartition(0)
    _acquire(partition, (0, 9))
    for now in (20.0, 40.0, 60.0):
        assert partition.acknowledge("a", _said((0, 9, RENEW)), _LIMITS, now) is False
        assert not partition.has_news
    partition.acknowledge("a", _said((0, 9, ACCEPT)), _LIMITS, 80.0)
    _store(partition)
    assert partition.start == 10


@pytest.mark.parametrize(
    ("member", "said", "now"),
    [
        ("a", (0, 9, RENEW), 30.0),  # its lock has run out
        ("b", (0, 9, RENEW), 1.0),
        ("a", (8, 10, RENEW), 1.0),
        ("a", (4, 5, RENEW), 1.0),  # it is being stored what has become of these
        ("a", (1, 3, RENEW), 1.0),  # given back
    ],
)
def test_only_what_a_member_has_is_renewed(member: str, said: tuple[int, int, int], now: float) -> None:
    partition = SharePartition(0)
    _acquire(partition, (0, 9))
    partition.acknowledge("a", _said((2, 3, RELEASE)), _LIMITS, 0.0)
    _store(partition)
    partition.acknowledge("a", _said((5, 5, ACCEPT)), _LIMITS, 0.0)
    with pytest.raises(KafkaError) as raised:
        partition.acknowledge(member, _said(said), _LIMITS, now)
    assert raised.value.code == ErrorCode.INVALID_RECORD_STATE
    assert partition.deadline in (30.0, inf)


def test_below_the_start_nothing_is_renewed() -> None:
    partition = SharePartition(0)
    _acquire(partition, (0, 9))
    partition.move_start(5)
    partition.acknowledge("a", _said((0, 6, RENEW)), _LIMITS, 20.0)
    partition.expire(_LIMITS, 30.0)
    assert _shown(partition) == [(5, 6, ACQUIRED, 1), (7, 9, AVAILABLE, 1)]
    assert partition.acknowledge("a", _said((0, 4, RENEW)), _LIMITS, 31.0) is False


def test_a_renewal_holds_though_what_was_said_with_it_is_not_stored() -> None:
    partition = SharePartition(0)
    _acquire(partition, (0, 9))
    partition.acknowledge("a", _said((0, 4, ACCEPT), (5, 9, RENEW)), _LIMITS, 20.0)
    partition.begin_write()
    partition.failed(_LIMITS, 35.0)
    assert _shown(partition) == [(0, 4, AVAILABLE, 1), (5, 9, ACQUIRED, 1)]


@pytest.mark.parametrize(
    ("read", "most", "taken"),
    [
        ([(0, 9)], 10, [[(0, 9, 1)]]),
        ([(0, 9)], 4, [[(0, 3, 1)], [(4, 7, 1)], [(8, 9, 1)]]),
        ([(0, 4), (5, 9)], 5, [[(0, 4, 1)], [(5, 9, 1)]]),
        ([(0, 4), (5, 9)], 7, [[(0, 4, 1), (5, 6, 1)], [(7, 9, 1)]]),
        ([(0, 1), (2, 3), (4, 5)], 3, [[(0, 1, 1), (2, 2, 1)], [(3, 3, 1), (4, 5, 1)]]),
        ([(0, 1), (4, 9)], 3, [[(0, 1, 1), (4, 4, 1)], [(5, 7, 1)], [(8, 9, 1)]]),  # no records between them
        ([(3, 9)], 1, [[(at, at, 1)] for at in range(3, 10)]),
    ],
)
def test_no_more_than_asked_for_where_that_is_strict(
    read: list[Span], most: int, taken: list[list[tuple[int, int, int]]]
) -> None:
    partition = SharePartition(0)
    found = [_acquire(partition, *read, most=most, is_strict=True) for _ in taken]
    assert found == taken
    assert partition.position(_LIMITS) == partition.end == read[-1][1] + 1
    partition.release("a", _LIMITS, counts=True)
    _store(partition)
    again = [_acquire(partition, *read, member="b", most=most, is_strict=True) for _ in taken]
    assert again == [[(first, last, 2) for first, last, _ in one] for one in taken]


@pytest.mark.parametrize(
    ("is_strict", "most", "taken"),
    [
        (True, 1, [(1, 1, 2)]),
        (True, 3, [(1, 2, 2), (5, 5, 2)]),
        (True, 5, [(1, 2, 2), (5, 6, 2), (10, 10, 1)]),
        (False, 1, [(1, 2, 2), (5, 6, 2)]),
        (False, 5, [(1, 2, 2), (5, 6, 2), (10, 14, 1)]),
    ],
)
def test_of_a_batch_only_what_is_available_counts(is_strict: bool, most: int, taken: list[Acquired]) -> None:
    partition = SharePartition(0)
    _acquire(partition, (0, 9))
    partition.acknowledge("a", _said((1, 2, RELEASE), (5, 6, RELEASE)), _LIMITS, 1.0)
    _store(partition)
    assert _acquire(partition, (0, 9), (10, 14), member="b", most=most, is_strict=is_strict) == taken


def test_the_limit_of_locks_is_kept_where_the_number_of_records_is_strict() -> None:
    partition, limits = SharePartition(0), Limits(5, 5, 30.0)
    assert _acquire(partition, (0, 9), most=4, limits=limits, is_strict=True) == [(0, 3, 1)]
    assert _acquire(partition, (0, 9), most=4, limits=limits, is_strict=True) == [(4, 4, 1)]
    assert partition.position(limits) is None


def test_what_was_delivered_often_comes_alone_where_the_number_of_records_is_strict() -> None:
    partition, limits = SharePartition(0), Limits(3, 100, 30.0)
    deliveries = []
    while partition.start < 4:
        deliveries.append(_acquire(partition, (0, 3), most=3, limits=limits, is_strict=True))
        partition.release("a", limits, counts=True)
        _store(partition)
    assert all(sum(last - first + 1 for first, last, _ in one) <= 3 for one in deliveries)
    assert [one for one in deliveries if one[0].delivery == 3] == [[(at, at, 3)] for at in range(4)]


def test_a_leader_begins_with_what_was_stored() -> None:
    partition = SharePartition(
        5, [StateBatch(5, 6, AVAILABLE, 2), StateBatch(10, 11, ACKNOWLEDGED, 1), StateBatch(12, 12, ARCHIVED, 5)]
    )
    assert _shown(partition) == [
        (5, 6, AVAILABLE, 2), (7, 9, AVAILABLE, 0), (10, 11, ACKNOWLEDGED, 1), (12, 12, ARCHIVED, 5),
    ]  # fmt: skip
    assert _acquire(partition, (5, 20)) == [(5, 6, 3), (7, 9, 1), (13, 20, 1)]
    snapshot = partition.begin_write()  # what is acquired counts as before
    assert snapshot == (
        5, (StateBatch(5, 6, AVAILABLE, 2), StateBatch(10, 11, ACKNOWLEDGED, 1), StateBatch(12, 12, ARCHIVED, 5)), 3,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("log_start", "left"),
    [
        (0, [(0, 9, ACQUIRED, 1)]),
        (4, [(4, 9, ACQUIRED, 1)]),
        (10, []),
        (50, []),
    ],
)
def test_the_log_start_moves(log_start: int, left: _Shown) -> None:
    partition = SharePartition(0)
    _acquire(partition, (0, 9))
    partition.move_start(log_start)
    assert (partition.start, _shown(partition)) == (log_start, left)
    assert partition.end == max(log_start, 10)
    assert partition.acknowledge("a", _said((0, 9, ACCEPT)), _LIMITS, 1.0) is bool(left)
