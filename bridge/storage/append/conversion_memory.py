"""The memory of entries that are much larger than the batches they were made from, until Pulsar has stored them.

The memory of requests counts the bytes received, and entries are usually about as large. They are not if a batch of
20 KB decompresses to 20 MB and the topic has another codec. What exceeds twice the bytes received is counted here.
"""

import asyncio

from bridge.runtime.fairness import FairSemaphore

MAX_BYTES = 128 << 20
"""Bytes of all clients together."""
MAX_EXCESS_BYTES = 64 << 20
"""Bytes of one request, which waits for all of them at once."""


class ConversionMemory:
    """The memory of all entries together."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self.held = 0
        self.limit = limit
        self._head = FairSemaphore(1)  # held by the caller that waits for memory; the others behind it take turns
        self._waiting = 0
        self._released = asyncio.Event()

    def try_acquire(self, count: int) -> bool:
        """Take so many bytes if they are free, and no caller waits for any."""
        if count and (self._waiting or self.held + count > self.limit):
            return False
        self.held += count
        return True

    async def acquire(self, count: int) -> None:
        """Take so many bytes when they are free. A caller that holds some must not wait: others may do the same."""
        self._waiting += 1
        try:
            async with self._head:
                while self.held + count > self.limit:
                    self._released.clear()
                    await self._released.wait()
                self.held += count
        finally:
            self._waiting -= 1

    def release(self, count: int) -> None:
        """Return so many bytes."""
        self.held -= count
        self._released.set()


class Reservation:
    """The part of one entry, until it is released."""

    __slots__ = ("_memory", "_size")

    def __init__(self, memory: ConversionMemory, size: int) -> None:
        self._memory = memory
        self._size = size

    def release(self) -> None:
        """Return the bytes; a second call changes nothing."""
        size, self._size = self._size, 0
        if size:
            self._memory.release(size)
