"""Which records moved and which changed, given which have a twin: plain functions without Spark."""

from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple


class Unmatched(NamedTuple):
    """A record without a twin: its offset, the hashes of its fields, and its time where times count."""

    offset: int
    key_hash: int
    value_hash: int
    headers_hash: int
    time: int | None


class Changed(NamedTuple):
    """A record that was changed."""

    a: int
    b: int
    fields: str


def moved(places: Sequence[int]) -> list[int]:
    """The fewest positions in the sequence whose removal leaves the rest in ascending order.

    What stays is a longest increasing subsequence, found by patience sorting: n log n.
    """
    tails: array[int] = array("q")  # the smallest place that ends an ascending run of each length
    ends: array[int] = array("q")  # and its position
    before: array[int] = array("q")  # the position before each one in its run
    for position, place in enumerate(places):
        length = bisect_left(tails, place)
        before.append(ends[length - 1] if length else -1)
        if length == len(tails):
            tails.append(place)
            ends.append(position)
        else:
            tails[length], ends[length] = place, position
    stays = bytearray(len(places))
    position = ends[-1] if ends else -1
    while position >= 0:
        stays[position] = 1
        position = before[position]
    return [position for position, kept in enumerate(stays) if not kept]


def changed(lost: Iterable[Unmatched], added: Iterable[Unmatched]) -> list[Changed]:
    """Which of the records lost between the same two neighbours are among those added there, changed.

    The more two have in common the sooner they are taken for the same one; two that have nothing in common are one
    record missing and another one too many.
    """
    left, right = sorted(lost), sorted(added)
    found: list[Changed] = []
    for likeness in _LIKENESSES:
        if "time" in likeness and any(record.time is None for record in left):
            continue
        common = attrgetter(*likeness)
        waiting: dict[Hashable, list[Unmatched]] = {}
        for record in reversed(right):
            waiting.setdefault(common(record), []).append(record)
        for record in left:
            same = waiting.get(common(record))
            if same:
                found.append(_difference(record, same.pop()))
        left, right = _without(left, {one.a for one in found}), _without(right, {one.b for one in found})
    return sorted(found)


_LIKENESSES: tuple[tuple[str, ...], ...] = (
    ("time", "key_hash", "headers_hash"),
    ("time", "value_hash"),
    ("key_hash", "value_hash"),
    ("time",),
    ("value_hash", "headers_hash"),
)


def _difference(a: Unmatched, b: Unmatched) -> Changed:
    names = ("key", "value", "headers", "timestamp")
    return Changed(a.offset, b.offset, ",".join(n for n, x, y in zip(names, a[1:], b[1:], strict=True) if x != y))


def _without(records: list[Unmatched], offsets: set[int]) -> list[Unmatched]:
    return [record for record in records if record.offset not in offsets]
