"""Limits how much runs concurrently; requesters (`scheduler.REQUESTER`) take turns.

A connection sets the requester for its requests, so that the many queries of one client's request wait behind each
other and not before those of all other clients.
"""

import asyncio
import math
from collections import OrderedDict, deque
from types import TracebackType

from bridge.runtime.scheduler import REQUESTER


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
    """A semaphore whose places go to the requesters in turn, not to the first waiter."""

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


class Places:
    """A few places for work on things that do not depend on each other: one that hangs holds up no other.

    Who has a place loses it after a moment, and goes on without. So what is quick runs a few at a time, and what hangs
    costs the others that moment, not all of its time. It ends with TimeoutError after `most_seconds`, or sooner if more
    than `most_slow` go on without a place: then the one that has had the longest. Where neither is given it never does.
    """

    def __init__(
        self, places: int, *, seconds: float, most_seconds: float | None = None, most_slow: float = math.inf
    ) -> None:
        """`seconds`: how long a place is kept at most."""
        self.seconds, self.most_seconds = seconds, most_seconds
        self._free = FairSemaphore(places)
        self._slow: dict[Place, None] = {}
        self._most_slow = most_slow

    async def take(self) -> "Place":
        """Wait for a place: an async context manager for the work."""
        await self._free.acquire()
        return Place(self)

    def left(self, place: "Place") -> None:
        """It goes on without its place."""
        self._slow[place] = None
        if len(self._slow) > self._most_slow:
            longest = next(iter(self._slow))
            del self._slow[longest]
            longest.end()
        self._free.release()

    def done(self, place: "Place", *, kept: bool) -> None:
        """Its work is over; `kept`: it had its place until now."""
        self._slow.pop(place, None)
        if kept:
            self._free.release()


class Place:
    """One of `Places`, for one piece of work."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._limit = asyncio.timeout(places.most_seconds)
        self._kept = True
        self._timer = asyncio.get_running_loop().call_later(places.seconds, self._leave)

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._places.done(self, kept=self._kept)
        await self._limit.__aexit__(kind, error, traceback)

    def end(self) -> None:
        """End the work with TimeoutError."""
        if not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())

    def _leave(self) -> None:
        self._kept = False
        self._places.left(self)
