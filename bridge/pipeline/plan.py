"""Makes ranges of offsets from options and what an endpoint holds, or a refusal, without I/O."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bridge.pipeline.errors import DataLoss, Usage
from bridge.pipeline.options import Position
from bridge.pipeline.ranges import Partition, TopicRange


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a partition holds: the offsets [earliest, latest)."""

    earliest: int
    latest: int


def resolve(
    bounds: Mapping[Partition, Bounds],
    start: Position,
    until: Position,
    at_start: Mapping[Partition, int | None],
    at_until: Mapping[Partition, int | None],
) -> list[TopicRange]:
    """One range a partition, empty ones left out; `at_…` are the first offsets at the positions' times, if those are
    times, and None where no record is that young.
    """
    for side in (start, until):
        _refuse_unknown(side, bounds)
    ranges = []
    for key, held in sorted(bounds.items()):
        first = _offset(key, held, start, at_start, otherwise=held.earliest)
        last = _offset(key, held, until, at_until, otherwise=held.latest)
        if first > last and (start.offsets or until.offsets):
            raise Usage(f"{key}: the range from {first} to {last} runs backwards")
        if first < last:
            ranges.append(TopicRange(key.topic, key.number, first, last))
    return ranges


def _refuse_unknown(side: Position, bounds: Mapping[Partition, Bounds]) -> None:
    unknown = [key for key in side.offsets or () if key not in bounds]
    if unknown:
        raise Usage(f"offsets were given for {unknown[0]}, which is not among the partitions chosen")


def _offset(
    key: Partition, held: Bounds, side: Position, at_time: Mapping[Partition, int | None], *, otherwise: int
) -> int:
    if side.offsets is not None:
        offset = side.offsets.get(key, otherwise)
        if not held.earliest <= offset <= held.latest:
            raise Usage(f"{key}: offset {offset} is not there, it holds {held.earliest} to {held.latest}")
        return offset
    if side.time is not None:
        found = at_time.get(key)
        return held.latest if found is None else min(max(found, held.earliest), held.latest)
    return held.earliest if side.named == "earliest" else held.latest


def continued(
    asked: Iterable[TopicRange], done: Mapping[Partition, int], bounds: Mapping[Partition, Bounds]
) -> list[TopicRange]:
    """What is left of the ranges asked for, when each partition is done up to an offset; DataLoss where that cannot
    be gone on from, because the log ends earlier now or begins later.
    """
    for key, offset in done.items():
        held = bounds.get(key)
        if held is None:
            raise DataLoss(f"{key} was read up to offset {offset} and is gone now")
        if held.latest < offset:
            raise DataLoss(f"{key} was read up to offset {offset} and ends at {held.latest} now: is it another topic?")
        if held.earliest > offset:
            raise DataLoss(f"{key} was read up to offset {offset} and begins at {held.earliest} now: records are lost")
    left = []
    for each in asked:
        start = done.get(each.key, each.start)
        if start < each.until:
            left.append(TopicRange(each.topic, each.partition, start, each.until))
    return left


def chunks(ranges: Sequence[TopicRange], offsets: int) -> Iterator[list[TopicRange]]:
    """Cut ranges into chunks of about so many offsets, all partitions moving on together."""
    left = list(ranges)
    while left:
        share = math.ceil(offsets / len(left))
        chunk = [TopicRange(r.topic, r.partition, r.start, min(r.start + share, r.until)) for r in left]
        yield chunk
        left = [
            TopicRange(r.topic, r.partition, done.until, r.until)
            for r, done in zip(left, chunk, strict=True)
            if done.until < r.until
        ]


def pause(done: int, rate: int, elapsed: float) -> float:
    """How long to wait so that no more than `rate` records a second were done since the beginning."""
    return max(done / rate - elapsed, 0.0)


def describe(ranges: Sequence[TopicRange]) -> str:
    """The plan in lines: partitions, ranges, records."""
    lines = [f"{each.topic:40} {each.partition:9,} {each.start:>14,} {each.until:>14,} {each.size:>14,}"
             for each in ranges]  # fmt: skip
    head = f"{'topic':40} {'partition':>9} {'from':>14} {'to':>14} {'records, about':>14}"
    whole = sum(each.size for each in ranges)
    return "\n".join([head, *lines, f"{len(ranges)} partitions, about {whole:,} records"])
