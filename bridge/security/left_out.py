"""Offsets of a partition that readers of committed records do not get, though no entry there says so."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, NamedTuple

MAX_RUNS: Final = 4096
"""In one record: it is read in about a millisecond."""
MAX_PARTS: Final = 256
"""Records of one partition."""
_MAX_OFFSET: Final = (1 << 63) - 1


class Run(NamedTuple):
    """Consecutive offsets: `first` … `next` − 1."""

    first: int
    next: int


class LeftOut:
    """Of one partition, in parts as they are stored. It never changes: where more is known, there is another one."""

    def __init__(self, parts: "Mapping[int, array[int]] | None" = None) -> None:
        self.parts: Mapping[int, array[int]] = parts or {}
        """By number: where each run begins and ends, in ascending order. So an offset is in one if an odd number of
        these are at or below it."""

    def __contains__(self, offset: int) -> bool:
        return any(bisect_right(bounds, offset) & 1 for bounds in self.parts.values())

    @property
    def stored_runs(self) -> int:
        """How many runs the parts have."""
        return sum(len(bounds) // 2 for bounds in self.parts.values())

    def runs(self) -> list[Run]:
        """All, ascending."""
        return merged(run for bounds in self.parts.values() for run in _runs(bounds))


def merged(runs: Iterable[Run]) -> list[Run]:
    """The same offsets, ascending: what touches is one run."""
    found: list[Run] = []
    for run in sorted(runs):
        if found and run.first <= found[-1].next:
            found[-1] = Run(found[-1].first, max(found[-1].next, run.next))
        else:
            found.append(run)
    return found


def encode(runs: Iterable[Run]) -> list[int]:
    """Merged runs as numbers that are mostly small: how far each begins behind the end of the last, and its length."""
    numbers: list[int] = []
    last = 0
    for first, after in runs:
        numbers += (first - last, after - first)
        last = after
    return numbers


def decode(numbers: object) -> "array[int] | None":
    """The bounds of such runs (`LeftOut.parts`); None where these are none."""
    if not isinstance(numbers, list) or len(numbers) % 2 or len(numbers) > 2 * MAX_RUNS:
        return None
    if not all(type(one) is int and 0 <= one <= _MAX_OFFSET for one in numbers):
        return None
    bounds = list(accumulate(numbers))
    return array("q", bounds) if not bounds or bounds[-1] <= _MAX_OFFSET else None


def _runs(bounds: "array[int]") -> Iterator[Run]:
    return (Run(bounds[at], bounds[at + 1]) for at in range(0, len(bounds), 2))
