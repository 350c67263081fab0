"""Keeps the offset map of a copy: found by comparing both sides, kept as Parquet."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bridge.pipeline.endpoint import KafkaEndpoint
from bridge.pipeline.errors import DataLoss, Usage
from bridge.pipeline.files import Files, LocalFiles, ReadableFiles, local_directory
from bridge.pipeline.frames import kafka_frame, small_frame
from bridge.pipeline.moves.appending import Source
from bridge.pipeline.moves.offset_map import SCHEMA, OffsetMap, Segment, rows
from bridge.pipeline.moves.pairs import paired, runs
from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.plan import Bounds
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
            return  # it was interrupted: both sides have all of it
        path = f"{self._files}/{_OFFSETS}"
        for row in self._spark.read.schema(SCHEMA).parquet(path).orderBy("source_start").collect():
            segment = Segment(row["source_start"], row["source_until"], row["target_start"])
            self.offsets.add(Partition(row["source_topic"], row["source_partition"]), [segment])

    def extend(
        self,
        source: Source,
        target: EndpointOptions,
        copied: Mapping[Partition, tuple[int, int]],
        bounds: Mapping[Partition, Bounds],
    ) -> None:
        """Add what is copied behind the end of the map. `copied` has the offset up to which each source partition is
        copied, and where its target ends; `bounds` are the source's.
        """
        with KafkaEndpoint(target) as endpoint:
            there = endpoint.bounds(set(self._names.values()))
        ours, theirs, strict = [], [], set()
        for key, (until, end) in copied.items():
            new, mapped = Partition(self._names[key.topic], key.number), self.offsets.end(key)
            start, target_start = bounds[key].earliest, there[new].earliest
            if mapped is not None:
                if start <= mapped[0] and target_start <= mapped[1]:
                    strict.add(key)
                start, target_start = max(start, mapped[0]), max(target_start, mapped[1])
            if start < until and target_start < end:
                ours.append(TopicRange(*key, start, until))
                theirs.append(TopicRange(*new, target_start, end))
        if not ours:
            return
        pairs = paired(source.read(ours), kafka_frame(self._spark, target, theirs), self._names, backwards=True)
        for key, found in runs(pairs).items():
            if found.changed or (found.alone and key in strict):
                raise DataLoss(f"{key} and its copy do not hold the same any more: is one of them compacted?")
            self.offsets.add(key, found.segments)

    def keep(self, about: Mapping[str, Any]) -> None:
        """Write all of it again: it is small, and all of it can be read from the target again."""
        if self._files is None:
            return
        if _ABOUT not in self._files.names():
            self._files.write(_ABOUT, about)
        frame = small_frame(self._spark, rows(self.offsets, self._names), SCHEMA)
        frame.coalesce(1).write.mode("overwrite").parquet(f"{self._files}/{_OFFSETS}")
