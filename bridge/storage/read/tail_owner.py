"""Opens the tail of a partition when it is needed, learns from it where the log ends, and closes it when idle."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from bridge.codec import NO_TIMESTAMP
from bridge.config import Settings
from bridge.errors import BridgeError, KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.consumer import Reader
from bridge.pulsar.types import EARLIEST, LATEST, Entry, Position
from bridge.runtime.futures import SharedQuery, loop_time
from bridge.runtime.threads import WorkerThreads
from bridge.storage.entries import TimeMark
from bridge.storage.read.batches import Batch, BatchMaker
from bridge.storage.read.cache import Cache
from bridge.storage.read.chunks import is_chunk
from bridge.storage.read.log_end import LogEnd
from bridge.storage.read.search import Search
from bridge.storage.read.tail import Tail

_MARKER_CHECK_SECONDS = 1.0
"""How long to wait for an entry before asking whether it is a marker, which no reader gets."""
_MAX_ENTRIES_FROM_END = 64
_FREQUENT_REFRESH_SECONDS = 5.0
"""If the end is asked for more often than this, a reader at the tail is cheaper."""


class TailOwner:
    """The owner of one partition's tail: it opens, shares and closes it."""

    def __init__(
        self,
        end: LogEnd,
        search: Search,
        reader: Callable[[Position], Awaitable[Reader]],
        on_failure: Callable[[BridgeError], None],
        cache: Cache,
        make_maker: Callable[[], BatchMaker],
        threads: WorkerThreads,
        settings: Settings,
    ) -> None:
        """`reader` opens a reader at a position. `on_failure` is called when a tail has ended by itself."""
        self.end_loaded = False
        """Whether the end of the log has been learnt once."""
        self._cache = cache
        self._make_maker = make_maker
        self._threads = threads
        self._settings = settings
        self._end = end
        self._search = search
        self._reader = reader
        self._on_failure = on_failure
        self._tail: Tail | None = None
        self._opening = asyncio.Lock()
        self._shared_refresh = SharedQuery(self._refresh_end)
        self._opening_task: asyncio.Task[None] | None = None
        self._used_at = loop_time()
        self._refreshed_at = float("-inf")
        self._closed = False

    @property
    def running(self) -> Tail | None:
        """The tail, while it runs."""
        return self._tail if self._tail is not None and self._tail.is_running else None

    @property
    def met_from(self) -> int | None:
        """The offset from which on all that is stored has come to the tail, as far as the end is known; None without
        a tail."""
        tail = self.running
        if tail is None:
            return None
        return self._end.offset if tail.begin is None else tail.begin

    def use(self) -> Tail | None:
        """The tail, while it runs; it does not count as idle then."""
        self._used_at = loop_time()
        return self.running

    async def open(self, begin: Position | None = None) -> Tail:
        """The tail, opened if necessary; the end of the log as of this call is in it, or known to be before it.

        `begin`: where a client reads from. A new tail starts there if that is near the end: most partitions
        that are read from their beginning are small, and need no other reader then.
        """
        tail = self.use()
        if tail is not None:
            return tail
        async with self._opening:
            if self.running is None:
                await self._close()
                if begin is None or not await self._open_from(begin):
                    await self._open()
            assert self._tail is not None  # noqa: S101 — just opened
            return self._tail

    async def open_at_start(self) -> int | None:
        """The offset at which the log starts; None if it cannot be learnt in this way.

        The reader stays open as the tail if the start is near the end: the caller is about to read, and most logs are
        small.
        """
        async with self._opening:
            if self.running is not None:
                return None
            await self._close()
            return await self._open_at_start()

    def mark_empty(self) -> None:
        """The log was created a moment ago: until an entry shows otherwise, it is empty."""
        if not self.end_loaded:
            self._end.time_marks.load(TimeMark(NO_TIMESTAMP, 0), 0, 0)
            self.end_loaded = True

    async def load_end(self) -> None:
        """Learn where the log ends, without keeping a reader."""
        if not self.end_loaded:
            async with self._opening:
                if not self.end_loaded:
                    await self._set_end(await self._search.last_batch(await self._search.last_position()))

    async def refresh_end(self) -> None:
        """Advance the end to all that Pulsar holds as of this call; concurrent callers share one question."""
        await self._shared_refresh.look()

    def keep_open(self) -> None:
        """Open the tail for a while: entries read there have their offsets, so none has to be read back."""
        if self._opening_task is None or self._opening_task.done():
            self._opening_task = asyncio.get_running_loop().create_task(self._try_open())

    async def sweep(self, now: float) -> None:
        """Close the tail if it was not used for `storage.tail_idle_seconds`; `now`: loop time."""
        if self._end.has_waiters:
            self._used_at = now
        idle = now - self._used_at > self._settings.storage.tail_idle_seconds
        if idle and not self._opening.locked():
            await self._close()

    async def close(self) -> None:
        """Close the tail; one that is being opened is closed by the opening call."""
        self._closed = True
        if self._opening_task is not None:
            self._opening_task.cancel()
        await self._close()

    async def _close(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            await tail.close()

    async def _try_open(self) -> None:
        with suppress(BridgeError, TimeoutError):  # an open tail only saves work
            await self.open()

    async def _open(self) -> None:
        reader = await self._reader(LATEST)
        try:
            last = reader.start
            batch = await self._search.last_batch(last)
            if batch is not None or not self.end_loaded:
                await self._set_end(batch)
            if batch is not None:
                await self._search.make_certain(batch)
            self._check_open()
        except BaseException:
            await reader.close()
            raise
        tail = self._new_tail(reader, last)
        if batch is not None and batch.position == last and not batch.is_chunk:
            tail.start_with(batch)

    async def _open_from(self, begin: Position) -> bool:
        """Open the tail at an entry; False if that is too far from the end."""
        reader = await self._reader(begin)
        try:
            last = await reader.last_position()
            self._check_open()
            if not _is_near_end(begin, last):
                await reader.close()
                return False
        except BaseException:
            await reader.close()
            raise
        tail = self._new_tail(reader, begin.before)
        if not self.end_loaded:
            await self._load_end_from(tail, last)
        return True

    async def _load_end_from(self, tail: Tail, last: Position) -> None:
        """Wait until the tail has read the last entry, and take the end from it."""
        await self._wait_until_read(tail, last)
        newest = tail.slice(tail.next - 1, 1)
        if newest and newest[0].metadata is not None:  # a converted one's mark is gone
            await self._set_end(newest[0])
        else:
            await self._set_end(await self._search.last_batch(last))

    async def _open_at_start(self) -> int | None:
        reader = await self._reader(EARLIEST)
        try:
            last = await reader.last_position()
            first = None if last == EARLIEST else await _first_entry(reader)
            self._check_open()
            batch = None if first is None else self._search.index_entry(first)
            if batch is None or not _is_near_end(batch.position, last):
                await reader.close()
                return None if batch is None else batch.base
        except BaseException:
            await reader.close()
            raise
        tail = self._new_tail(reader, batch.position)
        tail.start_with(batch)
        if not self.end_loaded:
            await self._load_end_from(tail, last)
        return batch.base

    def _new_tail(self, reader: Reader, reached: Position) -> Tail:
        self._tail = Tail(
            reader, self._end, self._cache, self._make_maker(), self._on_failure, reached, self._search.earlier_chunks
        )
        return self._tail

    def _check_open(self) -> None:
        if self._closed:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition was closed meanwhile")

    async def _set_end(self, batch: Batch | None) -> None:
        """Set the end after the last entry; the offsets of the next entries are counted from it."""
        if batch is None:  # all entries are deleted
            end = max(await self._search.next_offset_when_empty(), self._end.offset)
            mark, base = TimeMark(NO_TIMESTAMP, end), end
        else:
            mark = await self._search.time_mark(batch)  # no await after this one
            self._end.anchor.observe(batch.position.ledger, batch.position.entry, batch.next)
            end, base = batch.next, batch.certain_from
        if not self.end_loaded:
            self._end.time_marks.load(mark, base, end)
        self._end.advance(end)
        self.end_loaded = True

    async def _refresh_end(self) -> None:
        """Ask the tail, or Pulsar where calls are rare: a monitor that looks at all partitions keeps no tails open."""
        before, self._refreshed_at = self._refreshed_at, loop_time()
        if self.running is not None or self._refreshed_at - before < _FREQUENT_REFRESH_SECONDS:
            tail = await self.open()
            await self._wait_until_read(tail, await tail.last_stored())
            return
        last = await self._search.last_position()
        if not self.end_loaded or last > Position(*self._end.anchor.position):
            async with self._opening:
                await self._set_end(await self._search.last_batch(last))

    async def _wait_until_read(self, tail: Tail, position: Position) -> None:
        """Wait until the tail has read the entry at `position`."""
        markers = self._search.markers
        async with asyncio.timeout(self._settings.pulsar.operation_timeout_seconds):
            while tail.is_running and tail.reached < position and not markers.are_known(tail.reached.after, position):
                grown: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                tail.add_waiter(grown)
                done, _ = await asyncio.wait((grown,), timeout=_MARKER_CHECK_SECONDS)
                if not done:
                    await markers.are_markers(tail.reached.after, position)
        if not tail.is_running:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the reader at the tail ended")


def _is_near_end(position: Position, last: Position) -> bool:
    return position.ledger == last.ledger and last.entry - position.entry <= _MAX_ENTRIES_FROM_END


async def _first_entry(reader: Reader) -> Entry | None:
    """The first entry; None if it is a chunk, or if none comes soon: the first may be a marker."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_MARKER_CHECK_SECONDS):
            entry = await reader.receive()
            return None if is_chunk(entry.metadata) else entry
    return None
