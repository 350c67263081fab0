"""Deadlines of requests, of which hardly any runs out: one timer of the event loop for all of them.

A timer of the loop for each costs as much as a twentieth of all that a small request takes.
"""

import asyncio
from typing import Final, Protocol
from weakref import WeakKeyDictionary

_STEP_SECONDS: Final = 0.25
"""So late one may be told. What has less time than some of these has a timer of its own."""
_PRECISE_SECONDS: Final = 20 * _STEP_SECONDS
_AT_ONCE: Final = 100
"""Told in one iteration of the event loop."""


class Expiring(Protocol):
    """Something that waits until a deadline at most."""

    def expired(self) -> None:
        """It has waited too long."""


class DeadlinePlace(Protocol):
    """Where something waits by its key: a dict, in which it is no more once it has its answer."""

    def pop(self, waiting: Expiring, default: None, /) -> None:
        """It waits no more."""


class _Timer:
    """One that has a timer of its own."""

    __slots__ = ("_handle",)

    def __init__(self, handle: asyncio.TimerHandle) -> None:
        self._handle = handle

    def pop(self, waiting: Expiring, default: None, /) -> None:
        self._handle.cancel()


class Deadlines:
    """The deadlines of one event loop, with one timer for all of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[int, dict[Expiring, None]] = {}  # by step; not sets, which have another order each time
        self._timer: asyncio.TimerHandle | None = None

    def add(self, waiting: Expiring, deadline: float) -> DeadlinePlace:
        """Tell it when the deadline (loop time) is over, unless it is popped before."""
        if deadline - self._loop.time() < _PRECISE_SECONDS:
            return _Timer(self._loop.call_at(deadline, waiting.expired))
        step = int(deadline / _STEP_SECONDS) + 1
        place = self._waiting.get(step)
        if place is None:
            place = self._waiting[step] = {}
            if self._timer is None:
                self._look_in(_STEP_SECONDS)
        place[waiting] = None
        return place

    def _look(self) -> None:
        """Tell what is due, and forget the steps at which nothing waits any more."""
        now, left = self._loop.time() / _STEP_SECONDS, _AT_ONCE
        for step in [step for step, place in self._waiting.items() if step <= now or not place]:
            place = self._waiting[step]
            while place and left:
                place.popitem()[0].expired()
                left -= 1
            if not place:
                del self._waiting[step]
        self._timer = None
        if self._waiting:
            self._look_in(_STEP_SECONDS if left else 0)

    def _look_in(self, seconds: float) -> None:
        self._timer = self._loop.call_at(self._loop.time() + seconds, self._look)


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Deadlines] = WeakKeyDictionary()


def deadlines() -> Deadlines:
    """Those of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _of_loops.get(loop)
    if found is None:
        found = _of_loops[loop] = Deadlines(loop)
    return found
