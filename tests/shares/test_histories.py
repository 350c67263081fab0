"""Random histories of a share partition: members, lost writes, locks that run out, leaders that follow each other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from bridge.errors import KafkaError
from bridge.groups.share.state_records import ShareState, ShareWrite, led_by, written
from bridge.shares.state import (
    ACCEPT,
    ACQUIRED,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    Acquired,
    Limits,
    SharePartition,
    Snapshot,
    Span,
)
from tests.support import effort

_MEMBERS = ("a", "b", "c")
_MOST = 5


class _History:
    """A log, the coordinator's record, a leader that may be followed by another, and what its clients saw."""

    def __init__(self, seed: int, *, fenced: bool = True, machine: type[SharePartition] = SharePartition) -> None:
        self.random = random.Random(seed)
        self.fenced = fenced
        self.machine = machine
        self.limits = Limits(self.random.randint(2, 6), self.random.randint(3, 40), 30.0)
        self.now = 0.0
        self.log = list[Span]()
        self.records = set[int]()
        self.stored = ShareState(0, start=0)
        self.leaders = list[_Leader]()
        self.done = set[int]()
        """What was answered NONE, as accepted or rejected."""
        self.holder = dict[tuple[int, int], tuple[str, float]]()
        """Who has an offset, by the leader's epoch, and until when."""
        self.delivered = set[int]()
        end = 0
        for _ in range(self.random.randint(1, 12)):
            end += self.random.choice((0, 0, 0, 2))
            size = self.random.randint(1, 8)
            self.log.append((end, end + size - 1))
            self.records.update(range(end, end + size))
            end += size
        self.end = end
        self.lead()

    def lead(self) -> None:
        """The next leader reads."""
        self.stored = led_by(self.stored, len(self.leaders))
        self.leaders.append(_Leader(self, len(self.leaders), self.stored))

    def write(self, write: ShareWrite) -> bool:
        try:
            fenced = (
                write if self.fenced else write._replace(leader_epoch=self.stored.leader_epoch, q=self.stored.q + 1)
            )
            self.stored = written(self.stored, fenced)
        except KafkaError:
            return False
        return True

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.now += self.random.choice((0.0, 0.5, 1.0, 20.0))
            if self.random.random() < 0.04 and len(self.leaders) < 5:
                self.lead()
            self.random.choice(self.leaders[-2:]).step()

    def finish(self) -> None:
        """The last leader's members accept all that there is."""
        leader = self.leaders[-1]
        leader.end_write(lost=False)
        for _ in range(1000):
            if leader.partition.start == self.end and not leader.partition.has_news:
                assert self.delivered == self.records, "nobody was given some"
                return
            self.now += 100.0
            leader.partition.expire(self.limits, self.now)
            leader.acquire("a")
            leader.acknowledge("a", always=ACCEPT)
            leader.begin_write()
            leader.end_write(lost=False)
        raise AssertionError(f"it stops at {leader.partition.start} of {self.end}")


class _Leader:
    def __init__(self, history: _History, epoch: int, state: ShareState) -> None:
        self.history, self.epoch, self.q = history, epoch, state.q
        self.state_epoch = state.state_epoch
        self.partition = history.machine(state.start, state.batches)
        self.has: dict[str, set[int]] = {one: set() for one in _MEMBERS}
        self.waiting = list[tuple[int, int]]()  # offsets and types, not in a write yet
        self.writing: tuple[Snapshot, list[tuple[int, int]]] | None = None
        self.is_over = False

    def step(self) -> None:
        if self.is_over:
            return
        history = self.history
        member = history.random.choice(_MEMBERS)
        what = history.random.random()
        if what < 0.35:
            self.acquire(member)
        elif what < 0.65:
            self.acknowledge(member)
        elif what < 0.75:
            self.begin_write()
        elif what < 0.9:
            self.end_write(lost=history.random.random() < 0.2)
        elif what < 0.95:
            self.partition.expire(history.limits, history.now)
        else:
            self.partition.release(member, history.limits, counts=history.random.random() < 0.5)
            self.has[member].clear()
            for key in [key for key, (who, _) in history.holder.items() if key[0] == self.epoch and who == member]:
                del history.holder[key]
        self.check()

    def acquire(self, member: str) -> None:
        history, limits = self.history, self.history.limits
        self.partition.expire(limits, history.now)
        position = self.partition.position(limits)
        if position is None:
            return
        read = [one for one in history.log if one[1] >= position]
        read = read[: history.random.randint(1, 4)]
        is_strict = history.random.random() < 0.5
        taken = self.partition.acquire(member, position, read, _MOST, limits, history.now, is_strict=is_strict)
        assert not is_strict or sum(last - first + 1 for first, last, _ in taken) <= _MOST
        for first, last, count in taken:
            assert 1 <= count <= limits.deliveries
            history.delivered.update(range(first, last + 1))
            for offset in range(first, last + 1):
                assert offset in history.records
                # a leader that does not know that another one follows may give it once more
                is_known = self is history.leaders[-1]
                assert not is_known or offset not in history.done, "given again after it was answered"
                holder = history.holder.get((self.epoch, offset))
                assert holder is None or holder[1] <= history.now, "two have it"
                history.holder[self.epoch, offset] = member, history.now + limits.lock_seconds
                self.has[member].add(offset)

    def acknowledge(self, member: str, always: int | None = None) -> None:
        history = self.history
        offsets = sorted(self.has[member])
        if always is None:
            offsets = sorted(history.random.sample(offsets, history.random.randint(0, len(offsets))))
        types = (ACCEPT, ACCEPT, RELEASE, REJECT, RENEW) if always is None else (always,)
        said = [Acknowledgement(one, one, history.random.choice(types)) for one in offsets]
        self.has[member] -= set(offsets)
        settled = [one for one in said if one.type != RENEW]
        start = self.partition.start
        try:
            if self.partition.acknowledge(member, said, history.limits, history.now):
                self.waiting += [(one.first, one.type) for one in settled if one.first >= start]
        except KafkaError:  # some locks have run out
            return
        for one in said:
            if one.type == RELEASE:
                history.holder.pop((self.epoch, one.first), None)
            elif one.type == RENEW and one.first >= start:
                history.holder[self.epoch, one.first] = member, history.now + history.limits.lock_seconds
                self.has[member].add(one.first)

    def begin_write(self) -> None:
        if self.writing is None and self.partition.has_news:
            self.q += 1
            self.writing = self.partition.begin_write(), self.waiting
            self.waiting = []

    def end_write(self, *, lost: bool) -> None:
        if self.writing is None:
            return
        history = self.history
        (start, batches, done), said = self.writing
        self.writing = None
        write = ShareWrite(self.state_epoch, self.epoch, self.q, start, batches, done)
        if lost and history.random.random() < 0.5:
            stored = False  # it never came
        else:
            stored = history.write(write)
            assert not stored or history.write(write), "a repetition is refused"
        if stored and not lost:
            self.partition.written()
            history.done.update(offset for offset, type in said if type != RELEASE)
        elif lost:  # nobody knows whether it came
            self.partition.failed(history.limits, history.now)
        else:
            self.is_over = True

    def check(self) -> None:
        partition, at = self.partition, self.partition.start
        for one in partition.ranges:
            assert one.first == at
            assert one.last >= one.first
            at = one.last + 1
            assert one.count <= self.history.limits.deliveries


@pytest.mark.parametrize("block", range(4))
def test_histories(block: int) -> None:
    for seed in range(block * 1000, block * 1000 + effort.seeds(750)):
        history = _History(seed)
        try:
            history.run(150)
            history.finish()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert history.leaders[-1].partition.ranges == []
        assert history.stored.start == history.end


class _RenewsNothing(SharePartition):
    def acknowledge(self, member: str, said: Sequence[Acknowledgement], limits: Limits, now: float) -> bool:
        return super().acknowledge(member, [one for one in said if one.type != RENEW], limits, now)


class _TakesWhatOthersHave(SharePartition):
    def acknowledge(self, member: str, said: Sequence[Acknowledgement], limits: Limits, now: float) -> bool:
        for one in self.ranges:
            if one.state == ACQUIRED and any(each.type == RENEW for each in said):
                one.member = member
        return super().acknowledge(member, said, limits, now)


class _GivesWholeBatches(SharePartition):
    def acquire(self, *arguments: Any, is_strict: bool = False) -> list[Acquired]:
        return super().acquire(*arguments)


class _LosesTheRestOfBatches(SharePartition):
    def acquire(self, *arguments: Any, is_strict: bool = False) -> list[Acquired]:
        taken = super().acquire(*arguments, is_strict=is_strict)
        if is_strict and taken:
            last = max(batch[1] for batch in arguments[2] if batch[0] <= taken[-1].last)
            self._archive(taken[-1].last + 1, last, arguments[4])
            self._tidy()
        return taken


@pytest.mark.parametrize("machine", [_RenewsNothing, _TakesWhatOthersHave, _GivesWholeBatches, _LosesTheRestOfBatches])
def test_wrong_machines_are_noticed(machine: type[SharePartition]) -> None:
    with pytest.raises(AssertionError):
        for seed in range(300):
            history = _History(seed, machine=machine)
            history.run(150)
            history.finish()


def test_what_the_leader_s_epoch_is_for() -> None:
    """Without the fence leaders that follow each other give again what was acknowledged."""
    failures = 0
    for seed in range(300):
        history = _History(seed, fenced=False)
        try:
            history.run(150)
            history.finish()
        except AssertionError:
            failures += 1
    assert failures
