"""The checker of transactions finds each kind of fault, and none where there is none."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import pytest

from tests.faults.transactions_checker import (
    Append,
    History,
    Kind,
    Outcome,
    Place,
    Poll,
    Reading,
    Span,
    Transaction,
    check,
)

PARTITIONS = 3
SOURCE = [("source", partition) for partition in range(PARTITIONS)]
SEEDS = range(30)
PLANTED = range(5)


@dataclass
class Entry:
    """A record of the model's log; None: a marker, which takes an offset."""

    append: Append | None
    number: int | None = None
    """Of its transaction; None: of none."""


@dataclass
class Model:
    """A server with transactions, and what its clients are told: right by construction."""

    choices: random.Random
    logs: dict[Place, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    ended: dict[int, bool] = field(default_factory=dict)
    """Whether a transaction was committed, by its number."""
    open: dict[str, int] = field(default_factory=dict)
    transactions: list[Transaction] = field(default_factory=list)
    plain: list[Append] = field(default_factory=list)
    offsets: dict[Place, int] = field(default_factory=lambda: dict.fromkeys(SOURCE, 0))
    told: list[tuple[Place, int]] = field(default_factory=list)
    polls: dict[tuple[str, bool], list[Poll]] = field(default_factory=lambda: defaultdict(list))
    positions: dict[tuple[str, Place], int] = field(default_factory=lambda: defaultdict(int))
    values: int = 0

    def value(self) -> str:
        self.values += 1
        return f"v{self.values}"

    def append(self, producer: str, append: Append) -> None:
        """Begin a transaction with it, or go on with one."""
        if producer not in self.open:
            self.open[producer] = len(self.transactions)
            self.transactions.append(Transaction(producer, Outcome.UNKNOWN, ()))
        number = self.open[producer]
        one = self.transactions[number]
        self.transactions[number] = replace(one, appends=(*one.appends, append))
        self.logs[append.place].append(Entry(append, number))

    def end(self, producer: str) -> None:
        """End its transaction; now and then nobody is told how."""
        number = self.open.pop(producer, None)
        if number is None:
            return
        committed = self.choices.random() < 0.6
        self.ended[number] = committed
        outcome = Outcome.COMMITTED if committed else Outcome.ABORTED
        one = self.transactions[number]
        if self.choices.random() < 0.8:
            self.transactions[number] = replace(one, outcome=outcome)
        for place in {append.place for append in one.appends}:
            self.logs[place].append(Entry(None))
        if committed:
            for place, span in one.copied.items():
                self.offsets[place] = span.last
                self.told.append((place, span.last))

    def copy(self, copier: str) -> None:
        """Copy what is committed of a source behind the group's offset; nobody else does until it has ended."""
        place = self.choices.choice(SOURCE)
        first, end = self.offsets[place], self.stable(place)
        last = min(end, first + self.choices.randint(1, 4))
        found = self.visible(place, first, last, committed=True)
        if not found:
            return
        for _, value in found:
            self.append(copier, Append(("target", place[1]), f"{value}>{self.value()}", value))
        number = self.open[copier]
        self.transactions[number] = replace(self.transactions[number], copied={place: Span(first, last)})
        self.end(copier)

    def stable(self, place: Place) -> int:
        """The last stable offset."""
        still = [at for at, entry in enumerate(self.logs[place]) if entry.number in self.open.values()]
        return min(still, default=len(self.logs[place]))

    def visible(self, place: Place, first: int, last: int, *, committed: bool) -> list[tuple[int, str]]:
        found = []
        for offset in range(first, last):
            entry = self.logs[place][offset]
            shown = not committed or entry.number is None or self.ended[entry.number]
            if entry.append is not None and shown:
                found.append((offset, entry.append.value))
        return found

    def poll(self, name: str, committed: bool, place: Place, most: int) -> None:
        first = self.positions[name, place]
        end = self.stable(place) if committed else len(self.logs[place])
        last = min(first + most, end)
        records = self.visible(place, first, last, committed=committed)
        self.positions[name, place] = last
        self.polls[name, committed].append(Poll(place, tuple(records), last))

    def step(self) -> None:
        """Something happens."""
        producer = self.choices.choice(["p1", "p2", "p3"])
        what = self.choices.random()
        if what < 0.4:
            self.append(producer, Append(self.choices.choice(SOURCE), self.value()))
        elif what < 0.55:
            self.end(producer)
        elif what < 0.65:
            append = Append(self.choices.choice(SOURCE), self.value())
            self.plain.append(append)
            self.logs[append.place].append(Entry(append))
        elif what < 0.75:
            self.copy(self.choices.choice(["c1", "c2"]))
        else:
            name, committed = self.choices.choice(READERS)
            self.poll(name, committed, self.choices.choice(self.places), self.choices.randint(1, 5))

    @property
    def places(self) -> list[Place]:
        return SOURCE + [("target", partition) for partition in range(PARTITIONS)]

    def finish(self) -> History:
        """End all, and let everybody read to the end."""
        for producer in list(self.open):
            self.end(producer)
        for name, committed in READERS:
            for place in self.places:
                self.poll(name, committed, place, len(self.logs[place]))
        readings = tuple(Reading(name, level, tuple(polls)) for (name, level), polls in self.polls.items())
        return History(tuple(self.transactions), readings, tuple(self.plain), tuple(self.told))


READERS = [("r1", True), ("r2", True), ("u1", False), ("u2", False)]


@cache
def history(seed: int, steps: int = 400) -> History:
    """A clean one."""
    model = Model(random.Random(seed))
    for _ in range(steps):
        model.step()
    return model.finish()


def kinds(found: History) -> set[Kind]:
    return {anomaly.kind for anomaly in check(found)}


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_wrong_with_what_is_right(seed: int) -> None:
    assert check(history(seed)) == []


def test_a_history_has_something_of_everything() -> None:
    found = history(0)
    outcomes = {(one.outcome, bool(one.copied)) for one in found.transactions}
    assert outcomes == {(outcome, copies) for outcome in Outcome for copies in (True, False)}
    assert found.plain
    assert found.offsets
    assert {reading.committed for reading in found.readings} == {True, False}


Records = tuple[tuple[int, str], ...]


def with_records(
    found: History, change: Callable[[Place, Records], Records], *, only: str = "", committed: bool | None = None
) -> History:
    """Every poll changed, or those of one reader or level; a poll that has other records ends behind them."""
    readings = []
    for reading in found.readings:
        hit = reading.name == only if only else committed in (None, reading.committed)
        polls = [poll._replace(records=change(poll.place, poll.records)) for poll in reading.polls]
        readings.append(replace(reading, polls=tuple(polls)) if hit else reading)
    return replace(found, readings=tuple(readings))


def without(*values: str) -> Callable[[Place, Records], Records]:
    return lambda _, records: tuple(one for one in records if one[1] not in values)


def instead(values: dict[str, str]) -> Callable[[Place, Records], Records]:
    return lambda _, records: tuple((offset, values.get(value, value)) for offset, value in records)


def of(found: History, outcome: Outcome, *, visible: bool = True, least: int = 1, copies: bool = False) -> Transaction:
    """One that ended so, with so many records, whether they are there or not."""
    shown = {value for one in found.readings if one.committed for poll in one.polls for _, value in poll.records}
    return next(
        one
        for one in found.transactions
        if one.outcome is outcome
        and len(one.appends) >= least
        and bool(one.copied) is copies
        and (one.appends[0].value in shown) is visible
    )


def at_the_end(found: History, append: Append) -> History:
    """A record more, which every reader is given last."""
    readings = []
    for reading in found.readings:
        position = max(poll.position for poll in reading.polls if poll.place == append.place)
        more = Poll(append.place, ((position, append.value),), position + 1)
        readings.append(replace(reading, polls=(*reading.polls, more)))
    return replace(found, readings=tuple(readings))


def lost(found: History) -> History:
    values = [append.value for append in of(found, Outcome.COMMITTED).appends]
    return with_records(found, without(*values), committed=True)


def lost_to_all(found: History) -> History:
    return with_records(found, without(of(found, Outcome.COMMITTED).appends[0].value))


def lost_plain(found: History) -> History:
    return with_records(found, without(found.plain[3].value))


def aborted_visible(found: History) -> History:
    return at_the_end(found, of(found, Outcome.ABORTED, visible=False).appends[0])


def torn(found: History) -> History:
    value = of(found, Outcome.COMMITTED, least=2).appends[-1].value
    return with_records(found, without(value), committed=True)


def torn_unknown(found: History) -> History:
    return with_records(found, without(of(found, Outcome.UNKNOWN, least=2).appends[-1].value), committed=True)


def torn_by_an_unknown_abort(found: History) -> History:
    return at_the_end(found, of(found, Outcome.UNKNOWN, visible=False, least=2).appends[0])


def doubled(found: History) -> History:
    return at_the_end(found, of(found, Outcome.COMMITTED).appends[0])


def reordered(found: History) -> History:
    """Two records of one producer change places."""
    pairs = defaultdict(list)
    for one in found.transactions:
        if one.outcome is Outcome.COMMITTED and not one.copied:
            for append in one.appends:
                pairs[one.producer, append.place].append(append.value)
    first, second = next(values[:2] for values in pairs.values() if len(values) > 1)
    return with_records(found, instead({first: second, second: first}))


def conflicting(found: History) -> History:
    first, second = (append.value for append in found.plain[:2])
    return with_records(found, instead({first: second}), only="r1")


def unknown_value(found: History) -> History:
    return at_the_end(found, Append(SOURCE[0], "of nobody"))


def read_again(found: History) -> History:
    """A reader is given a poll's records once more."""

    def twice(reading: Reading) -> Reading:
        at = next(number for number, poll in enumerate(reading.polls) if poll.records)
        return replace(reading, polls=(*reading.polls[: at + 1], *reading.polls[at:]))

    return replace(found, readings=tuple(twice(one) if one.name == "r2" else one for one in found.readings))


def position_back(found: History) -> History:
    def back(reading: Reading) -> Reading:
        return replace(reading, polls=(*reading.polls, reading.polls[-1]._replace(records=(), position=0)))

    return replace(found, readings=tuple(back(one) if one.name == "r2" else one for one in found.readings))


def skipped(found: History) -> History:
    return with_records(found, without(of(found, Outcome.COMMITTED).appends[0].value), only="r1")


def skipped_by_a_reader_of_all(found: History) -> History:
    return with_records(found, without(of(found, Outcome.ABORTED, visible=False).appends[0].value), only="u2")


def offsets_back(found: History) -> History:
    place, _ = found.offsets[-1]
    return replace(found, offsets=(*found.offsets, (place, 0)))


def offset_of_an_abort(found: History) -> History:
    """A copier's transaction was aborted, and its offset counts: what it read is copied by nobody."""
    one = of(found, Outcome.COMMITTED, copies=True)
    there = tuple(replace(other, outcome=Outcome.ABORTED) if other is one else other for other in found.transactions)
    changed = replace(found, transactions=there)
    return with_records(changed, without(*(append.value for append in one.appends)), committed=True)


def offset_that_is_lost(found: History) -> History:
    """The last offset of a partition is not there."""
    place, _ = found.offsets[-1]
    before = [offset for at, offset in found.offsets[:-1] if at == place]
    kept = tuple(one for one in found.offsets if one[0] != place)
    return replace(found, offsets=(*kept, (place, before[-1])))


def copied_again(found: History) -> History:
    """Another copier copies what was copied, for its offset was lost meanwhile."""
    one = of(found, Outcome.COMMITTED, copies=True)
    again = tuple(append._replace(value=f"{append.value} again") for append in one.appends)
    changed = replace(found, transactions=(*found.transactions, replace(one, producer="c3", appends=again)))
    for append in again:
        changed = at_the_end(changed, append)
    return changed


FAULTS: list[tuple[Callable[[History], History], Kind]] = [
    (lost, Kind.LOST),
    (lost_to_all, Kind.LOST),
    (lost_plain, Kind.LOST),
    (aborted_visible, Kind.ABORTED_VISIBLE),
    (torn, Kind.TORN),
    (torn_unknown, Kind.TORN),
    (torn_by_an_unknown_abort, Kind.TORN),
    (doubled, Kind.DOUBLED),
    (copied_again, Kind.DOUBLED),
    (reordered, Kind.REORDERED),
    (conflicting, Kind.CONFLICT),
    (unknown_value, Kind.UNKNOWN_VALUE),
    (read_again, Kind.NON_MONOTONIC),
    (position_back, Kind.NON_MONOTONIC),
    (skipped, Kind.SKIPPED),
    (skipped_by_a_reader_of_all, Kind.SKIPPED),
    (offsets_back, Kind.OFFSETS_BACK),
    (offset_of_an_abort, Kind.OFFSETS_WITHOUT_OUTPUTS),
    (offset_that_is_lost, Kind.OUTPUTS_WITHOUT_OFFSETS),
    (copied_again, Kind.OUTPUTS_WITHOUT_OFFSETS),
]


@pytest.mark.parametrize(("plant", "kind"), FAULTS, ids=[f"{plant.__name__}: {kind.name}" for plant, kind in FAULTS])
@pytest.mark.parametrize("seed", PLANTED)
def test_what_is_wrong_is_found(plant: Callable[[History], History], kind: Kind, seed: int) -> None:
    assert kind in kinds(plant(history(seed, 1500)))


def test_every_kind_is_planted() -> None:
    assert {kind for _, kind in FAULTS} == set(Kind)
