"""Group commit: batches that are there at the same time become one entry of Pulsar.

An entry costs Pulsar, its bookies and each later reader about the same whatever it holds. So batches of one Pulsar
producer are sent together, as far as they fit:

- While the event loop has more to do than time for, those that come in one turn of it, and those behind an entry on its
  way, which wait for its outcome.
- Else those that follow acknowledgements. A client that has as many batches on their way as it may sends the next ones
  when some are acknowledged, as many, one after another. The first waits for the others, a millisecond at most. An
  idempotent producer that does so time and again may have one batch in each entry and four in each next. Then the one
  waits for the outcome of the four, once in a while, and from then on they come together.

What waits for nothing is sent at once. A client that waits for each answer never waits here, and one that sends by the
clock hardly ever: who waited in vain once does not for the next batches, and for twice as many each time.

A group is one run of records: of clients' producers that are not idempotent in the order in which they came, of an
idempotent producer with consecutive sequences. So an entry says the same whether it was one batch or several, and each
batch has its own offset, counted from the entry's. Compressed batches stay alone, as do those of format `kafka`.
"""

import asyncio
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

from bridge.futures import loop_time
from bridge.loop_scheduler import loop_scheduler
from bridge.pulsar.producer import Producer
from bridge.storage.append.pending_append import PendingAppend
from bridge.storage.append.preparation import METADATA_BYTES, PreparedEntry

_MAX_RECORDS: Final = 5000  # of a group: readers convert so many on the event loop
_HOLD_SECONDS: Final = 0.001  # for the rest of a burst
_BURST_SECONDS: Final = 0.005  # in which a client answers acknowledgements
_JOIN_SECONDS: Final = 0.01  # for the outcome of the rest of a client's batches
_STEADY: Final = 20  # bursts that came as expected, until a client's batches are brought together
_LEAST_REST, _LONGEST_REST = 8, 512  # batches that are acknowledged until it is tried again

Sender = Callable[[PendingAppend, Producer], None]


def _loop_is_busy() -> bool:
    return loop_scheduler().is_busy


class _Pace:
    """How many batches of one Pulsar producer are about to come."""

    __slots__ = ("_expected", "_rest", "_resting", "_steady", "_until", "batches", "size")

    def __init__(self) -> None:
        self._expected = self._resting = self._rest = self._steady = 0
        self._until = 0.0
        self.batches = self.size = 0
        """Of those on their way."""

    @property
    def expects(self) -> bool:
        """Whether more are about to come."""
        return self._expected > 0

    @property
    def is_steady(self) -> bool:
        """Whether acknowledgements are answered by as many batches, time and again."""
        return self._steady >= _STEADY

    def sent(self, pending: PendingAppend) -> None:
        """An entry is on its way."""
        self.batches += len(pending.members) or 1
        self.size += len(pending.entry.data)

    def left(self, pending: PendingAppend, *, stored: bool) -> None:
        """It has its outcome."""
        count = len(pending.members) or 1
        self.batches -= count
        self.size -= len(pending.entry.data)
        if stored:
            self._acknowledged(count)

    def _acknowledged(self, count: int) -> None:
        if self._resting:
            self._resting = max(self._resting - count, 0)
            return
        now = loop_time()
        self._expected = count if now > self._until else self._expected + count
        self._until = now + _BURST_SECONDS

    def came(self) -> None:
        """One has come."""
        if self._expected:
            self._expected = self._expected - 1 if loop_time() <= self._until else 0

    def begin_anew(self) -> None:
        """It is not steady until it has proven it again."""
        self._steady = 0

    def waited(self, *, in_vain: bool) -> None:
        """Some have waited for those that were to come, or one alone has, in vain."""
        self._expected = 0
        self._steady = 0 if in_vain else self._steady + 1
        self._rest = min(max(2 * self._rest, _LEAST_REST), _LONGEST_REST) if in_vain else 0
        self._resting = self._rest


class _Group:
    """One Pulsar producer's batches that are not sent yet."""

    __slots__ = ("members", "paced", "records", "size", "timer")

    def __init__(self) -> None:
        self.members: list[PendingAppend] = []
        self.records = self.size = 0
        self.paced = False  # it waits for the rest of a burst, if for anything
        self.timer: asyncio.TimerHandle | None = None  # at most until then

    def add(self, pending: PendingAppend) -> None:
        self.members.append(pending)
        self.records += pending.entry.record_count
        self.size += len(pending.entry.data)

    def can_take(self, pending: PendingAppend, max_bytes: int) -> bool:
        """Whether it would still be one run of records, and not too large."""
        entry, batch, last = pending.entry, pending.batch, self.members[-1].batch
        if self.size + len(entry.data) > max_bytes or self.records + entry.record_count > _MAX_RECORDS:
            return False
        if batch is None or last is None:
            return batch is last
        return batch.first.wraps == last.last.wraps and batch.first == last.last.after(1)


class GroupCommit:
    """The groups of one partition."""

    def __init__(
        self, send: Sender, max_bytes: int, linger_seconds: float, is_busy: Callable[[], bool] = _loop_is_busy
    ) -> None:
        """`send`: sends one append, or several as one; `max_bytes`: of an entry, 0 for one batch an entry."""
        self._send = send
        self._is_busy = is_busy
        self._max_bytes = max_bytes
        self._linger_seconds = linger_seconds
        self._groups: dict[Producer, _Group] = {}
        self._paces: WeakKeyDictionary[Producer, _Pace] = WeakKeyDictionary()

    def add(self, pending: PendingAppend, producer: Producer) -> None:
        """Send an append, now or with others; it takes its place among those of its producer before this returns."""
        if not self._max_bytes:
            return self._send(pending, producer)
        group = self._groups.get(producer)
        limit = self._limit(producer)
        may_join = 2 * len(pending.entry.data) <= limit and _is_plain(pending.entry)
        if group is not None and not (may_join and group.can_take(pending, limit)):
            self.flush(producer)
            group = None
        if not may_join:
            return self._send(pending, producer)
        pace = self._pace(producer)
        pace.came()
        if group is None:
            group = self._groups[producer] = _Group()
            loop = asyncio.get_running_loop()
            if self._linger_seconds:
                loop.call_later(self._linger_seconds, self._flush_idle, producer)
            elif self._is_busy():
                loop.call_soon(self._flush_idle, producer)
            else:
                group.paced = True
        group.add(pending)
        if group.paced and not pace.expects:
            self._all_have_come(group, producer, pace, limit)
        elif group.paced and group.timer is None:
            group.timer = asyncio.get_running_loop().call_later(_HOLD_SECONDS, self._held_enough, group, producer)

    def sent(self, pending: PendingAppend, producer: Producer) -> None:
        """An entry of this producer is on its way; `outcome_known` follows."""
        if self._max_bytes:
            self._pace(producer).sent(pending)

    def outcome_known(self, pending: PendingAppend, producer: Producer, *, stored: bool) -> None:
        """An entry of this producer has its outcome, so a group that waits for one may go.

        Not before the next turn: the producer may be about to fail others, and their order would be lost.
        """
        if self._max_bytes:
            self._pace(producer).left(pending, stored=stored)
        if producer in self._groups and not self._linger_seconds:
            asyncio.get_running_loop().call_soon(self._flush_idle, producer)

    def _all_have_come(self, group: _Group, producer: Producer, pace: _Pace, limit: int) -> None:
        """Send a group, unless it is the smaller part of what its client has on its way, and all would fit: then once
        for the outcome of the rest, so that they come together from then on."""
        is_part = pace.batches >= 2 * len(group.members) and pace.size + group.size <= limit
        if is_part and pace.is_steady and group.members[0].batch is not None:
            pace.begin_anew()
            if group.timer is not None:
                group.timer.cancel()
            group.timer = asyncio.get_running_loop().call_later(_JOIN_SECONDS, self._held_enough, group, producer)
        else:
            if len(group.members) > 1:
                pace.waited(in_vain=False)
            self.flush(producer)

    def flush(self, producer: Producer) -> None:
        """Send what there is of this producer."""
        group = self._groups.pop(producer, None)
        if group is None:
            return
        if group.timer is not None:
            group.timer.cancel()
        wanted = [one for one in group.members if one.is_wanted]
        if wanted:
            self._send(merged(wanted), producer)

    def flush_all(self) -> None:
        """Send all."""
        for producer in list(self._groups):
            self.flush(producer)

    def take(self, producer: Producer) -> list[PendingAppend]:
        """What is not sent of this producer, and is not to be sent any more."""
        group = self._groups.pop(producer, None)
        return [] if group is None else group.members

    def take_all(self) -> list[PendingAppend]:
        """All that is not sent, and is not to be sent any more."""
        return [one for producer in list(self._groups) for one in self.take(producer)]

    def _pace(self, producer: Producer) -> _Pace:
        pace = self._paces.get(producer)
        if pace is None:
            pace = self._paces[producer] = _Pace()
        return pace

    def _limit(self, producer: Producer) -> int:
        """The most bytes of a group; 0 until the topic's broker has told how large an entry may be."""
        largest = producer.max_message_size
        return 0 if largest is None else min(self._max_bytes, largest - METADATA_BYTES)

    def _held_enough(self, group: _Group, producer: Producer) -> None:
        if self._groups.get(producer) is group:
            self._pace(producer).waited(in_vain=len(group.members) == 1)
            self.flush(producer)

    def _flush_idle(self, producer: Producer) -> None:
        group = self._groups.get(producer)
        if group is not None and group.paced:
            return  # it is not this that it waits for
        if not producer.pending_count or producer.closing or self._linger_seconds or not self._is_busy():
            self.flush(producer)


def merged(members: list[PendingAppend]) -> PendingAppend:
    """Several appends as one entry; one alone stays as it is."""
    first = members[0]
    if len(members) == 1:
        return first
    entries = [one.entry for one in members]
    size = sum(len(one.data) for one in entries)
    entry = PreparedEntry(
        b"".join([one.data for one in entries]), sum(one.record_count for one in entries), entries[0].producer,
        max(one.max_timestamp for one in entries), any(one.escaped for one in entries), uncompressed_size=size,
    )  # fmt: skip
    return first.together(entry, members)


def _is_plain(entry: PreparedEntry) -> bool:
    return not entry.compression and not entry.verbatim and entry.reservation is None
