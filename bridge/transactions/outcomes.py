"""What the records of one slot say of each transaction: on its holder, and on each node that follows it.

    is in the aborted set                     aborted
    no record has its producer id             unknown: committed, once a confirm that began later finds none either
    above its producer's record               open: what is known here is old
    equal to it                               as its status says; open if it is EMPTY, which only an old view shows
    below it                                  committed

This holds if what was applied is a prefix of the slot's log, and whole entries of it. While a slot is loaded from the
compacted view it does not: an aborted transaction may come later than the record that is above it.

A record of a later version is not understood, and makes nothing look committed. The one before it stays: an old view
delays and is never wrong. Since a producer id that is not known may stand in the record that cannot be read, all those
are open as long as there is one. So are those of a block of aborted ones that cannot be read.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from bridge.storage.visibility import Identity, Outcome
from bridge.transactions import records
from bridge.transactions.aborted import AbortedIdentities, AbortedRecords
from bridge.transactions.id_records import IdRecords
from bridge.transactions.records import IdKey
from bridge.transactions.state import Status, TransactionRecord

_OUTCOMES: Final[Mapping[Status, Outcome]] = {
    Status.EMPTY: Outcome.OPEN,
    Status.OPEN: Outcome.OPEN,
    Status.COMMITTED: Outcome.COMMITTED,
    Status.ABORTED: Outcome.ABORTED,
}


class SlotOutcomes:
    """What is known of one slot.

    Records are applied in the order of the log. Whoever waits for outcomes looks once an entry is applied as a whole,
    and at all that it waits for: a transaction may be decided by a record that changes no transactional id.
    """

    def __init__(self, held: bool = False) -> None:
        self.aborted = AbortedIdentities()
        self.aborted_records = AbortedRecords() if held else None
        """The holder's alone: nobody else stores any."""
        self._records = IdRecords()
        self._by_producer_id: dict[int, str] = {}
        self._open: dict[str, None] = {}
        self._unreadable: set[str] = set()

    @property
    def records(self) -> Mapping[str, TransactionRecord]:
        """By transactional id."""
        return self._records

    def apply(self, key: str, value: bytes | None) -> tuple[str, ...]:
        """A record is stored; no value deletes it. Gives the transactional ids that changed."""
        parsed = records.parse_key(key)
        if parsed is None:
            return ()
        if isinstance(parsed, IdKey):
            return (parsed.transactional_id,) if self._apply_id(parsed.transactional_id, value) else ()
        self.aborted.apply(parsed, value)
        if self.aborted_records is not None:
            self.aborted_records.apply(parsed, value)
        return ()

    def outcome(self, identity: Identity) -> Outcome | None:
        """How a transaction stands; None: no record has this producer id."""
        if identity in self.aborted:
            return Outcome.ABORTED
        if self.aborted.is_in_doubt(identity):
            return Outcome.OPEN
        transactional_id = self.id_of(identity.producer_id)
        if transactional_id is None:
            return Outcome.OPEN if self._unreadable else None
        current, status = self._records.standing(transactional_id)
        if identity == current:
            return _OUTCOMES[status]
        return Outcome.COMMITTED if identity < current else Outcome.OPEN

    def is_above(self, identity: Identity) -> bool:
        """Whether it is above its producer's record; not if there is none."""
        transactional_id = self.id_of(identity.producer_id)
        return transactional_id is not None and identity > self._records.standing(transactional_id)[0]

    def is_readable(self, transactional_id: str) -> bool:
        """Whether the newest record of the id is understood: else nobody may write another, to time it out neither."""
        return transactional_id not in self._unreadable

    def id_of(self, producer_id: int) -> str | None:
        """The transactional id whose record has this producer id."""
        return self._by_producer_id.get(producer_id)

    def record_of(self, producer_id: int) -> TransactionRecord | None:
        """The record that has this producer id."""
        transactional_id = self.id_of(producer_id)
        return None if transactional_id is None else self._records[transactional_id]

    def open_records(self) -> Iterator[tuple[str, TransactionRecord]]:
        """The transactional ids that have an open transaction, with their records."""
        return ((transactional_id, self._records[transactional_id]) for transactional_id in self._open)

    def count_open(self) -> int:
        """How many those are."""
        return len(self._open)

    def live(self) -> int:
        """How many keys have a value."""
        unreadable = sum(transactional_id not in self._records for transactional_id in self._unreadable)
        return len(self._records) + unreadable + self.aborted.live()

    def _apply_id(self, transactional_id: str, value: bytes | None) -> bool:
        before = self._records.get(transactional_id)
        if not value:
            self._unreadable.discard(transactional_id)
            self._forget(transactional_id, before)
            return before is not None
        record = records.decode(value)
        if record is None:
            self._unreadable.add(transactional_id)
            return False
        if before is not None and record.revision <= before.revision:
            return False  # Pulsar stored it twice
        self._unreadable.discard(transactional_id)
        self._forget(transactional_id, before)
        self._records.put(transactional_id, record)
        self._by_producer_id[record.producer_id] = transactional_id
        if record.status is Status.OPEN:
            self._open[transactional_id] = None
        return True

    def _forget(self, transactional_id: str, before: TransactionRecord | None) -> None:
        if before is not None:
            self._records.remove(transactional_id)  # the next one stands behind all others
            if self._by_producer_id.get(before.producer_id) == transactional_id:
                del self._by_producer_id[before.producer_id]
            self._open.pop(transactional_id, None)
