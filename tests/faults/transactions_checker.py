"""Judges a history of transactions, in Jepsen's manner: lists that producers append unique values to.

What happened is told by the clients alone: which values each transaction appended and how it ended as its producer was
told, what each reader was given in which order and where it came to, how far a group's offsets were said to be. Every
value is appended once, so that who sees it knows whose it is. An outcome that nobody was told is found in what was
read: then the transaction must be there wholly, or not at all.

At the end every reader has read to the end of its level, and nothing is open any more. `check` needs no clock: it says
nothing of how soon something is seen.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

Place = tuple[str, int]
"""A topic and a partition."""


class Outcome(StrEnum):
    """How a transaction ended, as its producer was told."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Kind(StrEnum):
    """What may be wrong."""

    LOST = "a committed record is not there"
    ABORTED_VISIBLE = "a reader of committed records was given one of an aborted transaction"
    TORN = "a transaction is there in part"
    DOUBLED = "a record is there twice"
    REORDERED = "records of one producer are in another order than they were sent in"
    CONFLICT = "two readers were given different records at one offset"
    UNKNOWN_VALUE = "a record that nobody wrote"
    NON_MONOTONIC = "a reader went back"
    SKIPPED = "a reader passed a record that it should have been given"
    OFFSETS_BACK = "a group's offset went back"
    OFFSETS_WITHOUT_OUTPUTS = "a group's offset is behind records whose copies are not there"
    OUTPUTS_WITHOUT_OFFSETS = "copies are there of records that the group's offset is not behind"


class Anomaly(NamedTuple):
    """Something wrong, and where."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


class Append(NamedTuple):
    """A value that a transaction appended."""

    place: Place
    value: str
    copy_of: str = ""
    """Of a copier: the value that it read."""


class Span(NamedTuple):
    """Offsets of a source that a transaction copied: from the first to before the last."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """What a producer did between two ends."""

    producer: str
    """Has one transaction after the other; they are in order in the history."""
    outcome: Outcome
    appends: tuple[Append, ...]
    """In the order in which they were sent."""
    copied: Mapping[Place, Span] = field(default_factory=dict)
    """Of a copier: whose offsets it committed for the group."""

    def __str__(self) -> str:
        return f"{self.outcome} transaction of {self.producer} with {len(self.appends)} records"


class Poll(NamedTuple):
    """What a reader was given of a partition at once, and where it was then."""

    place: Place
    records: tuple[tuple[int, str], ...]
    """Offsets and values."""
    position: int


@dataclass(frozen=True, slots=True)
class Reading:
    """All that a reader was given, from the beginning of each partition to its end."""

    name: str
    committed: bool
    polls: tuple[Poll, ...]


@dataclass(frozen=True, slots=True)
class History:
    """All that happened."""

    transactions: tuple[Transaction, ...]
    readings: tuple[Reading, ...]
    plain: tuple[Append, ...] = ()
    """Acknowledged records of no transaction."""
    offsets: tuple[tuple[Place, int], ...] = ()
    """Stable offsets of the group of copiers, as they were told one after the other; the last ones count."""


def check(history: History) -> list[Anomaly]:
    """Return what is wrong."""
    return list(_Check(history).anomalies())


class _Check:
    """What is known of a history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._whose = {append.value: one for one in history.transactions for append in one.appends}
        self._plain = {append.value for append in history.plain}
        self._committed = [reading for reading in history.readings if reading.committed]
        self._log = {level: _log(one for one in history.readings if one.committed is level) for level in (True, False)}
        self._places = {level: _places(log) for level, log in self._log.items()}

    def anomalies(self) -> Iterator[Anomaly]:
        yield from self._of_transactions()
        yield from self._lost_plain()
        yield from self._doubled()
        yield from self._reordered()
        yield from self._conflicts()
        for reading in self._history.readings:
            yield from self._of_reading(reading)
        yield from self._offsets_back()
        yield from self._of_spans()
        yield from self._of_copies()

    def _of_transactions(self) -> Iterator[Anomaly]:
        for one in self._history.transactions:
            missing = [append for append in one.appends if not self._is_read(append, committed=True)]
            there = len(one.appends) - len(missing)
            if one.outcome is Outcome.ABORTED and there:
                yield Anomaly(Kind.ABORTED_VISIBLE, f"{there} of {one}")
            elif one.outcome is Outcome.COMMITTED and missing:
                yield Anomaly(Kind.LOST, f"{missing[:3]} of {one}")
                if there:
                    yield Anomaly(Kind.TORN, f"{there} of {one}")
            elif one.outcome is Outcome.UNKNOWN and missing and there:
                yield Anomaly(Kind.TORN, f"{there} of {one}, without {missing[:3]}")
            if one.outcome is Outcome.COMMITTED:
                hidden = [append for append in one.appends if not self._is_read(append, committed=False)]
                if hidden and self._log[False]:
                    yield Anomaly(Kind.LOST, f"{hidden[:3]} of {one}, to readers of all records")

    def _lost_plain(self) -> Iterator[Anomaly]:
        for append in self._history.plain:
            for level, log in self._log.items():
                if log and not self._is_read(append, committed=level):
                    yield Anomaly(Kind.LOST, f"{append}, written in no transaction")

    def _doubled(self) -> Iterator[Anomaly]:
        for found in self._places.values():
            for value, places in found.items():
                if len(places) > 1:
                    yield Anomaly(Kind.DOUBLED, f"{value!r} at {sorted(places)}")

    def _reordered(self) -> Iterator[Anomaly]:
        """By the committed view: what is aborted may be anywhere."""
        sent: dict[tuple[str, Place], list[str]] = defaultdict(list)
        for one in self._history.transactions:
            for append in one.appends:
                sent[one.producer, append.place].append(append.value)
        for (producer, place), values in sent.items():
            offsets = [
                min(offset for _, offset in found)
                for value in values
                if (found := {at for at in self._places[True].get(value, ()) if at[0] == place})
            ]
            if offsets != sorted(offsets):
                yield Anomaly(Kind.REORDERED, f"{producer} in {place}: {offsets[:10]}")

    def _conflicts(self) -> Iterator[Anomaly]:
        values: dict[tuple[Place, int], set[str]] = defaultdict(set)
        for log in self._log.values():
            for at, found in log.items():
                values[at] |= found
        for at, found in values.items():
            if len(found) > 1:
                yield Anomaly(Kind.CONFLICT, f"{sorted(found)} at {at}")
            for value in found:
                if value not in self._plain and value not in self._whose:
                    yield Anomaly(Kind.UNKNOWN_VALUE, f"{value!r} at {at}")

    def _of_reading(self, reading: Reading) -> Iterator[Anomaly]:
        positions: Counter[Place] = Counter()
        given: dict[Place, set[int]] = defaultdict(set)
        for place, records, position in reading.polls:
            offsets = [offset for offset, _ in records]
            steps = [positions[place], *(offset + 1 for offset in offsets), position]
            if any(offset < before for before, offset in zip(steps, offsets, strict=False)) or position < steps[-2]:
                yield Anomaly(Kind.NON_MONOTONIC, f"{reading.name} in {place} at {steps[0]}: {offsets[:5]}, {position}")
            positions[place] = position
            given[place].update(offsets)
        yield from self._skipped(reading, positions, given)

    def _skipped(
        self, reading: Reading, positions: Mapping[Place, int], given: Mapping[Place, set[int]]
    ) -> Iterator[Anomaly]:
        """What any reader of the level was given, every one was that came so far; and all come to the end."""
        missing: dict[Place, list[int]] = defaultdict(list)
        for place, offset in self._log[reading.committed]:
            if offset not in given.get(place, ()):
                missing[place].append(offset)
        for place, offsets in missing.items():
            yield Anomaly(
                Kind.SKIPPED, f"{reading.name} in {place}: {sorted(offsets)[:5]}, now at {positions.get(place, 0)}"
            )

    def _offsets_back(self) -> Iterator[Anomaly]:
        newest: dict[Place, int] = {}
        for place, offset in self._history.offsets:
            if offset < newest.get(place, 0):
                yield Anomaly(Kind.OFFSETS_BACK, f"{place}: from {newest[place]} to {offset}")
            newest[place] = offset

    def _of_copies(self) -> Iterator[Anomaly]:
        """Each record before the group's offset has one copy, and what is behind it has none."""
        copies = Counter(a.copy_of for one in self._history.transactions if self._is_there(one) for a in one.appends)
        ends = dict(self._history.offsets)
        for (place, offset), values in self._log[True].items():
            if place not in ends:
                continue
            where = f"of {sorted(values)} at {place}/{offset}, offset {ends[place]}"
            number, due = max(copies[value] for value in values), offset < ends[place]
            if due and number == 0:
                yield Anomaly(Kind.OFFSETS_WITHOUT_OUTPUTS, f"no copy {where}")
            elif number > 1:
                yield Anomaly(Kind.DOUBLED, f"{number} copies {where}")
            elif number > due:
                yield Anomaly(Kind.OUTPUTS_WITHOUT_OFFSETS, f"a copy {where}")

    def _of_spans(self) -> Iterator[Anomaly]:
        """The spans of the copies that are there follow each other, up to the group's offset."""
        ends = dict(self._history.offsets)
        spans: dict[Place, list[Span]] = defaultdict(list)
        for one in self._history.transactions:
            if self._is_there(one):
                for place, span in one.copied.items():
                    spans[place].append(span)
        for place in spans.keys() | ends.keys():
            reached = 0
            for span in sorted(spans[place]):
                if span.first < reached:
                    yield Anomaly(Kind.OUTPUTS_WITHOUT_OFFSETS, f"{place}: {span} was copied up to {reached} before")
                elif self._between(place, reached, span.first):
                    yield Anomaly(Kind.OFFSETS_WITHOUT_OUTPUTS, f"{place}: nothing from {reached} to {span.first}")
                reached = max(reached, span.last)
            if reached < ends.get(place, 0) and self._between(place, reached, ends[place]):
                yield Anomaly(Kind.OFFSETS_WITHOUT_OUTPUTS, f"{place}: copies up to {reached}, offset {ends[place]}")
            if reached > ends.get(place, 0):
                yield Anomaly(
                    Kind.OUTPUTS_WITHOUT_OFFSETS, f"{place}: copies up to {reached}, offset {ends.get(place)}"
                )

    def _between(self, place: Place, first: int, last: int) -> bool:
        """Whether readers of committed records are given something there: Kafka's markers take offsets, too."""
        return any((place, offset) in self._log[True] for offset in range(first, last))

    def _is_there(self, one: Transaction) -> bool:
        if one.outcome is Outcome.UNKNOWN:
            return any(self._is_read(append, committed=True) for append in one.appends)
        return one.outcome is Outcome.COMMITTED

    def _is_read(self, append: Append, *, committed: bool) -> bool:
        return any(place == append.place for place, _ in self._places[committed].get(append.value, ()))


def _log(readings: Iterator[Reading]) -> dict[tuple[Place, int], set[str]]:
    """What readers were given, by place and offset."""
    found: dict[tuple[Place, int], set[str]] = defaultdict(set)
    for reading in readings:
        for place, records, _ in reading.polls:
            for offset, value in records:
                found[place, offset].add(value)
    return dict(found)


def _places(log: Mapping[tuple[Place, int], set[str]]) -> dict[str, set[tuple[Place, int]]]:
    """Where each value is."""
    found: dict[str, set[tuple[Place, int]]] = defaultdict(set)
    for at, values in log.items():
        for value in values:
            found[value].add(at)
    return dict(found)


def summary(anomalies: Sequence[Anomaly], most: int = 3) -> str:
    """How many there are of each kind, and some of them."""
    kinds: dict[Kind, list[Anomaly]] = defaultdict(list)
    for one in anomalies:
        kinds[one.kind].append(one)
    return "\n".join(f"{len(found)} × {kind}: {[one.what for one in found[:most]]}" for kind, found in kinds.items())
