"""Reads one partition from an offset on: from memory where the batches are there, else through a reader of its own."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.consumer import Reader
from bridge.pulsar.types import EARLIEST, Position
from bridge.runtime.futures import TURN, FutureWaiter, at_once, loop_time
from bridge.runtime.threads import WorkerThreads
from bridge.storage.error_mapping import translated
from bridge.storage.offsets import OffsetIndex
from bridge.storage.read.batches import Batch, BatchMaker, kafka_batches
from bridge.storage.read.catch_up import CatchUpReader, CatchUpReaders
from bridge.storage.read.log_end import LogEnd
from bridge.storage.read.log_start import LogStart
from bridge.storage.read.search import Search
from bridge.storage.read.stable_offset import StableOffset
from bridge.storage.read.tail import Tail
from bridge.storage.read.tail_owner import TailOwner
from bridge.telemetry.metrics import StorageMetrics

_MEMORY_FRESH_SECONDS = 1.0
"""How long older batches are served from memory before Pulsar is asked again what it has deleted."""
_OLD_MS = 43_200_000
_OLD_FRESH_SECONDS = 3600.0
"""The same of recent ones that are so old. Hours after Pulsar has deleted records, a day after they were stored, nobody
knows any more which of them were aborted (`transactions.pruning`)."""
_SCAN_BYTES = 1 << 20
_LONG_RUN_BYTES = 32 << 20
"""A reader leaves off where so much follows in memory; for less it is not worth to open another one behind it."""


class LogReader:
    """Reads one partition's log, from wherever a record is: memory, the tail, or Pulsar."""

    def __init__(
        self,
        *,
        start: LogStart,
        end: LogEnd,
        stable: StableOffset,
        earliest: Callable[[], Awaitable[int]],
        tails: TailOwner,
        search: Search,
        index: OffsetIndex,
        catch_up_readers: CatchUpReaders,
        open_reader: Callable[[Position], Awaitable[Reader]],
        make_maker: Callable[[], BatchMaker],
        threads: WorkerThreads,
        metrics: StorageMetrics,
    ) -> None:
        """`earliest` tells the log start as of seconds ago at most; `open_reader` opens one of Pulsar's at a position;
        `make_maker` makes what turns its entries into batches."""
        self._start = start
        self._end = end
        self._stable = stable
        self._earliest = earliest
        self._tails = tails
        self._search = search
        self._index = index
        self._catch_up_readers = catch_up_readers
        self._open_reader = open_reader
        self._make_maker = make_maker
        self._threads = threads
        self._metrics = metrics

    def read_nowait(
        self, offset: int, max_bytes: int, until: float = inf, *, committed: bool = False
    ) -> list[bytes] | None:
        """As `read`, from what is in memory; None where that is not enough to tell, or takes longer than `until` (loop
        time).

        Nothing, too, where what is stored at `offset` has not come yet: `end` wakes who waits for it when it has.
        """
        tail = self._tails.use()
        if tail is None or not self._start.offset <= offset <= self._end.offset:
            return None
        if offset == self._end.offset:
            self._catch_up_readers.release(self, offset)
            return []
        batches = self._slice_memory(tail, offset, max_bytes)
        if batches is None:
            batches = self._read_ahead(tail, offset, max_bytes)
        if not batches:
            return None if batches is None else []
        if committed and self._may_be_forgotten(batches):
            return None
        readable = self._stable.visible(batches) if committed else batches
        return (at_once(kafka_batches(readable, max_bytes, self._threads, until)) or None) if readable else []

    async def read(
        self, offset: int, max_bytes: int, timeout_seconds: float, *, committed: bool = False
    ) -> list[bytes]:
        """Kafka batches from the one that holds `offset` on: up to `max_bytes`, one at least, none at the end.

        The first may begin before `offset`. None also where what is stored there has not come to the tail yet: `end`
        wakes who waits for it. What is far from the tail is waited for, `timeout_seconds` for the first of it.
        `committed`: none of aborted transactions, and none from the first entry of an open one on.
        Raises KafkaError: OFFSET_OUT_OF_RANGE below the log start and above the end.
        """
        with translated(reading=True):
            near, _ = self._index.around(offset)
            tail = await self._tails.open(None if near is None else Position(*near))
            await self._check_range(tail, offset)
            if offset >= self._end.offset:
                return []
            if not tail.is_running:
                tail = await self._tails.open()
            batches = await self._batches(tail, offset, max_bytes, timeout_seconds)
            if committed and batches and self._may_be_forgotten(batches):
                await self._start.get_fresh(_OLD_FRESH_SECONDS)
                self._check_start(offset)
            readable = self._stable.visible(batches) if committed else batches
            return await kafka_batches(readable, max_bytes, self._threads, loop_time() + TURN)

    async def read_stored(self, offset: int, timeout_seconds: float) -> list[bytes]:
        """As `read`; waits for what is stored and has not come yet, so that nothing means that there is no record."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        while True:
            arrived = FutureWaiter()
            self._end.add_waiter(arrived)
            try:
                found = await self.read(offset, _SCAN_BYTES, timeout_seconds)
                if found or (self._tails.running is not None and self._tails.running.next >= self._end.offset):
                    return found
                async with asyncio.timeout_at(deadline):
                    await arrived.future
            finally:
                self._end.remove_waiter(arrived)

    async def close(self) -> None:
        """Close the readers of those who are behind the tail."""
        await self._catch_up_readers.close(self)

    async def _check_range(self, tail: Tail, offset: int) -> None:
        if offset > self._end.offset:  # another node or a native producer may have got there first
            await self._tails.refresh_end()
        recent = offset == self._end.offset or tail.slice(offset, 1)
        if recent and self._start.offset <= offset <= self._end.offset:
            return
        start = await self._earliest()
        if tail.older:
            start = await self._start.get_fresh(_MEMORY_FRESH_SECONDS)
        markers = self._search.markers
        if offset > max(self._end.offset, markers.end):
            await markers.find_behind()
        if not start <= offset <= max(self._end.offset, markers.end):
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is not in {start} … {self._end.offset}")

    async def _batches(self, tail: Tail, offset: int, max_bytes: int, timeout_seconds: float) -> list[Batch]:
        found = self._slice_memory(tail, offset, max_bytes)
        if found is None:
            self._metrics.cache_misses.inc()
            found = await self._catch_up_readers.read(
                self, offset, max_bytes, timeout_seconds, partial(self._open_catch_up_reader, offset)
            )
            if found and found[0].base > offset:
                await self._start.find()
                self._check_start(offset)
            if self._tails.running is tail:  # else it is closed
                tail.older.add(offset, found)
        return found

    def _check_start(self, offset: int) -> None:
        if offset < self._start.offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is below the log start {self._start.offset}")

    def _may_be_forgotten(self, batches: list[Batch]) -> bool:
        """Whether Pulsar may have deleted these so long ago that their transactions are not known any more."""
        is_old = batches[0].published_at < time.time() * 1000 - _OLD_MS
        return is_old and not self._start.is_fresh(_OLD_FRESH_SECONDS)

    def _slice_memory(self, tail: Tail, offset: int, max_bytes: int) -> list[Batch] | None:
        """What is in memory from `offset` on; None where nothing is, or where a reader there may as well go on."""
        found = tail.slice(offset, max_bytes)
        if found is not None:
            self._catch_up_readers.release(self, offset)
        elif self._start.is_fresh(_MEMORY_FRESH_SECONDS):
            if not self._catch_up_readers.covers(self, offset):
                found = tail.older.slice(offset, max_bytes) or None
            elif tail.older.follows(offset, _LONG_RUN_BYTES):
                self._catch_up_readers.release(self, offset)
                found = tail.older.slice(offset, max_bytes) or None
        if found is not None:
            self._metrics.cache_hits.inc()
        return found

    def _read_ahead(self, tail: Tail, offset: int, max_bytes: int) -> list[Batch] | None:
        """What a reader at `offset` has read ahead; None where that is nothing, or not to be trusted."""
        if not self._start.is_fresh(_MEMORY_FRESH_SECONDS):
            return None
        found = self._catch_up_readers.read_nowait(self, offset, max_bytes)
        if found is None or found[0].base > offset:
            return None
        tail.older.add(offset, found)
        self._metrics.cache_misses.inc()
        return found

    async def _open_catch_up_reader(self, offset: int) -> CatchUpReader:
        batch = await self._search.find_offset(offset)
        if batch is None:
            before, _ = self._index.around(offset)
            position = EARLIEST if before is None else Position(*before)
        else:
            position = batch.position
        reader = await self._open_reader(position)
        return CatchUpReader(reader, offset, self._make_maker(), self._keep, self._threads, self._search.earlier_chunks)

    def _keep(self, batch: Batch) -> Batch:
        """Let readers that read the same hold it once, and convert it once."""
        tail = self._tails.running
        return batch if tail is None else tail.older.keep(batch)
