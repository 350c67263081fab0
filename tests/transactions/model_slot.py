"""What both models have of the coordinator's log: one writer at a time, readers that lag, and the real code on it.

Records go through their stored form. A block is made of two aborted ones, so that short histories have some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Generic, TypeAlias, TypeVar

from bridge.storage.visibility import Identity, Outcome
from bridge.transactions import records
from bridge.transactions.aborted import AbortedRecords
from bridge.transactions.outcomes import SlotOutcomes
from bridge.transactions.records import AbortedKey
from bridge.transactions.state import (
    Change,
    Partition,
    TransactionRecord,
    add_group,
    add_partitions,
    end,
    init_producer_id,
    time_out,
)

Records: TypeAlias = Sequence[tuple[str, bytes | None]]
Entry = TypeVar("Entry")

TIMEOUT_MS: Final = 1
MOST_ALONE: Final = 1


class Log(Generic[Entry]):
    """A log with an exclusive producer. What is before `trimmed` only the compacted view has."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.generation = 0
        self.owner = 0
        self.trimmed = 0

    def take(self, node: int) -> int:
        self.generation += 1
        self.owner = node
        return self.generation


class View:
    """What a node knows of the log: a prefix of it."""

    def __init__(self, log: Log[Records]) -> None:
        self._log = log
        self.position = 0
        self.slot, self.aborted = _new_slot()

    def load(self) -> None:
        """Again: the compacted view, and then the rest."""
        self.slot, self.aborted = _new_slot()
        self._apply(_compacted(self._log.entries[: self._log.trimmed]))
        self.position = self._log.trimmed
        self.read()

    def read(self, entries: int | None = None, gaps: bool = False) -> None:
        """Some more entries, or all. What is trimmed needs a new load, if gaps are found out."""
        if self.position < self._log.trimmed:
            if not gaps:
                return self.load()
            self.position = self._log.trimmed
        end_of_read = len(self._log.entries) if entries is None else self.position + entries
        for entry in self._log.entries[self.position : end_of_read]:
            self.receipt(self.position, entry)

    def receipt(self, place: int, entry: Records) -> None:
        """An entry is known to be stored there."""
        if place == self.position:
            self._apply(entry)
            self.position += 1

    def outcome(self, identity: Identity) -> Outcome | None:
        return self.slot.outcome(identity)

    def _apply(self, entry: Records) -> None:
        for key, value in entry:
            self.slot.apply(key, value)


class Pruning(list[tuple[str, bytes | None]]):
    """An entry that deletes records of aborted transactions."""


def pruned(aborted: AbortedRecords, is_left: Callable[[Identity], bool]) -> Pruning:
    """What the holder deletes: the records of which nothing is left."""
    gone = Pruning()
    for key, value in aborted:
        if isinstance(key, AbortedKey):
            identities = [key.identity]
        else:
            block = records.decode_block(value)
            assert block is not None
            bits = int.from_bytes(block.bitmap, "little")
            identities = [key.identity(bit) for bit in range(records.BLOCK_SIZE) if bits >> bit & 1]
        if not any(map(is_left, identities)):
            gone.append((records.encode_key(key), None))
    return gone


def _new_slot() -> tuple[SlotOutcomes, AbortedRecords]:
    slot, aborted = SlotOutcomes(), AbortedRecords(MOST_ALONE)
    slot.aborted_records = aborted
    return slot, aborted


def _compacted(log: Iterable[Records]) -> Records:
    last: dict[str, bytes | None] = {}
    for entry in log:
        for key, value in entry:
            last.pop(key, None)
            last[key] = value
    return [(key, value) for key, value in last.items() if value is not None]


def begin(log: Log[Records], transactional_id: str, producer_id: int, epoch: int) -> None:
    """An id that has come as far as this epoch."""
    change = init_producer_id(None, -1, -1, TIMEOUT_MS, producer_id, 0)
    assert isinstance(change, Change)
    assert change.record is not None
    stored = replace(change.record, epoch=epoch)
    log.entries.append([(records.id_key(transactional_id), records.encode(stored))])


def entry_of(
    aborted: AbortedRecords, transactional_id: str, before: TransactionRecord | None, change: Change
) -> Records:
    """What a change stores, all of it in one entry."""
    entry: list[tuple[str, bytes | None]] = []
    assert change.record is not None
    if change.aborted is not None:
        assert before is not None
        entry += aborted.to_store(change.aborted, records.encode_aborted(0, before))
    return [*entry, (records.id_key(transactional_id), records.encode(change.record))]


def initialized(record: TransactionRecord | None, named: tuple[int, int], new_id: int) -> Change:
    return _change(init_producer_id(record, *named, TIMEOUT_MS, new_id, 0))


def added(
    record: TransactionRecord | None, named: tuple[int, int], partition: int, first: int, protocol: int
) -> Change:
    partitions = [Partition("t", "0a", partition)]
    return add_partitions(record, *named, partitions, {("0a", partition): first}, protocol, 10, 0)


def joined(record: TransactionRecord | None, named: tuple[int, int], group: str, protocol: int) -> Change:
    return add_group(record, *named, group, protocol, 0)


def ended(
    record: TransactionRecord | None, named: tuple[int, int], committed: bool, protocol: int, new_id: int
) -> Change:
    return _change(end(record, *named, committed, protocol, new_id, 0))


def timed_out(record: TransactionRecord, new_id: int) -> Change:
    change = time_out(record, TIMEOUT_MS, new_id)
    assert change is not None
    return _change(change)


def _change(change: object) -> Change:
    assert isinstance(change, Change)
    return change
