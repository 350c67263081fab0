"""Lookups by time in one partition: the first record at or after a time, and the newest record (KIP-79, KIP-734)."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from bridge.runtime.threads import WorkerThreads
from bridge.storage import entries
from bridge.storage.read.log_end import LogEnd
from bridge.storage.read.search import Search


class TimeOffset(NamedTuple):
    """A record found by its time."""

    offset: int
    timestamp: int


class TimeLookup:
    """`read` returns the batches from an offset on; none if no record is stored from there on."""

    def __init__(
        self,
        search: Search,
        end: LogEnd,
        earliest: Callable[[], Awaitable[int]],
        read: Callable[[int], Awaitable[list[bytes]]],
        threads: WorkerThreads,
    ) -> None:
        self._search = search
        self._end = end
        self._earliest = earliest
        self._read = read
        self._threads = threads

    async def at(self, timestamp: int) -> TimeOffset | None:
        """The first record at or after `timestamp` (ms); None if there is none before the known end."""
        begin = await self._search.find_time(timestamp)
        if begin is None:
            return None
        start = await self._earliest()
        offset = max(begin.base, start)
        while offset < self._end.offset:
            found = await self._read(offset)
            if not found:
                break
            for data in found:
                newest, offset = entries.summary(data)
                if newest < timestamp or entries.is_control(data):
                    continue
                first = await self._threads.run(_first_record, data, timestamp, start)
                if first is not None:
                    return first
        return None

    async def newest(self) -> TimeOffset | None:
        """The first record with the highest timestamp; None if there is no record.

        The last entry's time mark is a guess. Records that were in flight with it may be newer, and one as new as the
        mark may not have been stored. What others have written promises nothing, and may be newer by any time.
        """
        last = await self._search.last_batch(await self._search.last_position())
        if last is None:
            return None
        guess = (await self._search.time_mark(last)).newest
        found = await self.at(guess)
        if found is None:
            return await self._newest_below(await self.at(-1), guess)
        step = 1
        while (newer := await self.at(found.timestamp + step)) is not None:
            found, step = newer, 2 * step
        return await self._newest_below(found, found.timestamp + step)

    async def _newest_below(self, best: TimeOffset | None, high: int) -> TimeOffset | None:
        """The newest record, where none is as new as `high`; `best`: the first one that is as new as itself."""
        while best is not None and best.timestamp + 1 < high:
            middle = (best.timestamp + high + 1) // 2
            found = await self.at(middle)
            if found is None:
                high = middle
            else:
                best = found
        return best


def _first_record(batches: bytes, timestamp: int, start: int) -> TimeOffset | None:
    for record in entries.each_record(batches):
        if record.timestamp >= timestamp and record.offset >= start:
            return TimeOffset(record.offset, record.timestamp)
    return None
