"""Finds the entry that holds an offset or a time, by binary search with one-entry reads.

The admin API's ledger list narrows the search to a ledger; inside one, entries are numbered without gaps.

Timestamps need not increase. An entry's time mark (`time_marks`) promises that no record before some offset is
as new as the time searched for. Entries of other writers promise nothing, whatever their marks say: they tell nothing
of a log that the bridge writes to as well, and the search goes by the next one that it has signed. A log that it does
not write to is taken to be at most DISORDER_MS out of order. So a search by time finds a place to start from that is
never too late. It is as far from the record itself as entries were in flight at the same time, or as DISORDER_MS.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from bridge.errors import CorruptEntry
from bridge.pulsar.admin import Admin
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.types import EARLIEST, Entry, OperationTimeout, Position
from bridge.runtime.threads import WorkerThreads
from bridge.storage.entries import NO_PROMISE, TimeMark, is_marked_chunk, mark_text, time_mark_in
from bridge.storage.mark_signer import MarkSigner
from bridge.storage.offsets import OffsetIndex
from bridge.storage.read.batches import Batch, BatchMaker
from bridge.storage.read.chunks import is_chunk
from bridge.storage.read.markers import Markers
from bridge.telemetry.metrics import StorageMetrics

_CHUNKS_BACK: Final = (64, 1024, 16_384)
"""So many entries before the last chunk of a message are looked at for its others, if fewer do not hold them."""
_CHUNK_SECONDS: Final = 10.0
"""How long the next of them may take."""
_FIRST_BACK: Final = 64
"""So many entries are looked at for the last one that has an offset,"""
_FURTHER_BACK: Final = 16
"""and then so many times as many."""
_RECEIVE_SECONDS: Final = 1.0
"""For an entry, before it is asked whether it is a marker, which no reader gets."""
_MAX_UNSIGNED = 32
"""So many entries of others are read one by one, for one of the bridge's behind them."""
DISORDER_MS = 10_000
"""How much older than a record before it a record may be, with several writers to a partition, and still be found."""


@dataclass(slots=True)
class _LedgerRange:
    """Entries `first` … `last` of one ledger."""

    ledger: int
    first: int
    last: int


class _NumberedEntries:
    """The entries of several ledgers, numbered from 0."""

    def __init__(self, ranges: list[_LedgerRange]) -> None:
        self._ranges = ranges
        self._starts = list(accumulate((one.last - one.first + 1 for one in ranges), initial=0))
        self.length = self._starts[-1]

    def position(self, number: int) -> Position:
        """The position of an entry."""
        at = bisect_right(self._starts, number) - 1
        return Position(self._ranges[at].ledger, self._ranges[at].first + number - self._starts[at])

    def number(self, position: Position) -> int | None:
        """The number of the entry at a position; None if it is not among them."""
        for start, one in zip(self._starts, self._ranges, strict=False):
            if one.ledger == position.ledger and one.first <= position.entry <= one.last:
                return start + position.entry - one.first
        return None


class Search:
    """Searches in one partition for an offset or a time."""

    def __init__(
        self,
        topic: str,
        client: PulsarClient,
        admin: Admin,
        metrics: StorageMetrics,
        maker: BatchMaker,
        index: OffsetIndex,
        threads: WorkerThreads,
        signer: MarkSigner,
    ) -> None:
        self._topic = topic
        self._client = client
        self._admin = admin
        self._metrics = metrics
        self._maker = maker
        self._index = index
        self._threads = threads
        self._signer = signer
        self.markers = Markers(topic, admin, client)

    async def find_offset(self, offset: int) -> Batch | None:
        """The entry that holds `offset`, or the first after it; None beyond the end."""
        before, after = self._index.around(offset)
        if before is not None:
            # most reads begin where one began before: at the start of the log, or where another consumer was
            near = await self.read_batch(Position(*before))
            if near is not None and near.base <= offset < near.next:
                return near
        return await self._first(lambda batch: batch.next > offset, before, after)

    async def last_position(self) -> Position:
        """The last entry's position, EARLIEST if there is none."""
        return await self._client.last_position(self._topic)

    async def next_offset_when_empty(self) -> int:
        """The next offset of a log without entries: 0, or the one after those that the broker has trimmed."""
        info = await self._admin.internal_info(self._topic)
        properties = info.get("properties") or {}
        return int(properties.get("index", -1)) + 1

    async def find_time(self, timestamp: int) -> Batch | None:
        """An entry before which no record is as new as `timestamp` (ms), near the first that is; None: past the end."""
        self._metrics.cold_lookups.inc()
        stretch = _NumberedEntries([one for one in await self._ranges(None, None) if one.last >= one.first])
        begin = left = 0  # entries before `begin` are ruled out; those before `left` can narrow the search no more
        right = stretch.length
        while left < right:
            middle = (left + right) // 2
            batch = await self.read_batch(stretch.position(middle))
            number = None if batch is None else stretch.number(batch.position)
            if batch is None or number is None or number >= right:
                right = middle
                continue
            if not self.has_signed(batch) and self._signer.has_met_own:
                signed = await self._next_signed(batch, stretch, right)
                if signed is None:
                    right = middle
                    continue
                batch, number = signed
            mark = await self.time_mark(batch)
            if mark.complete < 0 and mark.newest < timestamp - DISORDER_MS:
                begin = left = number + 1
            elif mark.complete >= 0 and mark.newest < timestamp:
                left = number + 1
                begin = max(begin, left - max(batch.next - mark.complete, 0))  # an entry has at least one record
            else:
                right = middle
        return None if begin >= stretch.length else await self.read_batch(stretch.position(begin))

    async def find_published(self, moment: int) -> Batch | None:
        """The first entry that was published at this time (ms) or later; None: past the end."""
        return await self._first(lambda batch: batch.published_at >= moment, None, None)

    async def _next_signed(self, batch: Batch, stretch: _NumberedEntries, right: int) -> tuple[Batch, int] | None:
        """The first entry after this one that the bridge has signed, with its number; None if none is near."""
        for _ in range(_MAX_UNSIGNED):
            following = await self.read_batch(batch.position.after)
            number = None if following is None else stretch.number(following.position)
            if following is None or number is None or number >= right:
                return None
            if self.has_signed(following):
                return following, number
            batch = following
        return None

    def has_signed(self, batch: Batch) -> bool:
        """Whether the bridge has written this entry's mark."""
        return batch.metadata is not None and self._signer.has_signed(batch.metadata)

    async def time_mark(self, batch: Batch) -> TimeMark:
        """What an entry says of the timestamps before its end: of its own alone, unless the bridge wrote it."""
        if batch.metadata is not None and self._signer.has_signed(batch.metadata):
            return time_mark_in(mark_text(batch.metadata) or "")
        return TimeMark(await batch.newest(self._threads), NO_PROMISE)

    async def read_batch(self, position: Position) -> Batch | None:
        """The entry at this position, or the first after it; None beyond the end.

        The first after it is returned if the entry is trimmed, is a marker, or has no offset.
        """
        entry = await self._client.read_entry(self._topic, position, self.markers.are_markers)
        if entry is None:
            return None
        return self.index_entry(entry) or await self._first_behind(entry.position)

    async def _first_behind(self, position: Position) -> Batch | None:
        """The first entry behind this one that has an offset: without one there may be any number."""
        async with aclosing(self.behind(position)) as found:
            async for entry in found:
                batch = self.index_entry(entry)
                if batch is not None:
                    return batch
        return None

    async def behind(self, start: Position) -> AsyncGenerator[Entry, None]:
        """The entries behind `start`, to the last one stored when this begins."""
        reader = await self._client.reader(self._topic, start, inclusive=False)
        try:
            last = await reader.last_position()
            position = start
            while position < last:
                try:
                    async with asyncio.timeout(_RECEIVE_SECONDS):
                        entry = await reader.receive()
                except TimeoutError:
                    if await self.markers.are_markers(position.after, last):
                        return
                    continue
                position = entry.position
                yield entry
        finally:
            await reader.close()

    def make(self, entry: Entry) -> Batch | None:
        """An entry's batch; None where it has no offset."""
        return self._maker.make_single(entry)

    def index_entry(self, entry: Entry) -> Batch | None:
        """An entry's batch, from whose position later searches may start; None where it has no offset."""
        batch = self.make(entry)
        if batch is not None:
            self._index.add(batch.certain_from, (batch.position.ledger, batch.position.entry))
        return batch

    async def last_batch(self, position: Position) -> Batch | None:
        """The last entry up to this position that is no marker, and has an offset; None if there is none."""
        if position == EARLIEST:
            return None
        batch = await self.read_batch(position)
        if batch is None:
            visible = await self.markers.last_visible(position)
            if visible != EARLIEST:
                batch = await self.read_batch(visible) or await self._last_before(visible)
        return batch

    async def _last_before(self, position: Position) -> Batch | None:
        """The last entry before this one that has an offset; None if there is none."""
        back = _FIRST_BACK
        while True:
            start, last = await self._back(position, back), None
            async with aclosing(self.behind(start)) as found:
                async for entry in found:
                    if entry.position >= position:
                        break
                    last = self.index_entry(entry) or last
            if last is not None or start == EARLIEST:
                return last
            back *= _FURTHER_BACK

    async def make_certain(self, batch: Batch) -> None:
        """Learn where it begins from the entry before it, if that is in the same ledger."""
        if batch.certain_from > batch.base and batch.position.entry > 0:
            position = Position(batch.position.ledger, batch.position.entry - 1)
            before = await self._client.read_entry(self._topic, position, self.markers.are_markers)
            if before is not None and before.index is not None and before.position < batch.position:
                batch.follow(before.index + 1)

    async def position_before_last(self, count: int) -> Position:
        """The position before the last `count` entries, of any ledgers; EARLIEST if there are fewer."""
        for ledger in reversed(await self._admin.ledgers(self._topic)):
            if ledger.entries > count:
                return Position(ledger.ledger_id, ledger.entries - count - 1)
            count -= ledger.entries
        return EARLIEST

    async def positions(self, first: Position, last: Position) -> list[Position]:
        """The entries from one position to another, both included."""
        if first.ledger == last.ledger:
            stretches = [_LedgerRange(first.ledger, first.entry, last.entry)]
        else:
            stretches = await self._ranges((first.ledger, first.entry), last)
        return [Position(one.ledger, entry) for one in stretches for entry in range(one.first, one.last + 1)]

    async def earlier_chunks(self, last: Entry) -> list[Entry]:
        """The chunks before the last one of a message, in their order; none where one of them is not there any more.

        They are looked for further and further back, whatever stands between them. None also where the last one is a
        repetition, as Pulsar's own consumers drop it. CorruptEntry where the first is not among the 16,384 entries
        before the last.
        """
        count = last.metadata.chunk_id
        for back in (one for one in _CHUNKS_BACK if one >= count):
            start = await self._back(last.position, back)
            found = await self._chunks_behind(start, last)
            if found is None:
                return []
            if len(found) == count:
                return found
            if start == EARLIEST:
                return []
        raise CorruptEntry(f"the first chunk of the message at {last.position} is too far before it")

    async def _chunks_behind(self, start: Position, last: Entry) -> list[Entry] | None:
        """The chunks of a message from the newest first one on, between a position and its last; None where the message
        was complete before that."""
        found: list[Entry] = []
        size = 0
        was_complete = False
        is_own = self._is_own_chunk(last)
        reader = await self._client.reader(self._topic, start, inclusive=False)
        try:
            while True:
                async with asyncio.timeout(_CHUNK_SECONDS):
                    entry = await reader.receive()
                if entry.position >= last.position:
                    return None if was_complete else found
                if not is_chunk(entry.metadata) or entry.metadata.uuid != last.metadata.uuid:
                    continue
                if is_own != self._is_own_chunk(entry):
                    continue
                if entry.metadata.chunk_id == 0 and not is_own:  # of the bridge's the first ones count
                    found, size, was_complete = [], 0, False
                if entry.metadata.chunk_id == last.metadata.chunk_id == len(found):
                    was_complete = True
                    continue
                if entry.metadata.chunk_id == len(found):
                    size += len(entry.payload)
                    if size <= last.metadata.total_chunk_msg_size:  # what is more than its writer says is not kept
                        found.append(entry)
        except TimeoutError:
            raise OperationTimeout(f"the entries before {last.position} do not come") from None
        finally:
            await reader.close()

    def _is_own_chunk(self, entry: Entry) -> bool:
        return self._signer.has_signed(entry.metadata) and is_marked_chunk(entry.metadata)

    async def _back(self, position: Position, count: int) -> Position:
        """The position before the `count` entries before this one, of any ledgers; EARLIEST if there are fewer."""
        for stretch in reversed(await self._ranges(None, position.before)):
            entries = stretch.last + 1 - stretch.first
            if entries > count:
                return Position(stretch.ledger, stretch.last - count)
            count -= max(entries, 0)
        return EARLIEST

    async def _first(
        self,
        is_past: Callable[[Batch], bool],
        before: tuple[int, int] | None,
        after: tuple[int, int] | None,
    ) -> Batch | None:
        """The first entry for which `is_past` holds; it must hold for all after the first."""
        self._metrics.cold_lookups.inc()
        ranges = await self._ranges(before, None if after is None else Position(*after))
        ranges = [stretch for stretch in ranges if stretch.last >= stretch.first]
        low, high = 0, len(ranges)
        found: Batch | None = None
        while low < high:  # the first ledger whose last entry is past
            middle = (low + high) // 2
            last = await self.read_batch(Position(ranges[middle].ledger, ranges[middle].last))
            if last is None or is_past(last):
                found, high = last, middle
            else:
                low = middle + 1
        if low == len(ranges):
            return None
        return await self._first_within(ranges[low], is_past) or found

    async def _first_within(self, stretch: _LedgerRange, is_past: Callable[[Batch], bool]) -> Batch | None:
        found: Batch | None = None
        low, high = stretch.first, stretch.last + 1
        while low < high:
            middle = (low + high) // 2
            batch = await self.read_batch(Position(stretch.ledger, middle))
            if batch is None:
                high = middle
            elif is_past(batch):
                found, high = batch, middle
            elif batch.position.ledger == stretch.ledger:
                low = batch.position.entry + 1
            else:
                low = high
        return found

    async def _ranges(self, before: tuple[int, int] | None, after: Position | None) -> list[_LedgerRange]:
        """The stored entries from `before` to `after`, both included, ledger by ledger."""
        ranges = []
        for ledger in await self._admin.ledgers(self._topic):
            stretch = _LedgerRange(ledger.ledger_id, 0, ledger.entries - 1)
            if before is not None:
                if stretch.ledger < before[0]:
                    continue
                if stretch.ledger == before[0]:
                    stretch.first = before[1]
            if after is not None:
                if stretch.ledger > after.ledger:
                    continue
                if stretch.ledger == after.ledger:
                    stretch.last = min(stretch.last, after.entry)
            ranges.append(stretch)
        return ranges
