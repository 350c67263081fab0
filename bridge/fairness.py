"""Limits how much is done at once, and lets all clients that wait take turns.

The asker is a context variable that tasks inherit. A connection sets it for its requests. So the many questions of one
client's request wait behind each other and not before other clients'.
"""

import asyncio
from collections import OrderedDict, deque
from contextvars import ContextVar
from types import TracebackType

REQUESTER: ContextVar[object] = ContextVar("asker", default=None)
"""On whose behalf something is done; None: the process itself."""


class Quota:
    """So many of something, for all."""

    def __init__(self, most: int) -> None:
        self._left = most

    def acquire(self, count: int) -> bool:
        """Take as many, if there are."""
        if count > self._left:
            return False
        self._left -= count
        return True

    def release(self, count: int) -> None:
        """Give them back."""
        self._left += count


class FairSemaphore:
    """As `asyncio.Semaphore`, but a place that becomes free goes to the askers in turn, not to who came first."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: OrderedDict[object, deque[asyncio.Future[None]]] = OrderedDict()

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting.values()))

    async def __aenter__(self) -> None:
        await self.acquire()

    async def acquire(self) -> None:
        """Take a place, when there is one; `release` gives it back."""
        if self._free > 0 and not self._waiting:
            self._free -= 1
            return
        asker = REQUESTER.get()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(asker, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given a place in the same moment
                self.release()
            else:
                self._leave(asker, turn)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Give a place to the next asker, who then has to wait until all others had one."""
        while self._waiting:
            asker, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            if turns:
                self._waiting.move_to_end(asker)
            else:
                del self._waiting[asker]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _leave(self, asker: object, turn: "asyncio.Future[None]") -> None:
        turns = self._waiting.get(asker)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[asker]
