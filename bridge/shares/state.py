"""What a share group does with the records of one partition (KIP-932), as a state machine: `now` comes in.

| state        | means                                                        | leaves it                           |
|--------------|--------------------------------------------------------------|-------------------------------------|
| available    | to be delivered, for the first time or again                 | a member acquires it                |
| acquired     | a member's, until it acknowledges it or its lock runs out    | acknowledged, released, or given up |
| acknowledged | done                                                         |                                     |
| archived     | done: rejected, delivered too often, or there is no record   |                                     |

What lies before `start` is done, what lies from `end` on was never delivered. Between them are ranges of offsets
without a hole, which are split where records of one are dealt with differently.

An acknowledgement counts when it is stored: until then the range stays acquired, with what it is to become (`next`).
Acquiring is not stored. What nobody waits for, as that a lock has run out, holds at once, and is stored with the next
write (`must_write`). Counts are of deliveries.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from bridge.errors import KafkaError
from bridge.groups.share.state_records import ACKNOWLEDGED, ARCHIVED, AVAILABLE, StateBatch
from bridge.kafka.error_codes import ErrorCode

ACQUIRED: Final = 1
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""The types of acknowledgements. The last one (KIP-1222) settles nothing: the member keeps the records for longer."""
_DONE: Final = frozenset((ACKNOWLEDGED, ARCHIVED))

Span: TypeAlias = tuple[int, int]
"""The first and the last offset of a batch."""


class Limits(NamedTuple):
    """What the group's configs say."""

    deliveries: int = 5
    """How often a record is delivered at most."""
    locks: int = 2000
    """How many offsets may lie between start and end."""
    lock_seconds: float = 30.0


class Acquired(NamedTuple):
    """Offsets that are a member's now, both within, and the how many-th delivery it is."""

    first: int
    last: int
    delivery: int


class Acknowledgement(NamedTuple):
    """What a member says of offsets, both within."""

    first: int
    last: int
    type: int


class Snapshot(NamedTuple):
    """What is to be stored."""

    start: int
    batches: tuple[StateBatch, ...]
    done: int


@dataclass(slots=True)
class Range:
    """Offsets in the same state, both within."""

    first: int
    last: int
    state: int = AVAILABLE
    count: int = 0
    member: str = ""
    deadline: float = inf
    """When its lock runs out."""
    next: int | None = None
    """The state that it has when the acknowledgement is stored."""
    is_written: bool = False
    """`next` is in the write that is under way."""

    @property
    def size(self) -> int:
        """How many offsets."""
        return self.last - self.first + 1

    def rest(self, offset: int) -> "Range":
        """The part from this offset on; `dataclasses.replace` takes three times as long."""
        return Range(
            offset, self.last, self.state, self.count, self.member, self.deadline, self.next, self.is_written
        )  # fmt: skip

    def is_like(self, other: "Range") -> bool:
        """Whether they are one, if they lie side by side."""
        return (
            self.state == other.state
            and self.count == other.count
            and self.member == other.member
            and self.deadline == other.deadline
            and self.next == other.next
            and self.is_written == other.is_written
        )


_first = attrgetter("first")


class SharePartition:
    """The records of one partition in one share group."""

    def __init__(self, start: int, batches: Iterable[StateBatch] = ()) -> None:
        """As it was stored: what lies between the batches was never delivered, or never acknowledged."""
        self.start = start
        self._ranges: list[Range] = []
        self.must_write = False
        """Something has changed that nobody waits for."""
        self._given_up = 0
        for one in batches:
            if one.first > self.end:
                self._ranges.append(Range(self.end, one.first - 1))
            self._ranges.append(Range(one.first, one.last, one.state, one.deliveries))
        self._tidy()

    @property
    def end(self) -> int:
        """The first offset that was never delivered."""
        return self._ranges[-1].last + 1 if self._ranges else self.start

    @property
    def ranges(self) -> Sequence[Range]:
        """All between start and end."""
        return self._ranges

    @property
    def is_idle(self) -> bool:
        """Whether nobody has anything, and nothing is to be stored."""
        return not self.must_write and not any(one.state == ACQUIRED for one in self._ranges)

    @property
    def deadline(self) -> float:
        """When the next lock runs out; infinite without one."""
        return min((one.deadline for one in self._ranges if one.next is None), default=inf)

    @property
    def acquired(self) -> int:
        """How many offsets members have."""
        return sum(one.size for one in self._ranges if one.state == ACQUIRED)

    def position(self, limits: Limits) -> int | None:
        """The offset at which to read what can be acquired; None where nothing can be."""
        for one in self._ranges:
            if one.state == AVAILABLE:
                return one.first
        return self.end if self.end - self.start < limits.locks else None

    # ---- members -----------------------------------------------------------------------------------------------------

    def acquire(
        self, member: str, position: int, read: Sequence[Span], most: int, limits: Limits, now: float,
        *, is_strict: bool = False,
    ) -> list[Acquired]:  # fmt: skip
        """Give a member what can be had of the batches that were read from `position` on.

        Whole batches, until there are `most` records or the limit of locks is reached; `is_strict`: never more than
        `most`, the rest of a batch is left (KIP-1206). What has come near the limit of deliveries is given in ever
        smaller parts, for the last time each record alone: one that kills its consumer takes no others along. Offsets
        before and between the batches have no records.
        """
        taken: list[Acquired] = []
        hole, room = max(position, self.start), most
        for first, last in read:
            if room <= 0:
                break
            first = max(first, hole)
            if last < first:
                continue
            self._archive(hole, first - 1, limits)
            hole, before = last + 1, len(taken)
            goes_on = self._acquire(member, first, last, room if is_strict else last - first + 1, taken, limits, now)
            room -= sum(one.last - one.first + 1 for one in taken[before:])
            if not goes_on:
                break
        self._tidy()
        return taken

    def acknowledge(self, member: str, said: Sequence[Acknowledgement], limits: Limits, now: float) -> bool:
        """Note what is to be stored; False: there is nothing, for all lies before the start or is renewed at once.

        `said` is in order, nothing twice. INVALID_RECORD_STATE, and nothing has changed, where a member does not have
        what it acknowledges, or has acknowledged it already.
        """
        self.expire(limits, now)
        said = [one._replace(first=max(one.first, self.start)) for one in said if one.last >= self.start]
        for one in said:
            found = list(self._within(one.first, one.last))
            has_all = one.last < self.end and all(
                part.state == ACQUIRED and part.member == member and part.next is None for part in found
            )
            if not has_all:
                text = f"offsets {one.first} to {one.last} are not acquired by this member"
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, text)
        for one in said:
            for part in self._cut(one.first, one.last):
                if one.type == RENEW:
                    part.deadline = now + limits.lock_seconds
                    continue
                part.next = _outcome(one.type, part.count, limits)
                self._given_up += part.size if one.type == RELEASE and part.next == ARCHIVED else 0
        self._tidy()
        return any(one.type != RENEW for one in said)

    def release(self, member: str, limits: Limits, *, counts: bool) -> bool:
        """Take back what a member has, unless it is being stored; whether it had any.

        `counts`: that it was delivered; not where the member itself says that it has not dealt with it.
        """
        had = [one for one in self._ranges if one.state == ACQUIRED and one.member == member and one.next is None]
        for one in had:
            if not counts:
                one.count -= 1
            self._give_up(one, limits)
        self._tidy()
        return bool(had)

    def expire(self, limits: Limits, now: float) -> int:
        """Take back what has run out of its lock; how many offsets."""
        late = [one for one in self._ranges if one.deadline <= now and one.next is None]
        for one in late:
            self._give_up(one, limits)
        count = sum(one.size for one in late)
        if late:
            self._tidy()
        return count

    def take_given_up(self) -> int:
        """How many offsets were archived since the last call because they were delivered too often."""
        count, self._given_up = self._given_up, 0
        return count

    # ---- the log -----------------------------------------------------------------------------------------------------

    def move_start(self, log_start: int) -> None:
        """What lies before the log's start is gone."""
        if log_start <= self.start:
            return
        self._cut(self.start, log_start - 1)
        self._ranges = [one for one in self._ranges if one.first >= log_start]
        self.start = log_start
        self.must_write = True
        self._tidy()

    # ---- what is stored ----------------------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether anything is to be stored that is in no write."""
        return self.must_write or any(one.next is not None and not one.is_written for one in self._ranges)

    def begin_write(self) -> Snapshot:
        """What is to be stored now; it ends by `written` or `failed`, one at a time."""
        self.must_write = False
        for one in self._ranges:
            one.is_written = one.next is not None
        following = [(one, one.state if one.next is None else one.next) for one in self._ranges]
        start, batches, done = self.start, list[StateBatch](), 0
        for one, state in following:
            if state in _DONE and one.first == start:
                start = one.last + 1
                continue
            if state in _DONE:
                done += one.size
            count = one.count
            if state == ACQUIRED:
                state, count = AVAILABLE, one.count - 1
            if state == AVAILABLE and count == 0:
                continue
            before = batches[-1] if batches else None
            if before is not None and before.last + 1 == one.first and before[2:] == (state, count):
                batches[-1] = before._replace(last=one.last)
            else:
                batches.append(StateBatch(one.first, one.last, state, count))
        return Snapshot(start, tuple(batches), done)

    def written(self) -> None:
        """It is stored."""
        for one in self._ranges:
            if one.is_written and one.next is not None:
                one.state, one.next, one.is_written = one.next, None, False
                one.member, one.deadline = "", inf
        self._tidy()

    def failed(self, limits: Limits, now: float) -> None:
        """It is not, or not known to be: what it said is undone, and may be said again as long as the lock holds."""
        self.must_write = True
        for one in self._ranges:
            if one.is_written:
                one.next, one.is_written = None, False
        self.expire(limits, now)
        self._tidy()

    # ---- within ------------------------------------------------------------------------------------------------------

    def _acquire(
        self, member: str, first: int, last: int, room: int, taken: list[Acquired], limits: Limits, now: float
    ) -> bool:
        """Acquire `room` records of one batch; False: no more may be acquired beside it."""
        deadline = now + limits.lock_seconds
        for one in [part for part in self._within(first, last) if part.state == AVAILABLE]:
            begin = max(one.first, first)
            stop = min(one.last, last, begin + room - 1)
            is_careful = one.count >= max(2, -(-limits.deliveries // 2))
            if is_careful:
                if taken:
                    return False
                size = 1 if limits.deliveries - one.count <= 1 else max((stop - begin + 1) // 2, 1)
                stop = begin + size - 1
            for part in self._cut(begin, stop):
                part.state, part.count, part.member, part.deadline = ACQUIRED, part.count + 1, member, deadline
                taken.append(Acquired(part.first, part.last, part.count))
            if is_careful:
                return False
            room -= stop - begin + 1
            if room <= 0:
                break
        begin = max(first, self.end)
        stop = min(last, begin + min(room, limits.locks - (self.end - self.start)) - 1)
        if begin > last:
            return True
        if stop >= begin:
            self._ranges.append(Range(begin, stop, ACQUIRED, 1, member, deadline))
            taken.append(Acquired(begin, stop, 1))
        return stop == last

    def _archive(self, first: int, last: int, limits: Limits) -> None:
        """There are no records at these offsets."""
        if last < first:
            return
        for part in self._cut(first, last):
            if part.state == AVAILABLE:
                part.state, self.must_write = ARCHIVED, True
        begin = max(first, self.end)
        if last >= begin and self.end - self.start < limits.locks:
            self._ranges.append(Range(begin, last, ARCHIVED))
            self.must_write = True

    def _give_up(self, one: Range, limits: Limits) -> None:
        one.state = _outcome(RELEASE, one.count, limits)
        self._given_up += one.size if one.state == ARCHIVED else 0
        one.member, one.deadline = "", inf
        self.must_write = True

    def _within(self, first: int, last: int) -> Iterator[Range]:
        """The ranges that have any of these offsets."""
        at = max(bisect_right(self._ranges, first, key=_first) - 1, 0)
        while at < len(self._ranges) and self._ranges[at].first <= last:
            if self._ranges[at].last >= first:
                yield self._ranges[at]
            at += 1

    def _cut(self, first: int, last: int) -> list[Range]:
        """Split ranges so that some have these offsets and no others; those."""
        self._split(first)
        self._split(last + 1)
        return list(self._within(first, last)) if first <= last else []

    def _split(self, offset: int) -> None:
        """Let no range have offsets on both sides."""
        at = bisect_right(self._ranges, offset, key=_first) - 1
        if at < 0:
            return
        one = self._ranges[at]
        if one.first < offset <= one.last:
            self._ranges.insert(at + 1, one.rest(offset))
            one.last = offset - 1

    def _tidy(self) -> None:
        """Move the start over what is done, and make one range of those that are alike."""
        kept: list[Range] = []
        for one in self._ranges:
            if not kept and one.state in _DONE:
                self.start = one.last + 1
            elif kept and kept[-1].is_like(one):
                kept[-1].last = one.last
            else:
                kept.append(one)
        self._ranges = kept


def _outcome(said: int, count: int, limits: Limits) -> int:
    """The state after an acknowledgement of this type, when it was delivered so often."""
    if said == RELEASE:
        return AVAILABLE if count < limits.deliveries else ARCHIVED
    return ACKNOWLEDGED if said == ACCEPT else ARCHIVED
