"""Ranges of offsets, the unit in which every job plans, reads, resumes and reports."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


@dataclass(frozen=True, slots=True, order=True)
class TopicRange:
    """The offsets [start, until) of one partition."""

    topic: str
    partition: int
    start: int
    until: int

    def __str__(self) -> str:
        return f"{self.key} [{self.start}, {self.until})"

    @property
    def key(self) -> Partition:
        """The partition it belongs to."""
        return Partition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """How many offsets it spans: its records, where offsets are dense."""
        return self.until - self.start


def total(ranges: Iterable[TopicRange]) -> int:
    """How many offsets some ranges span together."""
    return sum(each.size for each in ranges)


def partition_counts(keys: Iterable[Partition]) -> dict[str, int]:
    """How many partitions each topic has, of all its partitions."""
    counts: dict[str, int] = {}
    for key in keys:
        counts[key.topic] = max(counts.get(key.topic, 0), key.number + 1)
    return counts
