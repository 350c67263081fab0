"""When the first of many deadlines is due that are mostly moved away: O(log n) for each that is set or comes due.

A deadline that moves away stays where it is in the heap, and is put back with its new time when its old one has come.
So a heartbeat costs nothing here, and ten thousand members that come one by one are not looked through each time.
"""

import heapq
from collections.abc import Callable, Hashable
from itertools import count
from math import inf
from typing import Generic, TypeVar

_SPARE = 64

K = TypeVar("K", bound=Hashable)


class KeyDeadlines(Generic[K]):
    """The deadlines of keys that come and go; `deadline_of` tells a key's present one, None where it is gone."""

    def __init__(self, deadline_of: Callable[[K], float | None]) -> None:
        self._deadline_of = deadline_of
        self._heap: list[tuple[float, int, K]] = []
        self._watched: dict[K, float] = {}
        self._most = _SPARE  # entries before those of keys that are gone are taken out
        self._numbers = count()  # keys cannot be compared

    def watch(self, key: K, at: float) -> None:
        """The key's deadline is this now."""
        if at < self._watched.get(key, inf):
            self._push(key, at)
            if len(self._heap) > self._most:
                self._sort_out()

    def first(self) -> float:
        """No deadline is before this; inf: there is none."""
        while self._heap and self._is_stale(*self._heap[0]):
            self._pop()
        return self._heap[0][0] if self._heap else inf

    def due(self, now: float) -> list[tuple[float, K]]:
        """Those that have come, with their times; each is watched no more until it is set again."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            at, _, key = self._heap[0]
            stale = self._is_stale(at, 0, key)
            self._pop()
            deadline = None if stale else self._deadline_of(key)
            if deadline is None:
                continue
            if deadline <= now:
                found.append((deadline, key))
            else:
                self._push(key, deadline)
        return found

    def _is_stale(self, at: float, _: int, key: K) -> bool:
        return self._watched.get(key) != at or self._deadline_of(key) is None

    def _push(self, key: K, at: float) -> None:
        self._watched[key] = at
        heapq.heappush(self._heap, (at, next(self._numbers), key))

    def _pop(self) -> None:
        at, _, key = heapq.heappop(self._heap)
        if self._watched.get(key) == at:
            del self._watched[key]

    def _sort_out(self) -> None:
        kept = [entry for entry in self._heap if not self._is_stale(*entry)]
        heapq.heapify(kept)
        self._heap = kept
        self._watched = {key: at for at, _, key in kept}
        self._most = 2 * len(kept) + _SPARE
