"""Readers for consumers that are behind the tail's memory: one for each, closed when idle or caught up."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from bridge.futures import retrieve_exception
from bridge.metrics import StorageMetrics
from bridge.pulsar.consumer import Reader
from bridge.storage.read.batches import Batch, BatchMaker


class CatchUpReader:
    """One reader somewhere in a partition, with the batches that it has received and its client has not passed yet.

    The batches of the last read stay until the next one: a client may ask again for what it did not get.
    """

    def __init__(self, reader: Reader, start: int, maker: BatchMaker, keep: Callable[[Batch], Batch]) -> None:
        """`keep`: adds a batch to the partition's memory; the one of its place that was there before, if there was."""
        self._reader = reader
        self._maker = maker
        self._keep = keep
        self._batches: deque[Batch] = deque()
        self._from = start  # everything from this offset on is in the deque or still to be received
        self._lock = asyncio.Lock()
        self._closed = False
        self.is_interrupted = False
        """Whether a read was ended in its midst: what it had taken is lost with it."""
        self.used = 0.0  # loop time

    def covers(self, offset: int) -> bool:
        """Whether a read at `offset` can be served without going back."""
        end = self._batches[-1].next if self._batches else self._from
        return self._from <= offset <= end

    @property
    def busy(self) -> bool:
        """Whether a read is under way."""
        return self._lock.locked()

    async def read(self, offset: int, max_bytes: int, first_timeout: float) -> list[Batch] | None:
        """The batches from the one with `offset`, or the next after, on; `first_timeout`: seconds for the first.

        None where a read that was waited for has gone past the offset, or was interrupted.
        """
        async with self._lock:
            if self._closed or not self.covers(offset):
                return None
            self._drop_before(offset)
            try:
                await self._fill(offset, max_bytes, first_timeout)
            except BaseException:
                self.is_interrupted = True
                raise
            return _up_to(self._batches, max_bytes)

    async def _fill(self, offset: int, max_bytes: int, first_timeout: float) -> None:
        size = sum(batch.size for batch in self._batches)
        while size < max_bytes:
            entry = self._reader.receive_nowait()
            if entry is None:
                if any(batch.next > offset for batch in self._batches):
                    break
                try:
                    async with asyncio.timeout(first_timeout):
                        entry = await self._reader.receive()
                except TimeoutError:
                    break
            batch = self._maker.make(entry)
            if batch is not None and batch.next > offset:
                self._batches.append(self._keep(batch))
                size += batch.size

    def _drop_before(self, offset: int) -> None:
        while self._batches and self._batches[0].next <= offset:
            self._from = self._batches.popleft().next
        self._from = max(self._from, min(offset, self._batches[0].base if self._batches else offset))

    async def close(self) -> None:
        """Close the reader."""
        self._closed = True
        await self._reader.close()


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
    """All such readers of the process, up to a limit: the least recently used is closed first."""

    def __init__(self, limit: int, idle_seconds: float, metrics: StorageMetrics) -> None:
        self._limit = limit
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
        passed = [c for c, whose in self._readers.items() if whose is owner and c.covers(offset) and not c.busy]
        if passed:
            for reader in passed:  # at once, as closing takes a moment
                del self._readers[reader]
            task = asyncio.get_running_loop().create_task(self._close(passed))
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
