"""Group commit: batches that are there at the same time become one entry of Pulsar.

An entry costs Pulsar, its bookies and each later reader about the same whatever it holds. So batches of one Pulsar
producer are sent together, as far as they fit:

- While the event loop has more to do than time for, those that come in one turn of it, and those behind an entry on its
  way, which wait for its outcome.
- Else those of 8 KB and more that come together from one client, with the answers that it has had: `pace` has the rest.
  Not those of a transaction, whose end waits for them.

What waits for nothing is sent at once.

A group is one run of records: of clients' producers that are not idempotent in the order in which they came, of an
idempotent producer with consecutive sequences, and of one transaction. So an entry says the same whether it was one
batch or several, and each batch has its own offset, counted from the entry's. Compressed batches stay alone, as do
those of format `kafka`.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import Position, PulsarError, Refusal
from bridge.runtime.futures import Outcome, retrieve_exception
from bridge.runtime.scheduler import loop_scheduler
from bridge.storage.append.pace import Pace
from bridge.storage.append.pending_append import Member, PendingAppend
from bridge.storage.append.preparation import METADATA_BYTES, PreparedEntry
from bridge.storage.append.sequences import SequenceRange

_MAX_RECORDS: Final = 5000  # of a group: readers convert so many on the event loop
_LEAST_HELD_BYTES: Final = 8192  # of a batch: who fills batches has much to send, who does not wants it there soon

Sender = Callable[[Sequence[Member], Producer], None]


def _loop_is_busy() -> bool:
    return loop_scheduler().is_busy


class OpenEntry:
    """The batches of one Pulsar producer that are not sent yet, and become one entry."""

    __slots__ = ("members", "paces", "records", "size")

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.records = self.size = 0
        self.paces: list[Pace] = []  # of clients that let it go; none: the event loop's turns do

    def add(self, pending: Member) -> None:
        """Put it behind the others."""
        self.members.append(pending)
        self.records += pending.entry.record_count
        self.size += len(pending.entry.data)

    def can_take(self, entry: PreparedEntry, batch: SequenceRange | None, max_bytes: int) -> bool:
        """Whether it would still be one run of records, and not too large."""
        last = self.members[-1].batch
        if self.size + len(entry.data) > max_bytes or self.records + entry.record_count > _MAX_RECORDS:
            return False
        if entry.transaction != self.members[-1].entry.transaction:
            return False
        if batch is None or last is None:
            return batch is last
        return batch.first.wraps == last.last.wraps and batch.first == last.last.after(1)


class GroupCommit:
    """The groups of one partition."""

    def __init__(
        self, send: Sender, max_bytes: int, linger_seconds: float, is_busy: Callable[[], bool] = _loop_is_busy
    ) -> None:
        """`send`: sends appends as one entry; `max_bytes`: of an entry, 0 for one batch an entry."""
        self._send = send
        self._is_busy = is_busy
        self._max_bytes = max_bytes
        self._linger_seconds = linger_seconds
        self._groups: dict[Producer, OpenEntry] = {}
        self._proven = 0  # bytes of the largest entry that was stored

    def is_risky(self, pending: PendingAppend) -> bool:
        """Whether a group may be above the topic's own limit, which nobody tells: none as large was stored yet.

        Pulsar goes on behind what it refuses. What an idempotent producer has behind such a group would be stored
        ahead of it, and its batches could never be stored then, each sound by itself.
        """
        return len(pending.members) > 1 and pending.batch is not None and len(pending.entry.data) > self._proven

    def note_stored(self, size: int) -> None:
        """An entry with so many bytes of records is stored."""
        self._proven = max(self._proven, size)

    def add(self, pending: Member, producer: Producer, pace: Pace | None = None) -> None:
        """Send an append, now or with others; it takes its place among those of its producer before this returns.

        `pace`: its client's.
        """
        if not self._max_bytes:
            return self._send([pending], producer)
        group = self._groups.get(producer)
        limit = self._limit(producer)
        may_join = 2 * len(pending.entry.data) <= limit and _is_plain(pending.entry)
        if group is not None and not (may_join and group.can_take(pending.entry, pending.batch, limit)):
            self.flush(producer)
            group = None
        if not may_join:
            return self._send([pending], producer)
        holding = pace if pace is not None and pace.holds and _is_worth_holding(pending.entry) else None
        if group is None:
            if holding is None and not self._linger_seconds and not self._is_busy():
                return self._send([pending], producer)
            if holding is None or self._linger_seconds or self._is_busy():
                group = self._opened(producer)
            else:
                group = self._groups[producer] = OpenEntry()
                self._hold(group, producer, holding)
        elif group.paces and holding is not None and holding not in group.paces:
            self._hold(group, producer, holding)
        group.add(pending)
        if group.paces and holding is None:  # of a client that waits for nothing
            self.flush(producer)

    def open_entry(self, entry: PreparedEntry, producer: Producer) -> "OpenEntry | None":
        """Where a small plain batch goes with those of its turn of the event loop: it must be added at once.

        None where it may not share an entry, or may have to wait for more of its client's.
        """
        size, limit = len(entry.data), self._limit(producer)
        if size >= _LEAST_HELD_BYTES or 2 * size > limit:
            return None
        group = self._groups.get(producer)
        if group is not None and (group.paces or not group.can_take(entry, None, limit)):
            self.flush(producer)
            group = None
        return self._opened(producer) if group is None else group

    def _opened(self, producer: Producer) -> "OpenEntry":
        group = self._groups[producer] = OpenEntry()
        loop = asyncio.get_running_loop()
        if self._linger_seconds:
            loop.call_later(self._linger_seconds, self._flush_idle, producer)
        else:
            loop.call_soon(self._flush_idle, producer)
        return group

    def outcome_known(self, producer: Producer) -> None:
        """An entry of this producer has its outcome, so a group that waits for one may go.

        Not before the next turn: the producer may be about to fail others, and their order would be lost.
        """
        if producer in self._groups and not self._linger_seconds:
            asyncio.get_running_loop().call_soon(self._flush_idle, producer)

    def error_of(self, pending: PendingAppend, error: BaseException) -> BaseException:
        """What the clients of a failed append are told.

        A group above the topic's own limit says nothing of its members: they come again, and groups are smaller then.
        A client that is told that several records are too large splits them, by its `batch.size`, which may well be
        more than the limit: Java's would split and send what it has split forever (KAFKA-8350).
        """
        if not isinstance(error, PulsarError) or error.refusal is not Refusal.SIZE or pending.entry.record_count == 1:
            return error
        if len(pending.members) < 2:
            return KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{error}: send smaller batches (batch.size)")
        self._max_bytes = min(self._max_bytes, len(pending.entry.data) // 2)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{error}: several batches were one entry")

    def flush(self, producer: Producer) -> None:
        """Send what there is of this producer."""
        group = self._groups.pop(producer, None)
        if group is None:
            return
        wanted = [one for one in group.members if one.is_wanted]
        if wanted:
            self._send(wanted, producer)

    def flush_all(self) -> None:
        """Send all."""
        for producer in list(self._groups):
            self.flush(producer)

    def take(self, producer: Producer) -> list[Member]:
        """What is not sent of this producer, and is not to be sent any more."""
        group = self._groups.pop(producer, None)
        return [] if group is None else group.members

    def take_all(self) -> list[Member]:
        """All that is not sent, and is not to be sent any more."""
        return [one for producer in list(self._groups) for one in self.take(producer)]

    def _limit(self, producer: Producer) -> int:
        """The most bytes of a group; 0 until the topic's broker has told how large an entry may be."""
        largest = producer.max_message_size
        return 0 if largest is None else min(self._max_bytes, largest - METADATA_BYTES)

    def _hold(self, group: OpenEntry, producer: Producer, pace: Pace) -> None:
        group.paces.append(pace)
        pace.hold(partial(self._release, group, producer))

    def _release(self, group: OpenEntry, producer: Producer) -> None:
        if self._groups.get(producer) is group:
            self.flush(producer)

    def _flush_idle(self, producer: Producer) -> None:
        group = self._groups.get(producer)
        if group is not None and group.paces:
            return  # it is not this that it waits for
        if not producer.pending_count or producer.closing or self._linger_seconds or not self._is_busy():
            self.flush(producer)


def together(members: Sequence[Member], producer_name: str, last_known: Position) -> PendingAppend:
    """The append of the entry that holds them all; `last_known`: as `PendingAppend`'s."""
    first, last = members[0].batch, members[-1].batch
    offset: Outcome[int] = Outcome()
    offset.call_at_once(retrieve_exception)  # no client waits for it
    batch = None if first is None or last is None else first._replace(last=last.last)
    return PendingAppend(_merged(members), producer_name, last_known, offset, offset, None, batch, members)


def _merged(members: Sequence[Member]) -> PreparedEntry:
    entries = [one.entry for one in members]
    first = entries[0]
    if len(entries) == 1:
        return first
    data = b"".join([one.data for one in entries])
    return PreparedEntry(
        data, sum([one.record_count for one in entries]), first.producer, max([one.max_timestamp for one in entries]),
        any([one.escaped for one in entries]), uncompressed_size=len(data), transaction=first.transaction,
    )  # fmt: skip


def _is_worth_holding(entry: PreparedEntry) -> bool:
    return len(entry.data) >= _LEAST_HELD_BYTES and entry.transaction is None


def _is_plain(entry: PreparedEntry) -> bool:
    return not entry.compression and not entry.verbatim and entry.reservation is None and entry.message is None
