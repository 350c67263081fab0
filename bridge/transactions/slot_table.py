"""What this process knows of one slot, for those who read: it grows, or is replaced as a whole by a newer copy."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from bridge.storage.visibility import Identity, OpenTransaction, Outcome, Transaction
from bridge.transactions.outcomes import SlotOutcomes
from bridge.transactions.state import Status, TransactionRecord

_MAX_ABSENT: Final = 10_000
"""Transactions without a record that are remembered: those whose transactional id has expired."""
_NO_RECORDS: Final[Mapping[str, TransactionRecord]] = {}


class SlotCopy:
    """The records of a slot up to some place of its log (`owned_log.Copy`)."""

    def __init__(self, *, held: bool = False) -> None:
        """`held`: it is made by the one who holds the slot."""
        self.outcomes = SlotOutcomes(held)
        self._open_in: dict[str, dict[str, None]] = {}
        """By topic id: the transactional ids whose open transaction names the topic."""
        self._topics: dict[str, set[str]] = {}
        """The other way round."""

    def apply(self, key: str, value: bytes | None) -> None:
        """The next record is stored; None deletes it."""
        for transactional_id in self.outcomes.apply(key, value):
            for topic_id in self._topics.pop(transactional_id, ()):
                del self._open_in[topic_id][transactional_id]
                if not self._open_in[topic_id]:
                    del self._open_in[topic_id]
            record = self.outcomes.records.get(transactional_id)
            if record is not None and record.status is Status.OPEN and record.partitions:
                topics = self._topics[transactional_id] = {topic_id for _, topic_id in record.partitions}
                for topic_id in topics:
                    self._open_in.setdefault(topic_id, {})[transactional_id] = None

    def open_in(self, topic_id: str, partition: int) -> Iterator[TransactionRecord]:
        """The records of the open transactions that name a partition."""
        for transactional_id in self._open_in.get(topic_id, ()):
            record = self.outcomes.records[transactional_id]
            if record.names(topic_id, partition):
                yield record


class SlotTable:
    """The newest copy of one slot.

    What was known stays until a newer copy takes its place: it is true, only old.
    """

    def __init__(self, slot: int) -> None:
        self._slot = slot
        self.copy: SlotCopy | None = None
        """None: nothing is loaded yet."""
        self._absent: dict[Identity, None] = {}

    @property
    def outcomes(self) -> SlotOutcomes | None:
        """All that is known."""
        return None if self.copy is None else self.copy.outcomes

    @property
    def records(self) -> Mapping[str, TransactionRecord]:
        """By transactional id."""
        return _NO_RECORDS if self.copy is None else self.copy.outcomes.records

    def outcome(self, identity: Identity) -> Outcome:
        """How a transaction stands: OPEN where that is not known."""
        found = None if self.copy is None else self.copy.outcomes.outcome(identity)
        if found is not None:
            return found
        return Outcome.COMMITTED if identity in self._absent else Outcome.OPEN

    def is_unknown(self, identity: Identity) -> bool:
        """Whether no record has its producer id, and no confirm has said that none will."""
        known = self.outcomes
        return identity not in self._absent and known is not None and known.outcome(identity) is None

    def is_in_doubt(self, identity: Identity) -> bool:
        """Whether an open transaction may be open only because this copy is old."""
        known = self.outcomes
        return known is None or known.outcome(identity) is None or known.is_above(identity)

    def confirmed(self, identities: Iterable[Identity]) -> None:
        """These were met before a confirm began that has answered: what has no record now will never have one."""
        for identity in identities:
            if self.copy is None or self.copy.outcomes.outcome(identity) is None:
                self._absent[identity] = None
        while len(self._absent) > _MAX_ABSENT:
            del self._absent[next(iter(self._absent))]

    def open_in(self, topic_id: str, partition: int) -> Iterator[OpenTransaction]:
        """The open transactions that name a partition."""
        for record in () if self.copy is None else self.copy.open_in(topic_id, partition):
            first = record.firsts.get((topic_id, partition))
            yield OpenTransaction(Transaction(self._slot, record.identity), first, record.begun_ms)
