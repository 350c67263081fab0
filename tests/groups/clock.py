"""A clock that tests turn."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import cast


class Handle:
    """A call that has been asked for."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """As an event loop's, but time passes only in `advance`."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.armed = 0
        """How many calls have been asked for."""
        self._calls: list[tuple[float, int, Handle]] = []
        self._order = count()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None], /) -> asyncio.TimerHandle:
        handle = Handle(callback)
        self.armed += 1
        heapq.heappush(self._calls, (when, next(self._order), handle))
        return cast(asyncio.TimerHandle, handle)

    @property
    def waiting(self) -> int:
        return sum(not handle.cancelled for _, _, handle in self._calls)

    async def advance(self, seconds: float) -> None:
        """Let time pass; what is due by then is called, and what follows from it done."""
        end = self.now + seconds
        while self._calls and self._calls[0][0] <= end:
            when, _, handle = heapq.heappop(self._calls)
            self.now = max(self.now, when)
            if not handle.cancelled:
                handle.callback()
                await settle()
        self.now = end
        await settle()


async def settle() -> None:
    """Let all that needs no time be done."""
    for _ in range(10):
        await asyncio.sleep(0)
