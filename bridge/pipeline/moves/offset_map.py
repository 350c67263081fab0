"""Where the records of a source are in the target: ranges of source offsets, and the target offset each begins at."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from bridge.pipeline.errors import DataLoss, Usage
from bridge.pipeline.ranges import Partition


class Segment(NamedTuple):
    """The source offsets [start, until), none left out, are the target's from `target_start` on."""

    start: int
    until: int
    target_start: int

    @property
    def target_until(self) -> int:
        """The target offset behind its last record."""
        return self.target_start + self.until - self.start


class OffsetMap:
    """The segments of each source partition, in order; what lies between two of them has no records."""

    def __init__(self) -> None:
        self._segments: dict[Partition, list[Segment]] = {}

    def __iter__(self) -> Iterator[tuple[Partition, Segment]]:
        for key, segments in sorted(self._segments.items()):
            for segment in segments:
                yield key, segment

    def add(self, source: Partition, segments: Iterable[Segment]) -> None:
        """Append segments; consecutive ones without a gap become one."""
        known = self._segments.setdefault(source, [])
        for segment in sorted(segments):
            last = known[-1] if known else None
            if last is None:
                known.append(segment)
            elif segment.start < last.until or segment.target_start < last.target_until:
                raise DataLoss(f"{source}: in the target its records are not once each and in order, at {segment}")
            elif (segment.start, segment.target_start) == (last.until, last.target_until):
                known[-1] = Segment(last.start, segment.until, last.target_start)
            else:
                known.append(segment)

    def end(self, source: Partition) -> tuple[int, int] | None:
        """Up to where a partition is mapped, at the source and at the target."""
        segments = self._segments.get(source)
        return (segments[-1].until, segments[-1].target_until) if segments else None

    def translate(self, source: Partition, offset: int, copied: int, end: int) -> int:
        """The target offset at which a consumer goes on that would have read `offset` next at the source, of which all
        below `copied` is copied, and ends at `end` there.
        """
        if offset > copied:
            raise Usage(f"{source}: a group is at {offset} and only {copied} is copied: stop its consumers, copy again")
        segments = self._segments.get(source, [])
        place = bisect_right(segments, offset, key=lambda segment: segment.start) - 1
        if place >= 0 and offset < segments[place].until:
            return segments[place].target_start + offset - segments[place].start
        if place + 1 < len(segments):  # in a gap, or before all: the next record there is
            return segments[place + 1].target_start
        return end


SCHEMA = (
    "source_topic string, source_partition int, source_start long, source_until long, "
    "target_topic string, target_partition int, target_start long"
)


def rows(offsets: OffsetMap, names: Mapping[str, str]) -> list[dict[str, str | int]]:
    """As rows of `SCHEMA`."""
    return [
        {
            "source_topic": key.topic,
            "source_partition": key.number,
            "source_start": segment.start,
            "source_until": segment.until,
            "target_topic": names[key.topic],
            "target_partition": key.number,
            "target_start": segment.target_start,
        }
        for key, segment in offsets
    ]
