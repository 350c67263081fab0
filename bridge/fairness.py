"""Limits how much runs concurrently; requesters take turns.

The requester is a context variable, which tasks inherit. A connection sets it for its requests, so that the many
queries of one client's request wait behind each other and not before those of all other clients.
"""

import asyncio
from collections import OrderedDict, deque
from contextvars import ContextVar
from types import TracebackType

REQUESTER: ContextVar[object] = ContextVar("requester", default=None)
"""The connection on whose behalf something runs; None: the process itself."""


class Quota:
    """A number of something that all clients share."""

    def __init__(self, most: int) -> None:
        self._left = most

    @property
    def left(self) -> int:
        """How much of it is left."""
        return self._left

    def acquire(self, count: int) -> bool:
        """Take so many, if they are left."""
        if count > self._left:
            return False
        self._left -= count
        return True

    def release(self, count: int) -> None:
        """Return them."""
        self._left += count


class FairSemaphore:
    """As `asyncio.Semaphore`, but a place that becomes free goes to the requesters in turn, not to the first waiter."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: OrderedDict[object, deque[asyncio.Future[None]]] = OrderedDict()

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting.values()))

    async def __aenter__(self) -> None:
        await self.acquire()

    async def acquire(self) -> None:
        """Wait for a place and take it; `release` returns it."""
        if self._free > 0 and not self._waiting:
            self._free -= 1
            return
        requester = REQUESTER.get()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(requester, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it got a place at the same moment
                self.release()
            else:
                self._leave(requester, turn)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Return a place: it goes to the next requester, which then waits until all others had one."""
        while self._waiting:
            requester, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            if turns:
                self._waiting.move_to_end(requester)
            else:
                del self._waiting[requester]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _leave(self, requester: object, turn: "asyncio.Future[None]") -> None:
        turns = self._waiting.get(requester)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[requester]
