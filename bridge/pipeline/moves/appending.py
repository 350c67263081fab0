"""Appends records to the partitions they came from, in order, and finds where to go on when it was killed.

A target partition is always a beginning of its source, and what is to be written comes behind it. So it is enough to
compare both: a process that was killed goes on behind the last record that they have in common. A checkpoint
(`checkpoints`) saves the comparison of all that was written before the chunk at which it was killed.

That holds for one writer. Every chunk is therefore counted: a partition that has grown by more than was written to it
has another one.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from bridge.pipeline import provenance
from bridge.pipeline.context import Context
from bridge.pipeline.endpoint import KafkaEndpoint
from bridge.pipeline.errors import DataLoss, Usage
from bridge.pipeline.files import alone
from bridge.pipeline.frames import kafka_frame, renamed
from bridge.pipeline.moves.checkpoints import Checkpoint, checkpoint_of, committed_of, from_here, group_of
from bridge.pipeline.moves.pairs import Compared, compared, paired
from bridge.pipeline.moves.sink import write
from bridge.pipeline.options import Appending, EndpointOptions
from bridge.pipeline.plan import Bounds, chunks, continued, pause
from bridge.pipeline.ranges import Partition, TopicRange, total
from bridge.standalone.maven import cache_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOKS = 20


@dataclass(frozen=True, slots=True)
class Source:
    """What is appended: how its ranges are read, in the order of offsets, and the cluster whose offsets those are."""

    cluster: str | None
    read: Callable[[list[TopicRange]], "DataFrame"]


class Appender:
    """The targets of one job."""

    def __init__(
        self,
        spark: "SparkSession",
        source: Source,
        target: EndpointOptions,
        names: Mapping[str, str],
        writing: Appending,
    ) -> None:
        self._spark = spark
        self._source = source
        self._options = target
        self._names = names
        self._writing = writing
        self._group = group_of(source.cluster)
        self._ends: dict[Partition, int] = {}

    def target(self, source: Partition) -> Partition:
        """Where a source partition is written."""
        return Partition(self._names[source.topic], source.number)

    def end(self, source: Partition) -> int:
        """Where its target ends, as far as this job has written it."""
        return self._ends[self.target(source)]

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes of this machine from the same targets, and from copying the other way."""
        with KafkaEndpoint(self._options) as endpoint:
            cluster = endpoint.cluster_id()
        directory = cache_directory() / "locks"
        with ExitStack() as locks:
            for old, new in sorted(self._names.items()):
                there, here = f"{cluster} {new}", f"{self._source.cluster} {old}"
                locks.enter_context(alone(self._spark, directory / _hashed(there), f"it writes to {new}"))
                pair = " ".join(sorted((here, there)))
                busy = f"it copies between {old} and {new}, this way or the other"
                locks.enter_context(alone(self._spark, directory / _hashed(pair), busy))
            yield

    def resume(
        self,
        asked: Sequence[TopicRange],
        bounds: Mapping[Partition, Bounds],
        back: Mapping[Partition, Checkpoint] | None = None,
    ) -> dict[Partition, int]:
        """From which source offset on each partition is to be written; none for those that are empty.

        `bounds` are the source's. `back` are the checkpoints of a copy in the other direction, whose targets are the
        sources here.
        """
        starts = {each.key: each.start for each in asked}
        first = {key: Checkpoint(0, starts.get(key, held.earliest), held.latest) for key, held in bounds.items()}
        for _ in range(_LOOKS):
            places = self._places(first, back or {})
            found = self._tails(places, bounds)
            with KafkaEndpoint(self._options) as endpoint:
                if endpoint.ends(self._ends) == self._ends:
                    break
            # what a killed process had sent is still arriving
        else:
            raise DataLoss(f"another writer writes to {', '.join(sorted(self._names.values()))}")
        for source, tail in found.items():
            if tail.differs_at is not None:
                self._refuse(source, tail.differs_at, begun=places[source] != first[source])
        behind = {source: tail.last_source + 1 for source, tail in found.items() if tail.last_source is not None}
        return {**{source: place.source for source, place in places.items()}, **behind}

    def append(self, ranges: list[TopicRange]) -> int:
        """Write a chunk, one task at most a partition, its rows in the order of offsets; return how many there were."""
        targets = {each: self.target(each.key) for each in ranges}
        with KafkaEndpoint(self._options) as endpoint:
            self._check_ends(endpoint.ends(targets.values()))
            self._commit(endpoint, targets, begun=True)
        frame = self._source.read(ranges)
        rows = provenance.stamped(frame) if self._writing.headers else frame
        write(renamed(rows, self._names), self._options, keep_times=self._writing.keep_times)
        with KafkaEndpoint(self._options) as endpoint:
            ends = endpoint.ends(targets.values())
            uneven = [each for each, key in targets.items() if ends[key] - self._ends[key] != each.size]
            written = total(ranges) - total(uneven) + self._count(uneven, ends)
            self._ends.update(ends)
            self._commit(endpoint, targets, begun=False)
        return written

    def _places(
        self, first: Mapping[Partition, Checkpoint], back: Mapping[Partition, Checkpoint]
    ) -> dict[Partition, Checkpoint]:
        """From where on each source and its target are to be compared; notes where the targets end."""
        with KafkaEndpoint(self._options) as endpoint:
            bounds = endpoint.bounds(set(self._names.values()))
            committed = endpoint.committed(self._group)
        places = {}
        for source, beginning in first.items():
            key = self.target(source)
            own = checkpoint_of(source, committed.get(key))
            place = from_here(key, bounds[key], beginning, own, back.get(source))
            if place is not None:
                places[source] = place
            self._ends[key] = bounds[key].latest
        return places

    def _tails(
        self, places: Mapping[Partition, Checkpoint], bounds: Mapping[Partition, Bounds]
    ) -> dict[Partition, Compared]:
        """What the targets hold behind these places, beside the sources. DataLoss where one has lost its place."""
        continued((), {source: place.source for source, place in places.items()}, bounds)
        here, there = [], []
        for source, place in places.items():
            key = self.target(source)
            if place.target < self._ends[key]:
                here.append(TopicRange(*source, place.source, min(place.until, bounds[source].latest)))
                there.append(TopicRange(*key, place.target, self._ends[key]))
        return self._compare(here, there)

    def _compare(self, here: list[TopicRange], there: list[TopicRange]) -> dict[Partition, Compared]:
        if not there:
            return {}
        source = self._source.read([each for each in here if each.size])
        return compared(paired(source, kafka_frame(self._spark, self._options, there), self._names))

    def _refuse(self, source: Partition, offset: int, *, begun: bool) -> NoReturn:
        target = self.target(source)
        if begun:
            raise DataLoss(f"{target}: another writer has written behind the records of {source}, at offset {offset}")
        raise Usage(f"{target} holds records that are not of {source}, at offset {offset}: an empty topic is needed")

    def _check_ends(self, ends: Mapping[Partition, int]) -> None:
        for key, end in ends.items():
            if end != self._ends[key]:
                raise DataLoss(f"{key} ends at {end} instead of {self._ends[key]}: another writer writes to it")

    def _count(self, ranges: Sequence[TopicRange], ends: Mapping[Partition, int]) -> int:
        """How many records were written where a source has gaps, or a target: all of them, and nothing else."""
        targets = {each.key: self.target(each.key) for each in ranges}
        there = [
            TopicRange(*key, self._ends[key], ends[key]) for key in targets.values() if self._ends[key] < ends[key]
        ]
        found = self._compare(list(ranges), there)
        for source, key in targets.items():
            pairs = found.get(source, Compared())
            if pairs.differs_at is not None or pairs.source_records != pairs.target_records:
                raise DataLoss(
                    f"{key} has grown by {pairs.target_records} records, which are not the {pairs.source_records} of "
                    f"{source} that were written to it: another writer writes to it"
                )
        return sum(pairs.source_records for pairs in found.values())

    def _commit(self, endpoint: KafkaEndpoint, targets: Mapping[TopicRange, Partition], *, begun: bool) -> None:
        """Note where the targets end, before these ranges are written or behind them."""
        checkpoints = {
            key: committed_of(each.key, Checkpoint(self._ends[key], each.start if begun else each.until, each.until))
            for each, key in targets.items()
        }
        endpoint.commit(self._group, checkpoints)


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def prepare_targets(options: EndpointOptions, names: Mapping[str, str], sources: Sequence[Partition]) -> list[str]:
    """Check that every target has the partitions it needs; return the topics that are to be created. Writes nothing."""
    with KafkaEndpoint(options) as endpoint:
        existing = endpoint.topics()
        partitions = endpoint.partitions(existing & set(names.values()))
    for source in sources:
        found = partitions.get(names[source.topic])
        if found is not None and source.number not in found:
            raise Usage(f"{names[source.topic]} has {len(found)} partitions, {source} needs one more at least")
    return sorted(set(names.values()) - existing)


def create_targets(options: EndpointOptions, missing: Sequence[str], counts: Mapping[str, int]) -> None:
    """Create the topics that are missing, with the partitions their sources have."""
    with KafkaEndpoint(options) as endpoint:
        for topic in missing:
            endpoint.create_topic(topic, counts[topic])


def move(appender: Appender, left: Sequence[TopicRange], context: Context, chunk: int, rate: int | None) -> int:
    """Append ranges chunk by chunk, no faster than the rate; return how many records there were.

    A signal ends it behind a chunk.
    """
    context.progress.begin(total(left))
    began, done = time.monotonic(), 0
    for ranges in chunks(left, chunk):
        context.go_on()
        with context.to_its_end():
            written = appender.append(ranges)
        done += written
        context.progress.advance(written)
        if rate is not None:
            time.sleep(pause(done, rate, time.monotonic() - began))
    return done
