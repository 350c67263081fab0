"""One timer of the event loop for the deadlines of all groups.

A deadline is in the heap at most once as it counts; setting it earlier leaves the later entry behind, which is passed
over when its time comes. Moving it away costs nothing: an alarm that is woken too early is set again. So a heartbeat,
which only moves deadlines away, never comes here.
"""

import asyncio
import heapq
from collections.abc import Callable
from math import inf
from typing import Generic, Protocol, TypeVar


class Alarm(Protocol):
    """Something that is to be woken at a time."""

    wake_at: float


class Clock(Protocol):
    """The part of an event loop that timers use."""

    def time(self) -> float:
        """Seconds since some point."""

    def call_at(self, when: float, callback: Callable[[], None], /) -> asyncio.TimerHandle:
        """Call back at that time."""


A = TypeVar("A", bound=Alarm)


class Timers(Generic[A]):
    """Calls `wake(alarm, now)` when its `wake_at` has come; `wake_at` is infinite again by then."""

    def __init__(self, clock: Clock, wake: Callable[[A, float], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._heap: list[tuple[float, int, A]] = []
        self._count = 0  # alarms cannot be compared
        self._armed_at = inf
        self._handle: asyncio.TimerHandle | None = None

    def set(self, alarm: A, when: float) -> None:
        """Wake it at that time, or earlier if it was set earlier."""
        if when < alarm.wake_at:
            alarm.wake_at = when
            self._count += 1
            heapq.heappush(self._heap, (when, self._count, alarm))
            self._arm()

    def close(self) -> None:
        """Wake no alarm any more."""
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()

    def _arm(self) -> None:
        if self._heap and self._heap[0][0] < self._armed_at:
            if self._handle is not None:
                self._handle.cancel()
            self._armed_at = self._heap[0][0]
            self._handle = self._clock.call_at(self._armed_at, self._fire)

    def _fire(self) -> None:
        # the loop may call a little early, by the resolution of its clock: then for what it was armed for
        now = max(self._clock.time(), self._armed_at)
        self._armed_at, self._handle = inf, None
        due = []
        while self._heap and self._heap[0][0] <= now:
            when, _, alarm = heapq.heappop(self._heap)
            if alarm.wake_at == when:
                alarm.wake_at = inf
                due.append(alarm)
        try:
            for alarm in due:
                self._wake(alarm, now)
        finally:
            self._arm()
