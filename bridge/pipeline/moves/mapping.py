"""Keeps the offset map of a copy: read from the headers of the target's records, kept as Parquet."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bridge.pipeline.endpoint import KafkaEndpoint
from bridge.pipeline.errors import DataLoss, Usage
from bridge.pipeline.files import Files, LocalFiles, ReadableFiles, local_directory
from bridge.pipeline.frames import kafka_frame, small_frame
from bridge.pipeline.moves.appending import source_columns
from bridge.pipeline.moves.offset_map import SCHEMA, OffsetMap, Segment, rows
from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.ranges import Partition, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ABOUT = "offset-map.json"
_OFFSETS = "offsets"


def refuse_other(files: ReadableFiles, about: Mapping[str, Any]) -> None:
    """Refuse a directory that holds anything but the map of this copy."""
    if not files.names():
        return
    kept = files.read(_ABOUT)
    if kept is None:
        raise Usage(f"{files} holds files that are no offset map of ours")
    if kept != about:
        raise Usage(f"{files} is the offset map of another copy: {kept}")


def refuse_other_directory(directory: str | None, about: Mapping[str, Any]) -> None:
    """The same before Spark has started, of a directory on this machine's disk; others are looked at later."""
    local = None if directory is None else local_directory(directory)
    if local is not None:
        refuse_other(LocalFiles(local), about)


class KeptMap:
    """The map in a directory, or in memory alone; it grows by what the target has and it has not."""

    def __init__(self, spark: "SparkSession", directory: str | None, names: Mapping[str, str]) -> None:
        self._spark = spark
        self._names = names
        self._files = None if directory is None else Files(spark, directory)
        self.offsets = OffsetMap()

    def open(self, about: Mapping[str, Any]) -> None:
        """Read what is kept; refuse the directory of another copy. Writes nothing."""
        if self._files is None or not self._files.names():
            return
        refuse_other(self._files, about)
        if "_SUCCESS" not in self._files.names(_OFFSETS):
            return  # it was interrupted: the headers have all of it
        path = f"{self._files}/{_OFFSETS}"
        for row in self._spark.read.schema(SCHEMA).parquet(path).orderBy("source_start").collect():
            segment = Segment(row["source_start"], row["source_until"], row["target_start"])
            self.offsets.add(Partition(row["source_topic"], row["source_partition"]), [segment])

    def extend(self, target: EndpointOptions, sources: Sequence[Partition]) -> None:
        """Add what the target has behind the end of the map."""
        wanted = {Partition(self._names[source.topic], source.number): source for source in sources}
        with KafkaEndpoint(target) as endpoint:
            bounds = endpoint.bounds(set(self._names.values()))
        ranges = []
        for key, source in wanted.items():
            held, mapped = bounds[key], self.offsets.end(source)
            if mapped is not None and held.earliest > mapped:
                raise DataLoss(f"{key} is mapped up to {mapped} and begins at {held.earliest} now")
            start = held.earliest if mapped is None else mapped
            if start < held.latest:
                ranges.append(TopicRange(key.topic, key.number, start, held.latest))
        for key, segments in self._read(target, ranges).items():
            self.offsets.add(wanted[key], segments)

    def keep(self, about: Mapping[str, Any]) -> None:
        """Write all of it again: it is small, and all of it can be read from the target again."""
        if self._files is None:
            return
        if _ABOUT not in self._files.names():
            self._files.write(_ABOUT, about)
        frame = small_frame(self._spark, rows(self.offsets, self._names), SCHEMA)
        frame.coalesce(1).write.mode("overwrite").parquet(f"{self._files}/{_OFFSETS}")

    def _read(self, target: EndpointOptions, ranges: Sequence[TopicRange]) -> dict[Partition, list[Segment]]:
        from pyspark.sql import functions as f

        if not ranges:
            return {}
        frame = source_columns(kafka_frame(self._spark, target, ranges))
        # between two gaps of the source all offsets are shifted by the same
        runs = frame.groupBy("topic", "partition", (f.col("offset") - f.col("source_offset")).alias("shift")).agg(
            f.min("source_offset").alias("start"),
            f.max("source_offset").alias("last"),
            f.count("source_offset").alias("records"),
        )
        found: dict[Partition, list[Segment]] = {}
        for row in runs.collect():
            key = Partition(row["topic"], row["partition"])
            if row["shift"] is None or row["records"] != row["last"] + 1 - row["start"]:
                raise DataLoss(f"{key} holds records that this copy did not write, or twice")
            segment = Segment(row["start"], row["last"] + 1, row["start"] + row["shift"])
            found.setdefault(key, []).append(segment)
        return found
