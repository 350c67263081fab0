"""Finds the entry that holds an offset or a time, by binary search with one-entry reads.

The admin API's ledger list narrows the search to a ledger; inside one, entries are numbered without gaps.

Timestamps need not grow. What an entry's time mark promises (`append/time_marks`) rules out everything before some
offset: nothing there is as new as what is looked for. Of entries that promise nothing, as those of other writers, it is
believed that they are at most DISORDER_MS older than anything before them. So a search by time finds where to begin to
look, never too late a place; how far that is from the record itself is what was on its way at one time, or DISORDER_MS.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from bridge.metrics import StorageMetrics
from bridge.pulsar.admin import Admin
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.types import EARLIEST, Entry, Position
from bridge.storage.offsets import OffsetIndex
from bridge.storage.read.batches import Batch, BatchMaker
from bridge.storage.read.chunks import is_chunk
from bridge.storage.read.markers import Markers
from bridge.worker_threads import WorkerThreads

_MAX_CHUNKS_BACK = 10_000
DISORDER_MS = 10_000
"""How much older than a record before it a record may be, where several write to a partition, and still be found."""


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
        """The number of the entry at a position; None where it is beyond them."""
        for start, one in zip(self._starts, self._ranges, strict=False):
            if one.ledger == position.ledger and one.first <= position.entry <= one.last:
                return start + position.entry - one.first
        return None


class Search:
    """Searches one partition."""

    def __init__(
        self,
        topic: str,
        client: PulsarClient,
        admin: Admin,
        metrics: StorageMetrics,
        maker: BatchMaker,
        index: OffsetIndex,
        threads: WorkerThreads,
    ) -> None:
        self._topic = topic
        self._client = client
        self._admin = admin
        self._metrics = metrics
        self._maker = maker
        self._index = index
        self._threads = threads
        self.markers = Markers(topic, admin)

    async def find_offset(self, offset: int) -> Batch | None:
        """The entry that holds `offset`, or the first after it; None beyond the end."""
        before, after = self._index.around(offset)
        if before is not None:
            # most start where somebody has been: at the log's beginning, or where another consumer went on
            near = await self.read_batch(Position(*before))
            if near is not None and near.base <= offset < near.next:
                return near
        return await self._first(lambda batch: batch.next > offset, before, after)

    async def last_position(self) -> Position:
        """The last entry's position, EARLIEST if there is none."""
        return await self._client.last_position(self._topic)

    async def next_offset_when_empty(self) -> int:
        """The next offset of a log without entries: 0, or what the broker remembers of those it has trimmed."""
        info = await self._admin.internal_info(self._topic)
        properties = info.get("properties") or {}
        return int(properties.get("index", -1)) + 1

    async def find_time(self, timestamp: int) -> Batch | None:
        """An entry before which no record is as new as `timestamp` (ms), near the first that is; None: past the end."""
        self._metrics.cold_lookups.inc()
        stretch = _NumberedEntries([one for one in await self._ranges(None, None) if one.last >= one.first])
        begin = left = 0  # all before `begin` is ruled out; to the left of `left` nothing more can be learnt
        right = stretch.length
        while left < right:
            middle = (left + right) // 2
            batch = await self.read_batch(stretch.position(middle))
            number = None if batch is None else stretch.number(batch.position)
            if batch is None or number is None or number >= right:
                right = middle
                continue
            mark = await batch.time_mark(self._threads)
            if mark.complete < 0 and mark.newest < timestamp - DISORDER_MS:
                begin = left = number + 1
            elif mark.complete >= 0 and mark.newest < timestamp:
                left = number + 1
                begin = max(begin, left - max(batch.next - mark.complete, 0))  # an entry has one record at least
            else:
                right = middle
        return None if begin >= stretch.length else await self.read_batch(stretch.position(begin))

    async def read_batch(self, position: Position) -> Batch | None:
        """The entry at this position, or the first after it; None beyond the end.

        Another than the one asked for comes where the asked one is trimmed, or is a marker that the broker keeps.
        """
        entry = await self._client.read_entry(self._topic, position, self.markers.are_markers)
        return None if entry is None else self.index_entry(entry)

    def index_entry(self, entry: Entry) -> Batch:
        """An entry's batch; searches begin from where it stands from now on."""
        batch = self._maker.make_single(entry)
        self._index.add(batch.base, (batch.position.ledger, batch.position.entry))
        return batch

    async def last_batch(self, position: Position) -> Batch | None:
        """The last entry, of which this is the position; the last that is no marker; None if there is none."""
        batch = await self.read_batch(position)
        if batch is None:
            visible = await self.markers.last_visible(position)
            batch = None if visible == EARLIEST else await self.read_batch(visible)
        return batch

    async def position_before_last(self, count: int) -> Position:
        """The position behind which the last `count` entries stand, over as many ledgers as they take; EARLIEST where
        there are fewer."""
        for ledger in reversed(await self._admin.ledgers(self._topic)):
            if ledger.entries > count:
                return Position(ledger.ledger_id, ledger.entries - count - 1)
            count -= ledger.entries
        return EARLIEST

    async def first_chunk(self, position: Position) -> Position:
        """Where to start reading so that the message at `position` is whole: its first chunk, else itself."""
        entry = await self._client.read_entry(self._topic, position)
        if entry is None or not is_chunk(entry.metadata):
            return position
        uuid, chunk = entry.metadata.uuid, entry.metadata.chunk_id
        ranges = await self._ranges(None, position)
        steps = 0
        for stretch in reversed(ranges):
            for number in range(stretch.last, stretch.first - 1, -1):
                if chunk == 0 or steps > _MAX_CHUNKS_BACK:
                    return position
                steps += 1
                entry = await self._client.read_entry(self._topic, Position(stretch.ledger, number))
                if entry is not None and is_chunk(entry.metadata) and entry.metadata.uuid == uuid:
                    position, chunk = entry.position, entry.metadata.chunk_id
        return position

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
