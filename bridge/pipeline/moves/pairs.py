"""Pairs the records of a source with those of its copy by their order, and tells where the two are not the same."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from bridge.pipeline.digest import PARTITION, hashed
from bridge.pipeline.frames import renamed
from bridge.pipeline.moves.offset_map import Segment
from bridge.pipeline.ranges import Partition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Compared(NamedTuple):
    """What a partition of a copy has beside its source: records on either side, the first difference, the last twin."""

    source_records: int = 0
    target_records: int = 0
    differs_at: int | None = None
    """The target's first offset whose record is not the source's; None where the source begins with all of them."""
    last_source: int | None = None
    """The source's offset of the last record at the target."""


@dataclass(slots=True)
class Runs:
    """Where the records of a partition are at its target."""

    segments: list[Segment] = field(default_factory=list)
    changed: bool = False
    """Whether the record at an offset of the target is not the one that was copied there."""
    alone: bool = False
    """Whether one side has records that the other does not have any more."""


def paired(
    source: "DataFrame", target: "DataFrame", names: Mapping[str, str], *, backwards: bool = False
) -> "DataFrame":
    """A row for the n-th record of both sides, by the source's topics; `backwards` counts from the end.

    Key, value and headers count, times do not: some targets give records their own.
    """
    from pyspark.sql import functions as f

    there = renamed(target, {new: old for old, new in names.items()})
    order = f.desc("offset") if backwards else f.asc("offset")
    sides = [_numbered(frame, order, side) for frame, side in ((source, "source"), (there, "target"))]
    return sides[0].join(sides[1], [*PARTITION, "n"], "full")


def compared(pairs: "DataFrame") -> dict[Partition, Compared]:
    """Of pairs from a beginning on, by the source's partition."""
    from pyspark.sql import functions as f

    there = f.col("target_offset").isNotNull()
    found = pairs.groupBy(*PARTITION).agg(
        f.count("source_offset").alias("source_records"),
        f.count("target_offset").alias("target_records"),
        f.min(f.when(there & ~_same(), f.col("target_offset"))).alias("differs_at"),
        f.max(f.when(there, f.col("source_offset"))).alias("last_source"),
    )
    return {
        Partition(row.topic, row.partition): Compared(
            row.source_records, row.target_records, row.differs_at, row.last_source
        )
        for row in found.collect()
    }


def runs(pairs: "DataFrame") -> dict[Partition, Runs]:
    """Of pairs from the end backwards: the runs in which neither side has a gap, by the source's partition."""
    from pyspark.sql import functions as f

    # the offset falls by one as the number rises by one, as long as there is no gap
    lines = [(f.col(f"{side}_offset") + f.col("n")).alias(f"{side}_line") for side in ("source", "target")]
    found = pairs.groupBy(*PARTITION, *lines).agg(
        f.min("source_offset").alias("start"),
        f.max("source_offset").alias("last"),
        f.min("target_offset").alias("target_start"),
        f.every(_same()).alias("same"),
    )
    result: dict[Partition, Runs] = {}
    for row in found.collect():
        of = result.setdefault(Partition(row.topic, row.partition), Runs())
        if row.source_line is None or row.target_line is None:
            of.alone = True
            continue
        of.segments.append(Segment(row.start, row.last + 1, row.target_start))
        of.changed = of.changed or not row.same
    return result


def _numbered(frame: "DataFrame", order: "Column", side: str) -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    number = f.row_number().over(Window.partitionBy(*PARTITION).orderBy(order))
    return hashed(frame, times=False).select(
        *PARTITION, number.alias("n"), f.col("offset").alias(f"{side}_offset"), f.col("hash").alias(f"{side}_hash")
    )


def _same() -> "Column":
    from pyspark.sql import functions as f

    return f.col("source_hash").eqNullSafe(f.col("target_hash"))
