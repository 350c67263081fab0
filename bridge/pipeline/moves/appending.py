"""Appends records to the partitions they came from, in order, and reads its progress from the targets alone.

The last record of a target partition names the source record it was made of, so that a process that was killed goes on
behind it: a partition's log is always a prefix of what is to be written. That holds for one writer. Every chunk is
therefore counted: a partition that has grown by more than was written to it has another one.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from bridge.pipeline import provenance
from bridge.pipeline.context import Context
from bridge.pipeline.endpoint import KafkaEndpoint
from bridge.pipeline.errors import DataLoss, Usage
from bridge.pipeline.files import alone
from bridge.pipeline.frames import kafka_frame
from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.plan import Bounds, chunks, pause
from bridge.pipeline.ranges import Partition, TopicRange, total
from bridge.standalone.maven import cache_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WRITING = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.linger.ms": "20",
    "kafka.batch.size": "131072",
    # every record carries four headers that hardly differ; in the benchmark a job then takes three fifths of the time
    "kafka.compression.type": "lz4",
    # the target decides what is too large, not the client
    "kafka.max.request.size": "16777216",
}
_TAIL = 100
_LOOKS = 20


class Stamp(NamedTuple):
    """The source of the record at an offset of a target partition; None where no header tells one."""

    offset: int
    source: Partition | None
    source_offset: int | None


class Appender:
    """The targets of one job."""

    def __init__(self, spark: "SparkSession", options: EndpointOptions, names: Mapping[str, str]) -> None:
        self._spark = spark
        self._options = options
        self._names = names
        self._ends: dict[Partition, int] = {}

    def target(self, source: Partition) -> Partition:
        """Where a source partition is written."""
        return Partition(self._names[source.topic], source.number)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes of this machine from the same targets."""
        with ExitStack() as locks:
            for topic in sorted(self._names.values()):
                known = hashlib.sha256(f"{self._options.bootstrap} {topic}".encode()).hexdigest()[:16]
                locks.enter_context(alone(self._spark, cache_directory() / "locks" / known))
            yield

    def resume(self, sources: Sequence[Partition]) -> dict[Partition, int]:
        """From which source offset on each partition is to be written; none for those that are empty."""
        wanted = {self.target(source): source for source in sources}
        for _ in range(_LOOKS):
            with KafkaEndpoint(self._options) as endpoint:
                bounds = {
                    key: held for key, held in endpoint.bounds(set(self._names.values())).items() if key in wanted
                }
                tails = self._tails(bounds)
                if endpoint.ends(wanted) == {key: held.latest for key, held in bounds.items()}:
                    break
            # what a killed process had sent is still arriving
        else:
            raise DataLoss(f"another writer writes to {', '.join(sorted(self._names.values()))}")
        self._ends = {key: held.latest for key, held in bounds.items()}
        found = {wanted[key]: next_offset(key, held, wanted[key], tails.get(key, [])) for key, held in bounds.items()}
        return {key: offset for key, offset in found.items() if offset is not None}

    def append(self, frame: "DataFrame", ranges: Sequence[TopicRange]) -> int:
        """Write a chunk, one task at most a partition, its rows in the order of offsets; return how many there were."""
        keys = [self.target(each.key) for each in ranges]
        self._check_ends(keys)
        renamed: dict[Any, Any] = {old: new for old, new in self._names.items() if old != new}
        rows = provenance.stamped(frame)
        rows = rows.replace(renamed, subset=["topic"]) if renamed else rows
        options = {**_WRITING, **self._options.spark_options()}
        rows.select("topic", "partition", "key", "value", "headers").write.format("kafka").options(**options).save()
        with KafkaEndpoint(self._options) as endpoint:
            ends = endpoint.ends(keys)
        grown = {each.key: ends[key] - self._ends[key] for each, key in zip(ranges, keys, strict=True)}
        self._ends.update(ends)
        if any(grown[each.key] != each.size for each in ranges):
            self._check_counts(frame, grown)
        return sum(grown.values())

    def _check_ends(self, keys: Sequence[Partition]) -> None:
        with KafkaEndpoint(self._options) as endpoint:
            ends = endpoint.ends(keys)
        for key in keys:
            if ends[key] != self._ends[key]:
                raise DataLoss(f"{key} ends at {ends[key]} instead of {self._ends[key]}: another writer writes to it")

    def _check_counts(self, frame: "DataFrame", grown: Mapping[Partition, int]) -> None:
        """Where the source has gaps a partition grows by less than the range spans: count what was to be written."""
        counted = {
            Partition(row["topic"], row["partition"]): row["count"]
            for row in frame.groupBy("topic", "partition").count().collect()
        }
        for source, growth in grown.items():
            written = counted.get(source, 0)
            if growth != written:
                target = self.target(source)
                raise DataLoss(f"{target} has grown by {growth} while {written} records of {source} were written to it")

    def _tails(self, bounds: Mapping[Partition, Bounds]) -> dict[Partition, list[Stamp]]:
        ranges = [
            TopicRange(key.topic, key.number, max(held.earliest, held.latest - _TAIL), held.latest)
            for key, held in bounds.items()
            if held.latest > held.earliest
        ]
        found: dict[Partition, list[Stamp]] = {}
        for row in source_columns(kafka_frame(self._spark, self._options, ranges)).collect() if ranges else ():
            told = row["source_offset"] is not None
            source = Partition(row["source_topic"], row["source_partition"]) if told else None
            stamp = Stamp(row["offset"], source, row["source_offset"])
            found.setdefault(Partition(row["topic"], row["partition"]), []).append(stamp)
        return found


def source_columns(frame: "DataFrame") -> "DataFrame":
    """The offsets of a target's records, and of the records they were made of."""
    return frame.select(
        "topic",
        "partition",
        "offset",
        provenance.header_text(provenance.TOPIC).alias("source_topic"),
        provenance.header_text(provenance.PARTITION).cast("int").alias("source_partition"),
        provenance.header_text(provenance.OFFSET).cast("long").alias("source_offset"),
    )


def next_offset(target: Partition, held: Bounds, source: Partition, tail: Sequence[Stamp]) -> int | None:
    """The source offset to continue at; None for a partition that was not written to yet."""
    if held.latest == 0:
        return None
    if not tail:
        raise Usage(f"{target} has had records and holds none: nothing tells where to go on")
    last = max(tail)
    if last.source == source and last.source_offset is not None:
        return last.source_offset + 1
    if any(stamp.source == source for stamp in tail):
        raise DataLoss(f"{target}: another writer has written behind the records of {source}")
    raise Usage(f"{target} holds records that are not of {source}: an empty topic is needed")


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


def move(
    appender: Appender,
    left: Sequence[TopicRange],
    frame_of: Callable[[list[TopicRange]], "DataFrame"],
    context: Context,
    chunk: int,
    rate: int | None,
) -> int:
    """Append ranges chunk by chunk, no faster than the rate; return how many records there were."""
    context.progress.begin(total(left))
    began, done = time.monotonic(), 0
    for ranges in chunks(left, chunk):
        context.go_on()
        written = appender.append(frame_of(ranges), ranges)
        done += written
        context.progress.advance(written)
        if rate is not None:
            time.sleep(pause(done, rate, time.monotonic() - began))
    return done
