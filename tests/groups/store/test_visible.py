"""The offset that counts: by outcome and place, through settling, deletion, compaction and restarts."""

from random import Random

import pytest

from bridge.groups.store.records import PendingOffset, StoredGroup, StoredOffset, encode_offset, offset_key, pending_key
from bridge.groups.store.stored_groups import put_offset, put_pending
from bridge.groups.store.visible import decided_keys, settling, visible, visible_offsets
from bridge.storage.visibility import Outcome
from tests.groups.fake_outcomes import FakeOutcomes, transaction
from tests.groups.store.offset_history import History, Wrong

WHERE = ("t", 0)
ONE, TWO = transaction(1), transaction(2)
OPEN, COMMITTED, ABORTED = Outcome


def _group(*committed: int | tuple[int, int]) -> StoredGroup:
    """Offsets in the order of their places: plain ones, and (number of a transaction, offset)."""
    group = StoredGroup()
    for one in committed:
        if isinstance(one, int):
            put_offset(group, WHERE, StoredOffset(one))
        else:
            pending = PendingOffset(transaction(one[0]), StoredOffset(one[1]))
            put_pending(group, pending_key("g", *WHERE, pending.transaction.identity), pending)
    return group


def _outcomes(one: Outcome, two: Outcome) -> FakeOutcomes:
    outcomes = FakeOutcomes()
    outcomes.decided = {ONE: one, TWO: two}
    return outcomes


@pytest.mark.parametrize(
    ("one", "two", "seen"),
    [
        (OPEN, OPEN, 3), (OPEN, COMMITTED, 7), (OPEN, ABORTED, 3), (COMMITTED, OPEN, 3), (COMMITTED, COMMITTED, 7),
        (COMMITTED, ABORTED, 3), (ABORTED, OPEN, 3), (ABORTED, COMMITTED, 7), (ABORTED, ABORTED, 3),
    ],
)  # fmt: skip
def test_the_last_that_is_plain_or_committed_counts(one: Outcome, two: Outcome, seen: int) -> None:
    group = _group(2, (1, 5), 3, (2, 7))
    found = visible(group, WHERE, _outcomes(one, two).outcome)
    assert found is not None
    assert found.offset == seen
    assert visible_offsets(group, _outcomes(one, two).outcome) == {WHERE: found}


@pytest.mark.parametrize(("one", "seen"), [(OPEN, []), (ABORTED, []), (COMMITTED, [WHERE])])
def test_a_partition_without_a_plain_offset_is_there_once_one_is_committed(one: Outcome, seen: list[object]) -> None:
    offsets = visible_offsets(_group((1, 5)), _outcomes(one, OPEN).outcome)
    assert list(offsets) == seen
    assert (WHERE in offsets, len(offsets)) == (bool(seen), len(seen))


def test_an_offset_that_a_transaction_commits_again_has_its_last_place() -> None:
    outcome = _outcomes(COMMITTED, COMMITTED).outcome
    assert visible(_group((1, 5), (2, 7), (1, 6)), WHERE, outcome) == StoredOffset(6)
    assert visible(_group((1, 5), 3, (1, 4)), WHERE, outcome) == StoredOffset(4)


def test_what_counts_is_stored_before_what_was_pending_goes() -> None:
    records = settling("g", _group(3, (1, 5), (2, 7)), WHERE, _outcomes(COMMITTED, ABORTED).outcome)
    assert list(records.items()) == [
        (offset_key("g", *WHERE), encode_offset(StoredOffset(5))),
        (pending_key("g", *WHERE, ONE.identity), None),
        (pending_key("g", *WHERE, TWO.identity), None),
    ]


@pytest.mark.parametrize(
    ("one", "two", "gone"),
    [(COMMITTED, OPEN, []), (ABORTED, OPEN, [ONE]), (OPEN, COMMITTED, []), (OPEN, OPEN, []), (OPEN, ABORTED, [TWO])],
)
def test_beside_an_open_one_only_goes_what_does_not_count(one: Outcome, two: Outcome, gone: list[object]) -> None:
    records = settling("g", _group(3, (1, 5), (2, 7)), WHERE, _outcomes(one, two).outcome)
    assert records == {pending_key("g", *WHERE, each.identity): None for each in (ONE, TWO) if each in gone}


def test_what_an_open_transaction_commits_outlives_a_deletion() -> None:
    keys = decided_keys("g", _group(3, (1, 5), (2, 7)), WHERE, _outcomes(COMMITTED, OPEN).outcome)
    assert keys == [offset_key("g", *WHERE), pending_key("g", *WHERE, ONE.identity)]
    assert decided_keys("g", _group((2, 7)), WHERE, _outcomes(OPEN, OPEN).outcome) == []


@pytest.mark.parametrize("block", range(8))
def test_no_history_shows_another_offset_than_the_last_that_counts(block: int) -> None:
    for seed in range(block * 250, block * 250 + 250):
        History(Random(seed)).run(80)


@pytest.mark.parametrize("off", ["overtakes", "settles_early", "loses_place"])
def test_a_rule_that_is_not_kept_is_found_out(off: str) -> None:
    with pytest.raises(Wrong):
        for seed in range(500):
            history = History(Random(seed))
            setattr(history, off, True)
            history.run(80)
