"""Virtual time, and the chance of one seed."""

import heapq
import random
from collections.abc import Callable


class Clock:
    """Events in the order of their times."""

    start_within = 0.2
    """Seconds within which nodes start that start together."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.chance = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Do this then."""
        self._count += 1
        heapq.heappush(self._events, (max(when, self.now), self._count, what))

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Do this so much later."""
        self.at(self.now + seconds, what)

    def run(self, until: float) -> None:
        """Let time pass."""
        while self._events and self._events[0][0] <= until:
            self.now, _, what = heapq.heappop(self._events)
            what()
        self.now = until

    def latency(self) -> float:
        """How long a message is under way: 3 to 30 ms, two in a thousand up to 0.9 s."""
        if self.chance.random() < 0.002:
            return self.chance.uniform(0.2, 0.9)
        return self.chance.uniform(0.003, 0.03)
