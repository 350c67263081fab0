"""What counts on the hot path: plain numbers, as cheap as an addition."""

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, amount: int = 1) -> None:
        """Add to it."""
        self.value += amount


class Gauge:
    """A number that goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, amount: int = 1) -> None:
        """Add to it."""
        self.value += amount

    def dec(self, amount: int = 1) -> None:
        """Take from it."""
        self.value -= amount

    def set(self, value: int) -> None:
        """Replace it."""
        self.value = value


class Histogram:
    """Durations in seconds, counted by bucket."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """The cumulative buckets as Prometheus wants them."""
        seen = 0
        result: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, SECONDS), "+Inf"), self.counts, strict=True):
            seen += count
            result.append((bound, seen))
        return result


class Level(NamedTuple):
    """How much there is of something that has a limit."""

    used: Callable[[], int]
    limit: int
