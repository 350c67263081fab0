"""Pulsar positions to Kafka offsets: pure arithmetic on the broker's entry index.

The index the broker gives an entry (`AppendIndexMetadataInterceptor`) counts messages from 0 and names the entry's
last one, so an entry of n messages takes the offsets index − n + 1 … index. It survives restarts, unloads, ledger
roll-overs and trimming, and is the same for every reader.
"""

from bisect import bisect_right
from typing import NamedTuple, TypeAlias

Ledger: TypeAlias = int
EntryId: TypeAlias = int
PositionLike: TypeAlias = tuple[Ledger, EntryId]


class Span(NamedTuple):
    """The offsets of one entry: `base` … `next` − 1."""

    base: int
    next: int


def span(index: int, count: int) -> Span:
    """The offsets of an entry of `count` messages whose last one has this index."""
    return Span(index - count + 1, index + 1)


class Anchor:
    """The last position whose offset is known for certain; what follows it directly can be counted.

    Within one ledger the broker stores entries in the order it indexed them, so the very next entry continues the
    count. Across ledgers it may not: sends lost in a crash have taken an index and no entry.
    """

    __slots__ = ("_entry", "_ledger", "_next")

    def __init__(self) -> None:
        self._ledger = self._entry = -1
        self._next = -1

    @property
    def position(self) -> PositionLike:
        """The anchor itself; (−1, −1) before the first."""
        return self._ledger, self._entry

    def extend(self, ledger: int, entry: int, count: int) -> int | None:
        """The base offset of an entry of `count` messages at this position, or None where counting would be a guess."""
        if ledger != self._ledger or entry != self._entry + 1 or self._next < 0:
            return None
        base = self._next
        self._entry = entry
        self._next = base + count
        return base

    def observe(self, ledger: int, entry: int, next_offset: int) -> None:
        """Take a position whose offset was read from the broker; older ones than the present are ignored."""
        if (ledger, entry) > (self._ledger, self._entry):
            self._ledger, self._entry, self._next = ledger, entry, next_offset


class OffsetIndex:
    """A sparse, bounded map from offsets to positions, made of whatever entries pass by.

    Like Kafka's offset index it only narrows a search. When full, every other point goes.
    """

    __slots__ = ("_bases", "_capacity", "_positions")

    def __init__(self, capacity: int = 512) -> None:
        self._capacity = capacity
        self._bases: list[int] = []
        self._positions: list[PositionLike] = []

    def add(self, base: int, position: PositionLike) -> None:
        """Remember where an entry with this base offset is."""
        at = bisect_right(self._bases, base)
        if at and self._bases[at - 1] == base:
            return
        self._bases.insert(at, base)
        self._positions.insert(at, position)
        if len(self._bases) > self._capacity:
            # the ends stay: the first narrows from below, the last is where the next search most likely is
            del self._bases[1:-1:2]
            del self._positions[1:-1:2]

    def around(self, offset: int) -> tuple[PositionLike | None, PositionLike | None]:
        """The nearest known entries: one that starts at or before `offset`, one that starts after it."""
        at = bisect_right(self._bases, offset)
        before = self._positions[at - 1] if at else None
        after = self._positions[at] if at < len(self._bases) else None
        return before, after

    def clear(self) -> None:
        """Forget everything: the topic is another one now."""
        self._bases.clear()
        self._positions.clear()
