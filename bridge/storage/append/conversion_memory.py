"""The memory of entries that are much larger than the batches they were made from, until Pulsar holds them.

The memory of requests counts the bytes received; so far entries are about as large. A batch of 20 KB that opens to
20 MB is not, where the topic's codec is another: what is made beyond twice the bytes that came counts here.
"""

import asyncio

from bridge.fairness import FairSemaphore

MAX_BYTES = 128 << 20
"""Bytes of all clients together."""
MAX_EXCESS_BYTES = 64 << 20
"""Bytes of one request, which waits for all of them at once."""


class ConversionMemory:
    """What all entries have together."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self.held = 0
        self._limit = limit
        self._head = FairSemaphore(1)  # who waits for room; the others behind it take turns
        self._waiting = 0
        self._released = asyncio.Event()

    def try_acquire(self, count: int) -> bool:
        """Take so many bytes if they are free, and nobody waits for some."""
        if count and (self._waiting or self.held + count > self._limit):
            return False
        self.held += count
        return True

    async def acquire(self, count: int) -> None:
        """Take so many bytes when they are free. Who holds some must not wait for more: others may do the same."""
        self._waiting += 1
        try:
            async with self._head:
                while self.held + count > self._limit:
                    self._released.clear()
                    await self._released.wait()
                self.held += count
        finally:
            self._waiting -= 1

    def release(self, count: int) -> None:
        """Give so many back."""
        self.held -= count
        self._released.set()


class Reservation:
    """What one entry has of it, until it is given back."""

    __slots__ = ("_memory", "_size")

    def __init__(self, memory: ConversionMemory, size: int) -> None:
        self._memory = memory
        self._size = size

    def release(self) -> None:
        """The entry is let go of; again, nothing happens."""
        size, self._size = self._size, 0
        if size:
            self._memory.release(size)
