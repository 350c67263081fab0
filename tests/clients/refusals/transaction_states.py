"""Transactions: what each request is told in each state, by its epoch and in each version, and what it leads to.

A cell is run once in each version, each time by a new transactional id that was led into the state. What it is pinned
to reads `0-1 INVALID_PRODUCER_EPOCH | 2-3 PRODUCER_FENCED`: versions, the error, of NONE what became of the producer's
epoch where the answer tells it, and behind an arrow the state and epoch that came of it, where there came another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from tests.clients.refusals.case import World
from tests.clients.transactions.raw import RawProducer

Step = Callable[[RawProducer], str]


def steps(*wanted: Step) -> Callable[[RawProducer], None]:
    """One after the other, none of which may fail; then what Kafka does behind its answers is done."""

    def run(producer: RawProducer) -> None:
        for step in wanted:
            told = step(producer)
            assert told.startswith("NONE"), told
        producer.settled()

    return run


def first(producer: RawProducer) -> str:
    """The two InitProducerIds that all states begin with: epoch 1, so that there is an older one."""
    told = producer.init()
    return told if told != "NONE new id 0" else producer.init()


STATES: Final = {
    "none": steps(),
    "empty": steps(first),
    "named": steps(first, lambda p: p.init(named=True)),
    "open1": steps(first, lambda p: p.add(), lambda p: p.write()),
    "offsets1": steps(first, lambda p: p.add_group(), lambda p: p.commit_offset()),
    "open2": steps(first, lambda p: p.write(version=12)),
    "committed1": steps(first, lambda p: p.add(), lambda p: p.write(), lambda p: p.end(True)),
    "aborted1": steps(first, lambda p: p.add(), lambda p: p.write(), lambda p: p.end(False)),
    "committed2": steps(first, lambda p: p.write(version=12), lambda p: p.end(True, 5)),
    "aborted2": steps(first, lambda p: p.write(version=12), lambda p: p.end(False, 5)),
    "nothing2": steps(first, lambda p: p.end(False, 5)),
}
"""How a transactional id comes there. 1 and 2 are the protocols (KIP-98, KIP-890); `named`: an InitProducerId that
named the producer before; `offsets1`: with a group, and without a partition; `nothing2`: aborted without either."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request, in some versions."""

    versions: tuple[int, ...]
    ask: Callable[..., str]
    """Takes the producer, a version, and what `ASKERS` say."""


REQUESTS: Final = {
    "init": Question((0, 1, 2, 3, 4, 5), lambda p, v: p.init(v)),
    "init named": Question((3, 4, 5), lambda p, v, **by: p.init(v, named=True, **by)),
    "add": Question((0, 1, 2, 3), lambda p, v, **by: p.add(0, v, **by)),
    "add another": Question((0, 1, 2, 3), lambda p, v, **by: p.add(1, v, **by)),
    "add group": Question((0, 1, 2, 3, 4), lambda p, v, **by: p.add_group(v, **by)),
    "commit": Question((0, 1, 2, 3, 4, 5), lambda p, v, **by: p.end(True, v, **by)),
    "abort": Question((0, 1, 2, 3, 4, 5), lambda p, v, **by: p.end(False, v, **by)),
    "write": Question((3, 7, 10, 11, 12), lambda p, v, **by: p.write(0, v, **by)),
    "write to another": Question((3, 7, 10, 11, 12), lambda p, v, **by: p.write(1, v, **by)),
    "write plainly": Question((3, 7, 10, 11, 12), lambda p, v, **by: p.write(0, v, transactional=False, **by)),
    "commit offset": Question((0, 1, 2, 3, 4, 5), lambda p, v, **by: p.commit_offset(5, v, **by)),
}
ASKERS: Final[dict[str, dict[str, Any]]] = {
    "current": {},
    "older": {"epoch": -1},
    "newer": {"epoch": 1},
    "stranger": {"stranger": True},
}
"""Whose epoch or producer id a request has; `stranger`: another producer id."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A request in a state, by someone, and what it is told: a `Case` in several versions."""

    request: str
    state: str
    by: str
    kafka: str
    ours: str = ""
    why: str = ""

    @property
    def id(self) -> str:
        """Its name in a test run."""
        return f"{self.request} by {self.by}, {self.state}"

    def told(self, world: World) -> str:
        """What the server says."""
        question = REQUESTS[self.request]
        answers = [(version, self._in(world, version)) for version in question.versions]
        return " | ".join(_by_versions(answers))

    def _in(self, world: World, version: int) -> str:
        with RawProducer(world.address, world.topic) as producer:
            STATES[self.state](producer)
            before, epoch = producer.described(), producer.epoch
            told = REQUESTS[self.request].ask(producer, version, **ASKERS[self.by])
            after = producer.settled()
            if after.transaction_state == "Ongoing":
                producer.init()  # the next cells write to the same partitions
        if _seen(before) == _seen(after):
            return told
        change = after.producer_epoch - epoch if before.error_code == after.error_code else 0
        return f"{told} → {after.transaction_state}" + (f" {change:+d}" if change else "")


def _seen(described: Any) -> tuple[Any, ...]:
    return described.error_code, described.transaction_state, described.producer_epoch


def _by_versions(answers: Iterable[tuple[int, str]]) -> Iterator[str]:
    for told, same in groupby(answers, lambda answer: answer[1]):
        versions = [version for version, _ in same]
        yield (f"{versions[0]}-{versions[-1]}" if len(versions) > 1 else str(versions[0])) + f" {told}"


def cells(request: str, askers: str, states: str, kafka: str, ours: str = "", why: str = "") -> list[Cell]:
    """What is told alike to some, in some states."""
    return [Cell(request, state, by, kafka, ours, why) for by in askers.split() for state in states.split()]


OPEN = "open1 offsets1 open2"
IDLE = "empty named committed1 aborted1 committed2 aborted2 nothing2"
KNOWN = f"{OPEN} {IDLE}"
ALL = f"none {KNOWN}"


_CELLS = [
    *cells("init", "current", "none", "0-5 NONE new id 0 → Empty"),
    *cells("init", "current", IDLE, "0-5 NONE +1 → Empty +1"),
    *cells("init", "current", OPEN, "0-5 CONCURRENT_TRANSACTIONS → CompleteAbort +1"),
    #
    *cells("init named", "current older newer stranger", "none", "3-5 NONE new id 0 → Empty"),
    *cells("init named", "current", IDLE, "3-5 NONE +1 → Empty +1"),
    *cells("init named", "current older newer", OPEN, "3-5 CONCURRENT_TRANSACTIONS → CompleteAbort +1"),
    *cells("init named", "older", "empty committed1 aborted1", "3 INVALID_PRODUCER_EPOCH | 4-5 PRODUCER_FENCED"),
    *cells("init named", "older", "named", "3-5 NONE +0"),
    *cells("init named", "older", "committed2 aborted2 nothing2", "3-5 NONE +0 → Empty"),
    *cells("init named", "newer", IDLE, "3 INVALID_PRODUCER_EPOCH | 4-5 PRODUCER_FENCED"),
    *cells("init named", "stranger", KNOWN, "3 INVALID_PRODUCER_EPOCH | 4-5 PRODUCER_FENCED"),
    #
    *cells("add", "current older newer", "none", "0-3 INVALID_PRODUCER_ID_MAPPING"),
    *cells("add", "current", IDLE, "0-3 NONE → Ongoing"),
    *cells("add", "current", OPEN, "0-3 NONE"),
    *cells("add", "older newer", KNOWN, "0-1 INVALID_PRODUCER_EPOCH | 2-3 PRODUCER_FENCED"),
    *cells("add", "stranger", ALL, "0-3 INVALID_PRODUCER_ID_MAPPING"),
    #
    *cells("add another", "current older newer", "none", "0-3 INVALID_PRODUCER_ID_MAPPING"),
    *cells("add another", "current", IDLE, "0-3 NONE → Ongoing"),
    *cells("add another", "current", OPEN, "0-3 NONE"),
    *cells("add another", "older newer", KNOWN, "0-1 INVALID_PRODUCER_EPOCH | 2-3 PRODUCER_FENCED"),
    *cells("add another", "stranger", ALL, "0-3 INVALID_PRODUCER_ID_MAPPING"),
    #
    *cells("add group", "current older newer", "none", "0-4 INVALID_PRODUCER_ID_MAPPING"),
    *cells("add group", "current", IDLE, "0-4 NONE → Ongoing"),
    *cells("add group", "current", OPEN, "0-4 NONE"),
    *cells("add group", "older newer", KNOWN, "0-1 INVALID_PRODUCER_EPOCH | 2-4 PRODUCER_FENCED"),
    *cells("add group", "stranger", ALL, "0-4 INVALID_PRODUCER_ID_MAPPING"),
    #
    *cells("commit", "current older newer", "none", "0-5 INVALID_PRODUCER_ID_MAPPING"),
    *cells("commit", "current", "empty named aborted1 aborted2 nothing2", "0-5 INVALID_TXN_STATE"),
    *cells("commit", "current", OPEN, "0-4 NONE → CompleteCommit | 5 NONE +1 → CompleteCommit +1"),
    *cells("commit", "current", "committed1 committed2", "0-4 NONE | 5 INVALID_TXN_STATE"),
    *cells("commit", "older", "empty named open1 offsets1 open2", "0-1 INVALID_PRODUCER_EPOCH | 2-5 PRODUCER_FENCED"),
    *cells("commit", "older", "committed1 committed2", "0-1 INVALID_PRODUCER_EPOCH | 2-4 PRODUCER_FENCED | 5 NONE +0"),
    *cells("commit", "older", "aborted1 aborted2 nothing2",
           "0-1 INVALID_PRODUCER_EPOCH | 2-4 PRODUCER_FENCED | 5 INVALID_TXN_STATE"),
    *cells("commit", "newer", KNOWN, "0-1 INVALID_PRODUCER_EPOCH | 2-5 PRODUCER_FENCED"),
    *cells("commit", "stranger", ALL, "0-5 INVALID_PRODUCER_ID_MAPPING"),
    #
    *cells("abort", "current older newer", "none", "0-5 INVALID_PRODUCER_ID_MAPPING"),
    *cells("abort", "current", "empty named committed1 committed2",
           "0-4 INVALID_TXN_STATE | 5 NONE +1 → CompleteAbort +1"),
    *cells("abort", "current", OPEN, "0-4 NONE → CompleteAbort | 5 NONE +1 → CompleteAbort +1"),
    *cells("abort", "current", "aborted1 aborted2 nothing2", "0-4 NONE | 5 NONE +1 → CompleteAbort +1"),
    *cells("abort", "older", "empty named open1 offsets1 open2", "0-1 INVALID_PRODUCER_EPOCH | 2-5 PRODUCER_FENCED"),
    *cells("abort", "older", "committed1 committed2",
           "0-1 INVALID_PRODUCER_EPOCH | 2-4 PRODUCER_FENCED | 5 INVALID_TXN_STATE"),
    *cells("abort", "older", "aborted1 aborted2 nothing2",
           "0-1 INVALID_PRODUCER_EPOCH | 2-4 PRODUCER_FENCED | 5 NONE +0"),
    *cells("abort", "newer", KNOWN, "0-1 INVALID_PRODUCER_EPOCH | 2-5 PRODUCER_FENCED"),
    *cells("abort", "stranger", ALL, "0-5 INVALID_PRODUCER_ID_MAPPING"),
    #
    *cells("write", "current older newer", "none", "3-12 INVALID_PRODUCER_ID_MAPPING"),
    *cells("write", "current", IDLE, "3-10 INVALID_TXN_STATE | 11 TRANSACTION_ABORTABLE | 12 NONE → Ongoing"),
    *cells("write", "current", "open1 open2", "3-12 NONE"),
    *cells("write", "current", "offsets1", "3-10 INVALID_TXN_STATE | 11 TRANSACTION_ABORTABLE | 12 NONE"),
    *cells("write", "older newer", KNOWN, "3-12 INVALID_PRODUCER_EPOCH"),
    *cells("write", "stranger", ALL, "3-12 INVALID_PRODUCER_ID_MAPPING"),
    #
    *cells("write to another", "current older newer", "none", "3-12 INVALID_PRODUCER_ID_MAPPING"),
    *cells("write to another", "current", IDLE,
           "3-10 INVALID_TXN_STATE | 11 TRANSACTION_ABORTABLE | 12 NONE → Ongoing"),
    *cells("write to another", "current", OPEN, "3-10 INVALID_TXN_STATE | 11 TRANSACTION_ABORTABLE | 12 NONE"),
    *cells("write to another", "older newer", KNOWN, "3-12 INVALID_PRODUCER_EPOCH"),
    *cells("write to another", "stranger", ALL, "3-12 INVALID_PRODUCER_ID_MAPPING"),
    #
    *cells("write plainly", "current newer", "empty named offsets1 committed1 aborted1 committed2 aborted2 nothing2",
           "3-12 NONE"),
    *cells("write plainly", "current newer", "open1 open2", "3-12 INVALID_TXN_STATE"),
    *cells("write plainly", "older", "empty named offsets1 nothing2", "3-12 NONE"),
    *cells("write plainly", "older", "open1 open2 committed1 aborted1 committed2 aborted2",
           "3-12 INVALID_PRODUCER_EPOCH"),
    *cells("write plainly", "stranger", KNOWN, "3-12 NONE"),
    #
    *cells("commit offset", "current older newer", "none", "0-5 INVALID_PRODUCER_ID_MAPPING"),
    *cells("commit offset", "current", IDLE, "0-3 INVALID_TXN_STATE | 4 TRANSACTION_ABORTABLE | 5 NONE → Ongoing"),
    *cells("commit offset", "current", "open1 open2", "0-3 INVALID_TXN_STATE | 4 TRANSACTION_ABORTABLE | 5 NONE"),
    *cells("commit offset", "current", "offsets1", "0-5 NONE"),
    *cells("commit offset", "older newer", KNOWN, "0-5 INVALID_PRODUCER_EPOCH"),
    *cells("commit offset", "stranger", ALL, "0-5 INVALID_PRODUCER_ID_MAPPING"),
]  # fmt: skip


_ONE_ENTRY = "what is open is aborted in the same step: there are no markers to wait for"
_EPOCH_FIRST = "the epoch is checked first: a stale one aborts nothing"
_PROTOCOL = "a client changes the protocol with a new epoch"
_ENDED = "what ended under one protocol is not repeated under the other"
_NOT_ADDED = "3-10 INVALID_TXN_STATE | 11-12 TRANSACTION_ABORTABLE"
_NO_MARKERS = "no marker tells the partition of the new epoch"

DIFFERENCES = (
    (
        "init named by (older|newer), (open1|offsets1|open2)",
        "3 INVALID_PRODUCER_EPOCH | 4-5 PRODUCER_FENCED",
        _EPOCH_FIRST,
    ),
    ("init by current, (open1|offsets1|open2)", "0-5 NONE +1 → Empty +1", _ONE_ENTRY),
    ("init named by current, (open1|offsets1|open2)", "3-5 NONE +1 → Empty +1", _ONE_ENTRY),
    ("init named by older, (committed2|aborted2|nothing2)", "3-5 NONE +0", "a repetition changes nothing"),
    (
        "write( to another)? by current, (committed1|aborted1)",
        "3-10 INVALID_TXN_STATE | 11-12 TRANSACTION_ABORTABLE",
        _PROTOCOL,
    ),
    ("write by current, offsets1", _NOT_ADDED, _PROTOCOL),
    (
        "write to another by current, (open1|offsets1)",
        "3-10 INVALID_TXN_STATE | 11-12 TRANSACTION_ABORTABLE",
        _PROTOCOL,
    ),
    ("add( another)? by current, open2", "0-3 INVALID_TXN_STATE", _PROTOCOL),
    ("add group by current, open2", "0-4 INVALID_TXN_STATE", _PROTOCOL),
    ("commit by older, (committed1|aborted1)", "0-1 INVALID_PRODUCER_EPOCH | 2-5 PRODUCER_FENCED", _ENDED),
    ("abort by older, (committed1|aborted1)", "0-1 INVALID_PRODUCER_EPOCH | 2-5 PRODUCER_FENCED", _ENDED),
    ("abort by current, (aborted2|nothing2)", "0-4 INVALID_TXN_STATE | 5 NONE +1 → CompleteAbort +1", _ENDED),
    ("abort by current, open2", "0-4 INVALID_TXN_STATE | 5 NONE +1 → CompleteAbort +1", _PROTOCOL),
    ("commit by current, open2", "0-4 INVALID_TXN_STATE | 5 NONE +1 → CompleteCommit +1", _PROTOCOL),
    ("commit by current, committed2", "0-5 INVALID_TXN_STATE", _ENDED),
    ("write plainly by older, (committed2|aborted2)", "3-12 NONE", _NO_MARKERS),
    ("commit offset by current, (committed1|aborted1)", "0-3 INVALID_TXN_STATE | 4-5 TRANSACTION_ABORTABLE", _PROTOCOL),
    ("commit offset by current, open1", "0-3 INVALID_TXN_STATE | 4-5 TRANSACTION_ABORTABLE", _PROTOCOL),
)
"""Of cells, as regular expressions of their ids: what the bridge says, and why."""


def _with_ours(cell: Cell) -> Cell:
    for ids, ours, why in DIFFERENCES:
        if re.fullmatch(ids, cell.id):
            return replace(cell, ours=ours, why=why)
    return cell


CASES = [_with_ours(cell) for cell in _CELLS]
