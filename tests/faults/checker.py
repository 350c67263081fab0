"""A log checker: writers of unique values, a reader that follows them through faults, and a verdict on the log.

What it demands of every partition, whatever happened meanwhile:

* **A, C** each acknowledged record stands exactly at the offset that its writer was told;
* **C** an offset has one value, for the reader that followed and for one that reads everything cold at the end;
* **O** a writer's records stand in the order in which it sent them (of a record stored twice, the first counts);
* **D** what is stored twice is counted; the test says how many there may be;
* **C** offsets are dense, except where the test shows that a ledger begins: sends that a crash or an unload ended there
  without an acknowledgement may have taken an index and no entry (Pulsar keeps its counter in the ledgers' list);
* a look-up by time finds the first record at or after that time, however late some were stored;
* each record comes to the reader that follows although no other comes after it;
* the clients are never restarted, and none of them meets an error that it must give up on.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.clients import (
    ConfluentWriter,
    Follower,
    KafkaPythonWriter,
    Server,
    Writer,
    offsets_for_times,
    read_cold,
    words,
)
from tests.faults.processes import let_pass

TIMEOUT_SECONDS = 60.0
_SOON = 20.0  # seconds, half of what the reader's fetches wait
_LOOK_EVERY = 0.02
_LONE = 6
_LOOK_UPS = 30


class Duplicate(NamedTuple):
    """A record that is stored more than once."""

    value: bytes
    places: list[tuple[int, int]]
    """Partitions and offsets."""

    def __str__(self) -> str:
        return f"{self.value!r} at {', '.join(f'{partition}/{offset}' for partition, offset in self.places)}"


@dataclass
class Verdict:
    """What became of the records."""

    acked: int = 0
    stored: int = 0
    lost: list[str] = field(default_factory=list)
    disorder: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    mistimed: list[str] = field(default_factory=list)
    duplicates: int = 0
    duplicates_idempotent: list[Duplicate] = field(default_factory=list)
    """Of idempotent writers."""
    gaps: list[tuple[int, int, int]] = field(default_factory=list)
    """(partition, first missing offset, how many)."""
    refused: list[str] = field(default_factory=list)
    slowest_ack: float = 0.0

    def check(
        self, *, duplicates: bool = False, gap_ends: Collection[tuple[int, int]] = (), refused: bool = False
    ) -> Verdict:
        """Fail unless everything held; what may have happened is named, of gaps the (partition, offset) behind them."""
        wrong: list[str] = [*self.lost[:5], *self.disorder[:5], *self.conflicts[:5], *self.mistimed[:5]]
        if self.duplicates and not duplicates:
            wrong.append(f"{self.duplicates} duplicates")
        gaps = [gap for gap in self.gaps if (gap[0], gap[1] + gap[2]) not in gap_ends]
        if gaps:
            wrong.append(f"gaps (partition, offset, count): {gaps[:5]}")
        if self.refused and not refused:
            wrong += self.refused[:5]
        assert not wrong, "\n".join([str(self), *wrong])
        assert self.acked, "nothing was written"
        return self

    def __str__(self) -> str:
        idempotent = ", ".join(map(str, self.duplicates_idempotent[:5]))
        return (
            f"{self.acked} acked, {self.stored} stored, {len(self.lost)} lost or misplaced, {len(self.disorder)} out "
            f"of order, {len(self.conflicts)} conflicts, {self.duplicates} duplicates (of idempotent writers "
            f"{idempotent or 0}), gaps {self.gaps}, {len(self.refused)} refused, "
            f"slowest ack {self.slowest_ack:.2f} s"
        )


MakeWriters = Callable[[str, int, threading.Condition], list[Writer]]
"""Makes the writers to a topic of so many partitions; they notify the condition."""


def usual_writers(bootstrap: str, *, idempotent: bool) -> MakeWriters:
    """librdkafka and kafka-python. `idempotent`: no others."""

    def made(topic: str, partitions: int, changed: threading.Condition) -> list[Writer]:
        writers: list[Writer] = [
            ConfluentWriter("i", bootstrap, topic, partitions, changed, idempotent=True),
            KafkaPythonWriter("k", bootstrap, topic, partitions, changed),
        ]
        if not idempotent:
            writers.append(ConfluentWriter("c", bootstrap, topic, partitions, changed, idempotent=False))
        return writers

    return made


class Load:
    """Writers and a follower at work on one topic."""

    def __init__(self, server: Server, topic: str, partitions: int, writers: MakeWriters) -> None:
        self.topic = topic
        self.partitions = partitions
        self._server = server
        self.changed = threading.Condition()
        self.writers = writers(topic, partitions, self.changed)
        self.follower = Follower(server, topic, partitions, self.changed)
        self.look_ups = _LOOK_UPS
        """How many at the end."""

    def start(self) -> None:
        """Create the topic, write and read."""
        admin = AdminClient(words(self._server))
        admin.create_topics([NewTopic(self.topic, self.partitions, 1)])[self.topic].result(30)
        self.follower.start()
        for writer in self.writers:
            writer.start()

    def until(self, what: str, condition: Callable[[], bool], seconds: float = TIMEOUT_SECONDS) -> None:
        """Wait for a condition on what the clients have seen.

        It is looked at from time to time: at every record, it would cost more than the clients.
        """
        deadline = time.monotonic() + seconds
        held = False
        while not held and not self._broken() and time.monotonic() < deadline:
            with self.changed:
                held = condition()
            if not held:
                let_pass(_LOOK_EVERY)
        assert not self._broken(), f"a client gave up while waiting for {what}: {self._broken()}"
        assert held, f"{what}: not within {seconds} s; {self.progress()}"

    def progress(self) -> str:
        """Where all clients are."""
        wrote = ", ".join(f"{w.name} {len(w.acks)}/{w.sent} {w.errors[:1] + w.errors[-1:]}" for w in self.writers)
        return f"acked/sent: {wrote}; read: {self.follower.count()} {self.follower.errors[-1:]}"

    def more(self, count: int, seconds: float = TIMEOUT_SECONDS) -> None:
        """Wait until every writer has so many more acknowledgements and the reader has read as many more."""
        marks = [len(writer.acks) + count for writer in self.writers]
        read = self.follower.count() + count * len(self.writers)
        self.until(
            f"{count} more records of each writer",
            lambda: (
                all(len(w.acks) >= mark for w, mark in zip(self.writers, marks, strict=True))
                and self.follower.count() >= read
            ),
            seconds,
        )

    def recovery(self, seconds: float = TIMEOUT_SECONDS) -> float:
        """Seconds until each writer has an ack, from every partition, for a record *sent* from now on."""
        started = time.monotonic()
        writers = [writer for writer in self.writers if not writer.stopped]
        wanted = {(w.name, p) for w in writers for p in range(self.partitions)}
        self.until("recovery", lambda: wanted <= {k for w in writers for k in w.fresh(started)}, seconds)
        first = max(min(w.fresh(started).values()) for w in writers)
        reached = max(max(w.fresh(started).values()) for w in writers)
        self.until("the reader's recovery", lambda: self.follower.reached(reached) >= started, seconds)
        return first - started

    def stop(self) -> Verdict:
        """Stop writing, let everything arrive, read all again cold, and judge."""
        for writer in self.writers:
            writer.finish()
        for writer in self.writers:
            writer.join(TIMEOUT_SECONDS)
            assert not writer.is_alive(), f"writer {writer.name} does not come to its end: {self.progress()}"
        last = self._last(self.writers)
        self.until(
            "the reader to see the end",
            lambda: all(self.follower.next[p] > last[p] for p in range(self.partitions)),
        )
        lone = self._one_by_one()
        self.follower.finish()
        cold = read_cold(self._server, self.topic, self._last([*self.writers, lone]))
        verdict = judge([*self.writers, lone], self.follower, [one.records for one in cold], self.partitions)
        verdict.mistimed = self._look_up([one.times for one in cold])
        return verdict

    def _last(self, writers: Iterable[Writer]) -> list[int]:
        """The last offset of each partition that was acknowledged."""
        acks = [ack for writer in writers for ack in writer.acks]
        return [max((offset for where, offset, _ in acks if where == p), default=-1) for p in range(self.partitions)]

    def _one_by_one(self) -> Writer:
        """Write single records, each read before the next is sent: nothing else wakes the reader."""
        lone = ConfluentWriter("l", self._server, self.topic, self.partitions, self.changed, idempotent=True)
        try:
            for number in range(_LONE):
                where = number % self.partitions
                value = b"l:%d" % number
                lone.send(where, value, time.monotonic())
                until = time.monotonic() + TIMEOUT_SECONDS
                while len(lone.acks) <= number:
                    assert time.monotonic() < until, f"a lone record is not acknowledged: {lone.errors}"
                    lone.serve(0.02)
                _, offset, _ = lone.acks[-1]
                self.until("a lone record at the reader", partial(self.follower.has, where, offset), _SOON)
        finally:
            lone.close()
        return lone

    def _look_up(self, times: list[dict[int, int]]) -> list[str]:
        """Ask for times all over the log; where the answer is not the first record at or after them."""
        wrong = []
        shares = [number / (self.look_ups - 1) for number in range(self.look_ups)]
        asked = [[_sample(each, share) for each in times] for share in shares]
        for wanted, found in zip(asked, offsets_for_times(self._server, self.topic, asked), strict=True):
            for partition, (time_ms, offset) in enumerate(zip(wanted, found, strict=True)):
                first = min(at for at, stored in times[partition].items() if stored >= time_ms)
                if offset != first:
                    wrong.append(
                        f"{partition}: the first record at or after {time_ms} is at {first}, told was {offset}"
                    )
        return wrong

    def abandon(self) -> None:
        """Let every thread end, whatever state it is in."""
        for writer in self.writers:
            writer.give_up()
        self.follower.finish()

    def _broken(self) -> list[str]:
        ends = [(one.name, one.fatal) for one in self.writers] + [(self.follower.name, self.follower.fatal)]
        return [f"{name}: {fatal}" for name, fatal in ends if fatal]


@contextmanager
def load(bootstrap: str, topic: str, partitions: int = 3, *, idempotent: bool = False) -> Iterator[Load]:
    """A load of the usual clients that is under way. `idempotent`: no other writers."""
    with under_way(Load(bootstrap, topic, partitions, usual_writers(bootstrap, idempotent=idempotent))) as running:
        yield running


@contextmanager
def under_way(running: Load) -> Iterator[Load]:
    """Each writer has acknowledgements, and they are read."""
    try:
        running.start()
        running.more(30)
        yield running
    finally:
        running.abandon()


def _sample(times: dict[int, int], share: float) -> int:
    """A timestamp from so far into the log."""
    offsets = sorted(times)
    return times[offsets[round(share * (len(offsets) - 1))]]


def judge(writers: Iterable[Writer], follower: Follower, cold: list[dict[int, bytes]], partitions: int) -> Verdict:
    """Compare what was acknowledged with what was read."""
    writers = list(writers)
    verdict = Verdict(conflicts=list(follower.conflicts))
    followed = follower.records
    for partition in range(partitions):
        _judge_partition(partition, followed[partition], cold[partition], verdict)
    for writer in writers:
        verdict.acked += len(writer.acks)
        verdict.refused += [f"{writer.name}: {error}" for error in writer.errors]
        verdict.slowest_ack = max(verdict.slowest_ack, writer.slowest)
        for where, offset, value in writer.acks:
            found = followed[where].get(offset)
            if found != value:
                verdict.lost.append(f"{value!r} acked at {where}/{offset}, where there is {found!r}")
    _judge_duplicates(followed, writers, verdict)
    return verdict


def _judge_partition(number: int, followed: dict[int, bytes], cold: dict[int, bytes], verdict: Verdict) -> None:
    verdict.stored += len(followed)
    for offset, value in cold.items():
        # what came after the follower ended was not acknowledged to any client
        if followed.get(offset, value) != value:
            verdict.conflicts.append(f"{number}/{offset} was {followed[offset]!r} and is {value!r}")
    if set(followed) - set(cold):
        verdict.conflicts.append(f"{number}: read once and gone: {sorted(set(followed) - set(cold))[:5]}")
    expected = 0
    newest: dict[bytes, int] = {}
    seen: set[bytes] = set()
    for offset in sorted(followed):
        if offset != expected:
            verdict.gaps.append((number, expected, offset - expected))
        expected = offset + 1
        value = followed[offset]
        if value in seen:
            continue
        seen.add(value)
        writer, _, count = value.partition(b":")
        if int(count) <= newest.get(writer, -1):
            verdict.disorder.append(f"{value!r} at {number}/{offset} comes after {writer!r}:{newest[writer]}")
        newest[writer] = int(count)


def _judge_duplicates(followed: list[dict[int, bytes]], writers: list[Writer], verdict: Verdict) -> None:
    counts = Counter(value for partition in followed for value in partition.values())
    idempotent = {writer.name.encode() for writer in writers if writer.idempotent}
    for value, count in counts.items():
        verdict.duplicates += count - 1
        if count > 1 and value.partition(b":")[0] in idempotent:
            places = [
                (number, offset)
                for number, partition in enumerate(followed)
                for offset, stored in partition.items()
                if stored == value
            ]
            verdict.duplicates_idempotent.append(Duplicate(value, places))
