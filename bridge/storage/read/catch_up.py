"""Readers for consumers that are behind the tail's memory: one for each, closed when idle or caught up."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from bridge.errors import BridgeError, CorruptEntry
from bridge.pulsar.consumer import Reader
from bridge.pulsar.types import ClientClosed, Entry
from bridge.runtime.futures import TURN, retrieve_exception, yield_turn
from bridge.runtime.threads import WorkerThreads
from bridge.storage.read.batches import Batch, BatchMaker, EarlierChunks
from bridge.telemetry.metrics import StorageMetrics

_MAX_AHEAD_BYTES: Final = 2 << 20
"""What one reader holds at most that its client has not asked for, beside what waits to be received."""
_MOST_HELD: Final = 256 << 20
"""What all readers of a process hold: an entry each is little, and a large record each is not."""


class CatchUpReader:
    """One reader somewhere in a partition, with the batches that it has received and its client has not passed yet.

    It reads ahead: while the client works on an answer, what the next one will hold is received and converted. The
    batches of the last read stay until the next one: a client may ask again for what it did not get.
    """

    def __init__(
        self,
        reader: Reader,
        start: int,
        maker: BatchMaker,
        keep: Callable[[Batch], Batch],
        threads: WorkerThreads,
        earlier_chunks: EarlierChunks,
    ) -> None:
        """`keep`: adds a batch to the partition's memory; the one of its place that was there before, if there was.
        `threads`: where slow conversions run ahead; `earlier_chunks`: for a message that begins before the reader."""
        self._reader = reader
        self._maker = maker
        self._earlier_chunks = earlier_chunks
        self._held: Entry | None = None  # the next one: what is before it in its message is read first
        self._keep = keep
        self._threads = threads
        self._batches: deque[Batch] = deque()
        self._size = 0  # bytes of these batches
        self._limit = 0  # bytes of them up to which it reads ahead
        self._from = start  # everything from this offset on is in the deque or still to be received
        self._wanted = start  # the offset that was asked for last
        self._lock = asyncio.Lock()
        self._ahead: asyncio.Task[None] | None = None
        self._arrived: asyncio.Future[None] | None = None  # a read waits for the first batch
        self._failure: Exception | None = None  # of the reader: it brings no more
        self._closed = False
        self.is_interrupted = False
        """Whether a read has failed or was ended in its midst: it is of no use any more."""
        self.used = 0.0  # loop time

    def covers(self, offset: int) -> bool:
        """Whether a read at `offset` can be served without going back."""
        end = self._batches[-1].next if self._batches else self._from
        return self._from <= offset <= end

    @property
    def size(self) -> int:
        """The bytes that it holds."""
        return self._size

    @property
    def busy(self) -> bool:
        """Whether a read is under way."""
        return self._lock.locked()

    def read_nowait(self, offset: int, max_bytes: int) -> list[Batch] | None:
        """As `read`, what has come; None where that is nothing, or another read is under way."""
        if self._closed or self.busy or not self.covers(offset):
            return None
        return self._take(offset, max_bytes) or None

    async def read(self, offset: int, max_bytes: int, first_timeout: float) -> list[Batch] | None:
        """The batches from the one with `offset`, or the next after, on; `first_timeout`: seconds for the first.

        None where a read that was waited for has gone past the offset, or was interrupted.
        """
        async with self._lock:
            if self._closed or not self.covers(offset):
                return None
            try:
                found = self._take(offset, max_bytes)
                if not found:
                    await self._wait_for_first(first_timeout)
                    found = self._take(offset, max_bytes)
            except BaseException:
                self.is_interrupted = True
                raise
            return found

    def _take(self, offset: int, max_bytes: int) -> list[Batch]:
        """What has come from `offset` on; what follows is read ahead."""
        self._drop_before(offset)
        self._wanted = offset
        try:
            while self._size < max_bytes and self._failure is None and self._held is None:
                entry = self._reader.receive_nowait()
                if entry is None:
                    break
                if self._is_incomplete(entry):
                    self._held = entry
                else:
                    self._add(entry)
        except BridgeError as error:  # what came before it is good
            self._failure = error
        found = _up_to(self._batches, max_bytes)
        self._limit = sum(batch.size for batch in found) + min(max_bytes, _MAX_AHEAD_BYTES)
        if self._failure is None and self._size < self._limit and (self._ahead is None or self._ahead.done()):
            self._ahead = asyncio.get_running_loop().create_task(self._read_ahead())
        return found

    async def _wait_for_first(self, seconds: float) -> None:
        self._arrived = asyncio.get_running_loop().create_future()
        try:
            if self._failure is None:
                async with asyncio.timeout(seconds):
                    await self._arrived
        except TimeoutError:
            return
        finally:
            self._arrived = None
        if not self._batches and self._failure is not None:
            raise self._failure

    async def _read_ahead(self) -> None:
        """Receive and convert until there is enough for the next read; the reader is awaited here alone."""
        time = asyncio.get_running_loop().time
        until = time() + TURN
        try:
            while self._size < self._limit:
                entry = None if self._held is not None else self._reader.receive_nowait()
                if entry is None and self._held is None:
                    entry = await self._reader.receive()
                    until = time() + TURN
                if self._held is not None:  # also where a read has taken it while this waited for the next one
                    await self._add_held()
                    until = time() + TURN
                if entry is None:
                    continue
                if self._is_incomplete(entry):
                    self._held = entry
                    continue
                batch = self._add(entry)
                if batch is not None and not self._is_converted(batch):
                    with suppress(CorruptEntry):
                        await batch.convert(self._threads)
                if time() > until:
                    await yield_turn()
                    until = time() + TURN
        except Exception as error:  # noqa: BLE001 - who asks next gets it
            self._fail(error)

    def _is_converted(self, batch: Batch) -> bool:
        """Whether nothing is left to do; what does not take long is done."""
        if batch.is_converted:
            return True
        if batch.is_slow:
            return False
        with suppress(CorruptEntry):  # it is told to who asks for the batch
            batch.kafka()
        return True

    def _add(self, entry: Entry) -> Batch | None:
        batch = self._maker.make(entry)
        if batch is None or batch.next <= self._wanted:
            return None
        if batch.base == self._wanted:  # the first; what is before it ends there, or it would be that
            batch.follow(batch.base)
        batch = self._keep(batch)
        self._batches.append(batch)
        self._size += batch.size
        self._wake()
        return batch

    async def _add_held(self) -> None:
        """Add the last chunk of a message that began before the reader. Nothing else is taken meanwhile, and the caller
        adds what it has taken at once."""
        held = self._held
        assert held is not None  # noqa: S101 - as its callers have seen
        await self._maker.read_earlier(held, self._earlier_chunks)
        self._held = None
        self._add(held)

    def _is_incomplete(self, entry: Entry) -> bool:
        """Whether it has a record that is asked for, and whose first bytes were not read."""
        return entry.index is not None and entry.index >= self._wanted and self._maker.lacks_earlier(entry)

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._wake()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def _drop_before(self, offset: int) -> None:
        while self._batches and self._batches[0].next <= offset:
            batch = self._batches.popleft()
            self._size -= batch.size
            self._from = batch.next
        self._from = max(self._from, min(offset, self._batches[0].base if self._batches else offset))

    async def close(self) -> None:
        """Close the reader."""
        self._closed = True
        await self._reader.close()
        self._fail(ClientClosed("the reader was closed"))
        if self._ahead is not None:
            self._ahead.cancel()


def _up_to(batches: deque[Batch], max_bytes: int) -> list[Batch]:
    found: list[Batch] = []
    size = 0
    for batch in batches:
        size += batch.size
        if found and size > max_bytes:
            break
        found.append(batch)
    return found


class CatchUpReaders:
    """All catch-up readers of the process, up to limits: the least recently used is closed first."""

    def __init__(self, limit: int, idle_seconds: float, metrics: StorageMetrics, most_held: int = _MOST_HELD) -> None:
        """`limit`: of them; `most_held`: of the bytes of all."""
        self._limit = limit
        self._most_held = most_held
        self._idle = idle_seconds
        self._metrics = metrics
        self._readers: dict[CatchUpReader, object] = {}
        self._opening: dict[tuple[object, int], asyncio.Future[CatchUpReader | None]] = {}
        """By owner and offset: who asks for the same meanwhile waits for the same reader."""
        self._closing: set[asyncio.Task[None]] = set()

    async def read(
        self,
        owner: object,
        offset: int,
        max_bytes: int,
        first_timeout: float,
        make: Callable[[], Awaitable[CatchUpReader]],
    ) -> list[Batch]:
        """Read with the reader of `owner` (a partition) that is at `offset`, or with a new one."""
        found: list[Batch] | None = None
        while found is None:  # where others have the same reader, one of them may have moved it on
            found = await self._read(owner, offset, max_bytes, first_timeout, make)
        return found

    async def _read(
        self,
        owner: object,
        offset: int,
        max_bytes: int,
        first_timeout: float,
        make: Callable[[], Awaitable[CatchUpReader]],
    ) -> list[Batch] | None:
        reader = self._find(owner, offset) or await self._opened(owner, offset, make)
        if reader is None:
            return None
        reader.used = asyncio.get_running_loop().time()
        try:
            return await reader.read(offset, max_bytes, first_timeout)
        finally:
            if reader.is_interrupted:
                await self._close([reader])
            self._close_beyond_most_held(reader)

    async def _opened(
        self, owner: object, offset: int, make: Callable[[], Awaitable[CatchUpReader]]
    ) -> CatchUpReader | None:
        """A new reader, the same for all who ask meanwhile; None where who opened it for all was cancelled."""
        place = owner, offset
        under_way = self._opening.get(place)
        if under_way is not None:
            return await asyncio.shield(under_way)
        opening = self._opening[place] = asyncio.get_running_loop().create_future()
        opening.add_done_callback(retrieve_exception)
        try:
            await self._close_oldest_if_full()
            reader = await make()
        except Exception as error:
            opening.set_exception(error)
            raise
        else:
            self._readers[reader] = owner
            self._metrics.catchup_readers.set(len(self._readers))
            opening.set_result(reader)
            return reader
        finally:
            del self._opening[place]
            if not opening.done():
                opening.set_result(None)

    def read_nowait(self, owner: object, offset: int, max_bytes: int) -> list[Batch] | None:
        """What the reader of `owner` that is at `offset` has from there on; None where that is nothing."""
        reader = self._find(owner, offset)
        if reader is None:
            return None
        reader.used = asyncio.get_running_loop().time()
        found = reader.read_nowait(offset, max_bytes)
        self._close_beyond_most_held(reader)
        return found

    def covers(self, owner: object, offset: int) -> bool:
        """Whether a reader of `owner` is at `offset`."""
        return self._find(owner, offset) is not None

    def _find(self, owner: object, offset: int) -> CatchUpReader | None:
        found = (c for c, whose in self._readers.items() if whose is owner and c.covers(offset))
        return next(found, None)

    def release(self, owner: object, offset: int) -> None:
        """Close the readers of `owner` that have come to `offset`: the tail's memory serves its reads from here on."""
        if not self._readers:
            return
        self._close_soon(
            [c for c, whose in self._readers.items() if whose is owner and c.covers(offset) and not c.busy]
        )

    def _close_beyond_most_held(self, used: CatchUpReader) -> None:
        """Close others than this one that hold too much: their clients' next reads open new ones."""
        beyond = sum([reader.size for reader in self._readers]) - self._most_held
        if beyond <= 0:
            return
        closed: list[CatchUpReader] = []
        for reader in sorted(self._readers, key=lambda reader: reader.used):
            if beyond > 0 and reader.size and reader is not used and not reader.busy:
                closed.append(reader)
                beyond -= reader.size
        self._close_soon(closed)

    def _close_soon(self, readers: list[CatchUpReader]) -> None:
        if not readers:
            return
        for reader in readers:  # at once, as closing takes a moment
            del self._readers[reader]
        task = asyncio.get_running_loop().create_task(self._close(readers))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def sweep(self) -> None:
        """Close the readers that are idle."""
        before = asyncio.get_running_loop().time() - self._idle
        await self._close([c for c in self._readers if c.used < before and not c.busy])

    async def close(self, owner: object | None = None) -> None:
        """Close the readers of one partition, or all."""
        await self._close([c for c, whose in self._readers.items() if owner is None or whose is owner])

    async def _close_oldest_if_full(self) -> None:
        while len(self._readers) >= self._limit:
            idle = [reader for reader in self._readers if not reader.busy]
            if not idle:
                return  # all are in use; the connections' own limits bound their number
            await self._close([min(idle, key=lambda reader: reader.used)])

    async def _close(self, readers: list[CatchUpReader]) -> None:
        for reader in readers:
            self._readers.pop(reader, None)
        self._metrics.catchup_readers.set(len(self._readers))
        for reader in readers:
            await reader.close()
