"""The most recent batches of one partition, kept in memory for all its consumers.

Entries come from a reader. Those that this process has written come from its own appends as soon as they are
acknowledged, because Pulsar wakes a reader up to 10 ms after it has sent the receipt.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable

from bridge.errors import BridgeError
from bridge.pulsar.consumer import Reader
from bridge.pulsar.types import Entry, Position
from bridge.storage.read.batches import Batch, BatchMaker, EarlierChunks
from bridge.storage.read.cache import Cache, OlderBatches
from bridge.storage.read.log_end import LogEnd
from bridge.telemetry import log

_log = log.get(__name__)

_MAX_AHEAD_BYTES = 4 << 20
"""Entries appended here that the reader has not reached yet; beyond that the reader brings them."""
_ENTRY_OVERHEAD_BYTES = 2048
"""What each of these entries counts for beside its own bytes."""


class TopicRecreated(BridgeError):
    """Offsets went back, which they never do in one topic: it was deleted and created again."""


class Tail:
    """A run of consecutive batches up to the end of the partition, growing as entries are received or appended."""

    def __init__(
        self,
        reader: Reader,
        end: LogEnd,
        cache: Cache,
        maker: BatchMaker,
        on_failure: Callable[[BridgeError], None],
        reached: Position,
        earlier_chunks: EarlierChunks,
    ) -> None:
        """`reached`: the position after which the reader starts; EARLIEST where the partition is empty.
        `earlier_chunks`: for a message that begins before it."""
        self._reader = reader
        self._end = end
        self._share = cache.recent
        self.older = OlderBatches(cache)
        self._maker = maker
        self._on_failure = on_failure
        self._earlier_chunks = earlier_chunks
        self._batches: list[Batch | None] = []
        self.next = 0  # the offset after the last entry
        self.begin: int | None = None
        """The offset of the first entry that was added."""
        self._ahead: dict[int, Entry] = {}  # by base offset: appended here, while entries before them are missing
        self._ahead_bytes = 0
        self._waiters: list[asyncio.Future[None]] = []
        self.reached = reached  # the last entry that was read or appended, with all before it
        end.reached = reached
        self._dropped = 0  # items at the front of the list that are None; removed in bulk
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"tail {reader.topic}")

    def start_with(self, batch: Batch) -> None:
        """Add the entry after which the reader starts, before the reader brings any."""
        self._append(batch)
        self._maker.next = batch.next

    async def close(self) -> None:
        """Close the reader and free the memory."""
        self._task.cancel()
        self._end.reached = None
        self._share.remove([batch for batch in self._batches if batch is not None])
        self.older.close()
        self._batches.clear()
        self._ahead.clear()
        self._ahead_bytes = 0
        await self._reader.close()

    @property
    def is_running(self) -> bool:
        """Whether the reader still runs."""
        return not self._task.done()

    @property
    def is_attached(self) -> bool:
        """Whether the reader gets what is written: it has a broker."""
        return self.is_running and self._reader.attached

    def add_waiter(self, waiter: "asyncio.Future[None]") -> None:
        """Set this future when the tail has another entry, or ends."""
        self._waiters.append(waiter)

    async def last_stored(self) -> Position:
        """The position of the last entry in Pulsar."""
        return await self._reader.last_position()

    def slice(self, offset: int, max_bytes: int) -> list[Batch] | None:
        """The batches from the one with `offset` on, up to `max_bytes` but at least one; None if not in memory."""
        batches = self._batches
        first = batches[self._dropped] if len(batches) > self._dropped else None
        if first is None or offset < first.certain_from:
            return None
        at = bisect_right(batches, offset, lo=self._dropped, key=_next)
        found: list[Batch] = []
        size = 0
        for number in range(at, len(batches)):
            batch = batches[number]
            if batch is None:
                break
            size += batch.size
            if found and size > max_bytes:
                break
            found.append(batch)
        return found

    def drop(self, batch: Batch) -> None:
        """Drop the oldest batch: the cache has chosen it."""
        if self._dropped < len(self._batches) and self._batches[self._dropped] is batch:
            self._batches[self._dropped] = None
            self._dropped += 1
            if self._dropped > 64 and self._dropped * 2 > len(self._batches):
                del self._batches[: self._dropped]
                self._dropped = 0

    def add_appended(self, base: int, entry: Entry) -> None:
        """Add an own entry that Pulsar has acknowledged, as soon as all entries before it are here."""
        if base < self.next:
            return
        self._ahead[base] = entry
        self._ahead_bytes += entry.size + _ENTRY_OVERHEAD_BYTES
        self._append_those_ahead()
        while self._ahead_bytes > _MAX_AHEAD_BYTES:
            self._pop_first_ahead()

    async def _run(self) -> None:
        try:
            while True:
                entry = await self._reader.receive()
                if entry.position <= self.reached:
                    continue  # it was added when it was acknowledged
                if self._maker.lacks_earlier(entry):
                    await self._maker.read_earlier(entry, self._earlier_chunks)
                self._append(self._maker.make(entry))
                self._append_those_ahead()
                self._reach(max(self.reached, entry.position))
        except BridgeError as error:
            _log.warning("! tail ended", extra={"topic": self._reader.topic, "error": str(error)})
            self._on_failure(error)
        finally:
            self._end.reached = None
            self._end.wake_waiters()
            self._wake_waiters()

    def _reach(self, position: Position) -> None:
        self.reached = self._end.reached = position
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _append(self, batch: Batch | None) -> None:
        if batch is None:
            return
        if batch.base < self.next:
            raise TopicRecreated(f"offset {batch.base} follows {self.next}")
        self.next = batch.next
        if self.begin is None:
            self.begin = batch.base
        self._batches.append(batch)
        self._share.add(self, batch)
        self._end.observe_entry(batch)
        self._end.advance_readable(batch.next)

    def _append_those_ahead(self) -> None:
        while self._ahead:
            base = next(iter(self._ahead))  # they were appended in the order of their offsets
            if base > self.next:
                return
            entry = self._pop_first_ahead()
            if base == self.next and not self._maker.lacks_earlier(entry):  # else the reader brings it
                self._append(self._maker.make(entry))
                self._reach(entry.position)

    def _pop_first_ahead(self) -> Entry:
        entry = self._ahead.pop(next(iter(self._ahead)))
        self._ahead_bytes -= entry.size + _ENTRY_OVERHEAD_BYTES
        return entry


def _next(batch: Batch | None) -> int:
    return 0 if batch is None else batch.next
