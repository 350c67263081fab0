"""What the records of a slot say of each transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.storage.visibility import Identity, Outcome
from bridge.transactions import records
from bridge.transactions.aborted import AbortedRecords
from bridge.transactions.outcomes import SlotOutcomes
from bridge.transactions.state import Change, Ended, Status, TransactionRecord, add_group, end, init_producer_id

ID: Final = 1000
LATER: Final = b'{"v":2,"news":true}'
OPEN, COMMITTED, ABORTED = Outcome.OPEN, Outcome.COMMITTED, Outcome.ABORTED


def record_of(status: str, epoch: int = 7, n: int = 0, revision: int = 1, producer_id: int = ID) -> TransactionRecord:
    protocol = 1 if n else 2
    kind = Status(status)
    return TransactionRecord(
        revision, producer_id, epoch, n, kind, protocol, 60_000, 0, 0, None, {}, {}, frozenset()
    )  # fmt: skip


def knowing(*stored: TransactionRecord, transactional_id: str = "copier") -> SlotOutcomes:
    slot = SlotOutcomes()
    for record in stored:
        slot.apply(records.id_key(transactional_id), records.encode(record))
    return slot


#     record         | (6, 9) | (7, 0) | (7, 2)    | (7, 3)    | (7, 4) | (8, 0)
TABLE: Final = """
      empty, 7, 0    | below  | OPEN   | OPEN      | OPEN      | OPEN   | OPEN
      open, 7, 0     | below  | OPEN   | OPEN      | OPEN      | OPEN   | OPEN
      open, 7, 3     | below  | below  | below     | OPEN      | OPEN   | OPEN
      committed, 7, 3| below  | below  | below     | COMMITTED | OPEN   | OPEN
      aborted, 7, 3  | below  | below  | below     | ABORTED   | OPEN   | OPEN
      empty, 9, 0    | below  | below  | below     | below     | below  | below
"""
PLACES: Final = [(6, 9), (7, 0), (7, 2), (7, 3), (7, 4), (8, 0)]


@pytest.mark.parametrize("line", TABLE.strip().splitlines())
def test_an_outcome_follows_from_the_place(line: str) -> None:
    named, *expected = [cell.strip() for cell in line.split("|")]
    status, epoch, n = named.split(", ")
    record = record_of(status[0], int(epoch), int(n))
    for place, outcome in zip(PLACES, expected, strict=True):
        identity = Identity(ID, *place)
        slot = knowing(record)
        assert slot.outcome(identity) is (COMMITTED if outcome == "below" else Outcome[outcome])
        assert slot.is_above(identity) == (identity > record.identity)
        slot.apply(records.aborted_key(identity), records.encode_aborted(5, record))
        assert slot.outcome(identity) is ABORTED


def test_of_an_unknown_producer_nothing_is_known() -> None:
    slot = knowing(record_of("o"))
    assert slot.outcome(Identity(ID + 1, 7, 0)) is None
    assert not slot.is_above(Identity(ID + 1, 7, 0))
    assert slot.record_of(ID + 1) is None


def test_what_was_stored_twice_changes_nothing() -> None:
    first, second = record_of("o", 7, 1, revision=4), record_of("c", 7, 1, revision=5)
    slot = knowing(first, second)
    for copy in (first, second):
        assert slot.apply("t/copier", records.encode(copy)) == ()
        assert slot.records == {"copier": second}
        assert list(slot.open_records()) == []
    assert slot.apply("t/copier", records.encode(replace(second, revision=6))) == ("copier",)


def test_a_new_producer_id_takes_the_place_of_the_old() -> None:
    slot = knowing(record_of("o", 32_766), record_of("e", 0, revision=2, producer_id=ID + 1))
    assert slot.outcome(Identity(ID, 32_766, 0)) is None
    assert slot.outcome(Identity(ID + 1, 0, 0)) is OPEN
    assert slot.record_of(ID) is None
    assert list(slot.open_records()) == []


def test_an_entry_that_was_read_late_of_another_id_keeps_its_own_producer() -> None:
    """Two ids never have one producer id; if one had, deleting the first leaves the second."""
    slot = knowing(record_of("e"))
    slot.apply("t/other", records.encode(record_of("o")))
    assert slot.apply("t/copier", None) == ("copier",)
    assert slot.record_of(ID) == record_of("o")


def test_a_deleted_id_is_unknown() -> None:
    slot = knowing(record_of("o"))
    assert slot.live() == 1
    assert slot.apply("t/copier", b"") == ("copier",)
    assert slot.apply("t/copier", None) == ()
    assert slot.outcome(Identity(ID, 7, 0)) is None
    assert (slot.records, list(slot.open_records()), slot.live()) == ({}, [], 0)
    assert slot.apply("t/copier", records.encode(record_of("e"))) == ("copier",)


def test_open_transactions_are_listed() -> None:
    slot = knowing(record_of("o"))
    slot.apply("t/idle", records.encode(record_of("e", producer_id=5)))
    assert list(slot.open_records()) == [("copier", record_of("o"))]


def test_other_keys_are_left_alone() -> None:
    slot = SlotOutcomes()
    assert slot.apply("s", b"{}") == ()
    assert slot.apply("z/5", b"{}") == ()
    assert slot.live() == 0


def test_the_holder_keeps_the_records_of_aborted_ones() -> None:
    identity = Identity(ID, 7, 0)
    slot = SlotOutcomes(held=True)
    slot.apply("a/1000/7/0", records.encode_aborted(5, record_of("o")))
    assert slot.aborted_records is not None
    assert [records.encode_key(key) for key, _ in slot.aborted_records] == [records.aborted_key(identity)]
    assert SlotOutcomes().aborted_records is None


# ---- records of a later version --------------------------------------------------------------------------------------


def test_before_a_later_version_stays_what_was_known() -> None:
    slot = knowing(record_of("o", 7, 3))
    assert slot.apply("t/copier", LATER) == ()
    assert not slot.is_readable("copier")
    assert slot.outcome(Identity(ID, 7, 2)) is COMMITTED
    assert slot.outcome(Identity(ID, 7, 3)) is OPEN
    assert slot.outcome(Identity(ID, 8, 0)) is OPEN
    assert slot.live() == 1


def test_a_later_version_makes_nothing_look_committed() -> None:
    """It may be the record of any producer id that is not known."""
    slot = SlotOutcomes()
    slot.apply("t/copier", LATER)
    assert slot.outcome(Identity(ID, 7, 3)) is OPEN
    assert slot.live() == 1
    slot.apply("a/1000/7/3", LATER)
    assert slot.outcome(Identity(ID, 7, 3)) is ABORTED


@pytest.mark.parametrize("value", [None, records.encode(record_of("e", producer_id=5))])
def test_what_is_readable_again_leaves_no_doubt(value: bytes | None) -> None:
    slot = SlotOutcomes()
    slot.apply("t/copier", LATER)
    slot.apply("t/copier", value)
    assert slot.is_readable("copier")
    assert slot.outcome(Identity(ID, 7, 3)) is None


def test_a_block_of_a_later_version_holds_open() -> None:
    slot = knowing(record_of("e", 9))
    slot.apply("A/1000/7/0", LATER)
    assert slot.outcome(Identity(ID, 7, 3)) is OPEN
    assert slot.outcome(Identity(ID, 8, 3)) is COMMITTED


# ---- any prefix ------------------------------------------------------------------------------------------------------


class Coordinated:
    """A transactional id at the holder of its slot, and the slot's log."""

    def __init__(self, most_alone: int) -> None:
        self.slot, self.aborted = SlotOutcomes(), AbortedRecords(most_alone)
        self.slot.aborted_records = self.aborted
        self.log: list[list[tuple[str, bytes | None]]] = []
        self.final: dict[Identity, Outcome] = {}
        self.store(init_producer_id(None, -1, -1, 60_000, ID, 0))

    @property
    def record(self) -> TransactionRecord:
        return self.slot.records["copier"]

    def store(self, change: object) -> None:
        assert isinstance(change, Change)
        assert change.record is not None
        entry: list[tuple[str, bytes | None]] = []
        if change.aborted:
            entry += self.aborted.to_store(change.aborted, records.encode_aborted(5, self.record))
        entry.append(("t/copier", records.encode(change.record)))
        for key, value in entry:
            self.slot.apply(key, value)
        assert self.record == change.record
        self.log.append(entry)

    def transaction(self, protocol: int, committed: bool) -> None:
        record, new_id = self.record, 2000 + len(self.log)
        opened = add_group(record, record.producer_id, record.epoch, "g", protocol, 0)
        if opened.record is None:  # another protocol within the epoch
            return self.store(init_producer_id(record, -1, -1, 60_000, new_id, 0))
        self.store(opened)
        self.final[self.record.identity] = COMMITTED if committed else ABORTED
        self.store(end(self.record, record.producer_id, record.epoch, committed, protocol, new_id, 0))


@given(
    decisions=st.lists(st.tuples(st.sampled_from([1, 2]), st.booleans(), st.booleans()), max_size=12),
    most_alone=st.integers(0, 2),
)
def test_an_old_view_delays_and_is_never_wrong(decisions: list[tuple[int, bool, bool]], most_alone: int) -> None:
    coordinated = Coordinated(most_alone)
    for protocol, committed, again in decisions:
        coordinated.transaction(protocol, committed)
        if again:
            coordinated.log.append(coordinated.log[-1])
    view, known = SlotOutcomes(), dict[Identity, Outcome]()
    for entry in coordinated.log:
        for key, value in entry:
            view.apply(key, value)
        for identity, outcome in coordinated.final.items():
            found = view.outcome(identity)
            assert found in (OPEN, outcome)
            assert known.get(identity) in (None, found)
            if found is outcome:
                known[identity] = found
    assert known == coordinated.final
    assert view.records == coordinated.slot.records
    assert view.live() == coordinated.slot.live()


def test_the_ended_epoch_is_read_back() -> None:
    record = replace(record_of("e"), ended=Ended(ID, 6, "c"))
    assert knowing(record).records["copier"].ended == Ended(ID, 6, "c")
