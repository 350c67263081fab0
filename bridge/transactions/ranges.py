"""Partitions of a topic as ranges: sorted, disjoint, both ends included, none beside the next."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""(first, last) of each range."""


def of(numbers: Iterable[int]) -> Ranges:
    """The ranges of these numbers, which may be in any order and more than once."""
    return _joined((number, number) for number in numbers)


def union(*parts: Ranges) -> Ranges:
    """What is in any of them."""
    return _joined(pair for part in parts for pair in part)


def has(ranges: Ranges, number: int) -> bool:
    """Whether the number lies in one of the ranges."""
    place = bisect_right(ranges, number, key=_first)
    return place > 0 and number <= ranges[place - 1][1]


def size(ranges: Ranges) -> int:
    """How many numbers they hold."""
    return sum(last - first + 1 for first, last in ranges)


def are_in_order(ranges: Ranges) -> bool:
    """Whether pairs of numbers are ranges as all functions here give and expect them."""
    after = 0
    for first, last in ranges:
        if not after <= first <= last:
            return False
        after = last + 2
    return True


def _first(pair: tuple[int, int]) -> int:
    return pair[0]


def _joined(pairs: Iterable[tuple[int, int]]) -> Ranges:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(pairs):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)
