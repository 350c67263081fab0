"""What one topic of the model holds: entries in ledgers, the entry index, and what deduplication knows.

The rules are Pulsar 4.0's (`ManagedLedgerImpl`, `ManagedLedgerInterceptorImpl`, `MessageDeduplication`):

* Each load of a topic and each full ledger begins a new ledger. Ledger ids are the cluster's and grow.
* The index counts messages when an entry is on its way to the ledger. It is written down when a ledger is listed, and
  read back from the last entry of the last ledger, or from what was written down where that ledger has none: indices
  that were counted and never stored are left out forever then, and used again otherwise.
* An entry that fills its ledger is there for a cursor at once. Its receipt, and the last message id, come once the
  ledger is closed (`OpAddEntry`).
* Deduplication goes by producer name, and knows nothing of what came before it was turned on. `pushed` is what is on
  its way, `persisted` what is stored; after a load both are what is stored.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import EARLIEST, Position


@dataclass(slots=True)
class Stored:
    """One entry."""

    position: Position
    index: int
    count: int
    body: bytes  # checksum, metadata, payload, as the producer sent them
    producer: str
    sequence: int
    highest: int
    at_ms: int
    metadata: pb.MessageMetadata

    @property
    def base(self) -> int:
        """The index of its first message."""
        return self.index - self.count + 1


@dataclass(slots=True)
class Ledger:
    """A run of entries; the last one of a loaded topic is open."""

    id: int
    entries: list[Stored] = field(default_factory=list)


class Verdict(Enum):
    """What deduplication says of a send."""

    NEW = "new"
    STORED = "stored already"
    UNKNOWN = "on its way already"


class Ledgers:
    """See the module."""

    def __init__(self, ids: Iterator[int]) -> None:
        self._ids = ids
        self.ledgers: list[Ledger] = []
        self.entries: list[Stored] = []
        self.trimmed = 0
        """How many entries were before the first that is left."""
        self.counter = -1
        """The index given out last."""
        self.written_down = -1
        self.is_closing = False
        """The last entry has filled its ledger, which is not closed yet: readers get it, and no one is told of it."""
        self.deduplicates = False
        self.pushed: dict[str, int] = {}
        self.persisted: dict[str, int] = {}

    # --- loading and rolling over -----------------------------------------------------------------------------------

    def load(self) -> None:
        """As a broker that has this topic again: only what is stored is known."""
        last = self.ledgers[-1] if self.ledgers else None
        self.counter = self.written_down
        if last is not None and last.entries:
            self.counter = last.entries[-1].index
        if last is not None and not last.entries:
            self.ledgers.pop()
        self.forget_pushed()
        self.roll_over()

    def roll_over(self) -> None:
        """Begin a new ledger."""
        self.is_closing = False
        self.ledgers.append(Ledger(next(self._ids)))
        self.written_down = self.counter

    # --- adding -----------------------------------------------------------------------------------------------------

    def judge(self, producer: str, sequence: int, highest: int) -> Verdict:
        """Whether a send is new; if so it counts as pushed from now on."""
        if not self.deduplicates:
            return Verdict.NEW
        pushed = self.pushed.get(producer)
        if pushed is not None and sequence <= pushed:
            persisted = self.persisted.get(producer)
            return Verdict.STORED if persisted is not None and sequence <= persisted else Verdict.UNKNOWN
        self.pushed[producer] = highest
        return Verdict.NEW

    def count(self, messages: int) -> int:
        """The index of the last of so many messages that are on their way."""
        self.counter += messages
        return self.counter

    def store(self, entry: Stored) -> Position:
        """The entry is in the open ledger for good; its place."""
        ledger = self.ledgers[-1]
        entry.position = Position(ledger.id, len(ledger.entries))
        ledger.entries.append(entry)
        self.entries.append(entry)
        if self.deduplicates:
            self.persisted[entry.producer] = max(self.persisted.get(entry.producer, -1), entry.highest)
        return entry.position

    def forget_pushed(self) -> None:
        """What was on its way is not any more, as after a failed write."""
        self.pushed = dict(self.persisted)

    # --- asking -----------------------------------------------------------------------------------------------------

    @property
    def last(self) -> Position:
        """The last entry's place as Pulsar tells it, EARLIEST if there is none."""
        entries = self.entries[-2:-1] if self.is_closing else self.entries[-1:]
        return entries[0].position if entries else EARLIEST

    def place_before(self, number: int) -> Position:
        """The place behind which the entry with this number is."""
        at = number - self.trimmed
        return self.entries[at - 1].position if at > 0 else Position(self.ledgers[0].id, -1)

    @property
    def end(self) -> int:
        """How many entries there have ever been."""
        return self.trimmed + len(self.entries)

    def number_of(self, start: Position) -> int:
        """The number of the first entry at or after this place."""
        return self.trimmed + bisect_left(self.entries, start, key=lambda entry: entry.position)

    def entry(self, number: int) -> Stored:
        """The entry with this number, or the first that is left."""
        return self.entries[max(number - self.trimmed, 0)]

    def at(self, position: Position) -> Stored | None:
        """The entry at this place."""
        at = bisect_left(self.entries, position, key=lambda entry: entry.position)
        found = self.entries[at] if at < len(self.entries) else None
        return found if found is not None and found.position == position else None

    # --- trimming ---------------------------------------------------------------------------------------------------

    def trim(self, ledgers: int) -> None:
        """Delete so many of the oldest ledgers, but never the open one."""
        for _ in range(min(ledgers, len(self.ledgers) - 1)):
            gone = self.ledgers.pop(0)
            del self.entries[: len(gone.entries)]
            self.trimmed += len(gone.entries)
