"""Finds which records differ, where the sums differ.

A row each: topic, partition, kind, a_offset, b_offset, fields. Missing and extra records are on one side only; a
duplicate is on the other side less often; a corrupt one stands where it should, changed; a reordered one is the same
on both sides and has moved against the others.
"""

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

from bridge.pipeline.comparison.matching import Unmatched, changed, moved
from bridge.pipeline.digest import HASHES, PARTITION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

KINDS = ("missing", "extra", "duplicate", "corrupt", "reordered")

_FIELDS = HASHES[1:]
_CORRUPT = "topic string, partition int, a_offset long, b_offset long, fields string"
_MOVED = "topic string, partition int, a_offset long, b_offset long"
# Between two neighbours, so many records are compared to find changed ones; where more differ, none are alike.
_LARGEST_GAP = 20_000


def findings(a: "DataFrame", b: "DataFrame") -> "DataFrame":
    """What differs between two sides of `digest.hashed` rows, under the same topic names."""
    pairs = _paired(a, b).persist()
    twins = pairs.where("a_offset is not null and b_offset is not null")
    added = pairs.where("a_offset is null")
    reordered = _moved(twins).persist()
    kept = twins.join(reordered, [*PARTITION, "a_offset", "b_offset"], "left_anti")
    lost = _with_gap(pairs.where("b_offset is null"), kept, "a_offset")
    extra = _with_gap(added.where("not known"), kept, "b_offset")
    corrupt = _changed(lost, extra).persist()
    found = [
        _kind("missing", lost.join(corrupt, [*PARTITION, "a_offset"], "left_anti")),
        _kind("extra", extra.join(corrupt, [*PARTITION, "b_offset"], "left_anti")),
        _kind("duplicate", added.where("known")),
        _kind("corrupt", corrupt),
        _kind("reordered", reordered),
    ]
    return reduce(lambda one, other: one.unionByName(other), found)


def _paired(a: "DataFrame", b: "DataFrame") -> "DataFrame":
    """One row for each record and its twin, the n-th of its like here with the n-th there; an offset is null where
    there is none. `known`: whether the other side has a record like it at all.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    rows = a.withColumn("side", f.lit("a")).unionByName(b.withColumn("side", f.lit("b")))
    alike = Window.partitionBy(*PARTITION, "hash", "side").orderBy("offset")
    pairs = (
        rows.withColumn("occurrence", f.row_number().over(alike))
        .groupBy(*PARTITION, "hash", "occurrence")
        .agg(
            f.max(f.when(f.col("side") == "a", f.col("offset"))).alias("a_offset"),
            f.max(f.when(f.col("side") == "b", f.col("offset"))).alias("b_offset"),
            *[f.first(name).alias(name) for name in _FIELDS],
        )
    )
    known = f.max("a_offset").over(Window.partitionBy(*PARTITION, "hash")).isNotNull()
    return pairs.withColumn("known", known)


def _moved(twins: "DataFrame") -> "DataFrame":
    """The fewest twins that must have moved. Most are in order with all others: those need not be looked at again."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    def others(order: "Column") -> "WindowSpec":
        everything_before = Window.unboundedPreceding
        return Window.partitionBy(*PARTITION).orderBy(order).rowsBetween(everything_before, -1)

    highest = f.max("b_offset").over(others(f.col("a_offset").asc()))
    # seen from the end, because a window that shrinks from the front is computed again for every row
    lowest = f.min("b_offset").over(others(f.col("a_offset").desc()))
    disordered = (
        twins.select(*PARTITION, "a_offset", "b_offset")
        .withColumns({"highest": highest, "lowest": lowest})
        .where("b_offset < highest or b_offset > lowest")
        .groupBy(*PARTITION)
        .agg(f.sort_array(f.collect_list(f.struct("a_offset", "b_offset"))).alias("offsets"))
    )

    def least(row: Any) -> Iterator[tuple[object, ...]]:
        for position in moved([b for _, b in row.offsets]):
            yield row.topic, row.partition, *row.offsets[position]

    return twins.sparkSession.createDataFrame(disordered.rdd.flatMap(least), _MOVED)


def _with_gap(unmatched: "DataFrame", kept: "DataFrame", offset: str) -> "DataFrame":
    """Add between which neighbours a record without a twin is: its gap, the same on both sides."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    before = Window.partitionBy(*PARTITION).orderBy(offset).rowsBetween(Window.unboundedPreceding, 0)
    marks = kept.withColumn("mark", f.col("a_offset"))
    rows = unmatched.withColumn("mark", f.lit(None).cast("long")).unionByName(marks)
    gap = f.coalesce(f.last("mark", ignorenulls=True).over(before), f.lit(-1))
    return rows.withColumn("gap", gap).where("mark is null").drop("mark")


def _changed(lost: "DataFrame", extra: "DataFrame") -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    def side(frame: "DataFrame", offset: str, is_a: bool) -> "DataFrame":
        record = f.struct(f.col(offset).alias("offset"), *_FIELDS).alias("record")
        return frame.select(*PARTITION, "gap", record, f.lit(is_a).alias("is_a"))

    rows = side(lost, "a_offset", True).unionByName(side(extra, "b_offset", False))
    same = Window.partitionBy(*PARTITION, "gap")
    gaps = (
        rows.withColumns({"n": f.count("*").over(same), "n_a": f.count_if("is_a").over(same)})
        .where(f"n_a > 0 and n_a < n and n <= {_LARGEST_GAP}")
        .groupBy(*PARTITION, "gap")
        .agg(*[f.collect_list(f.when(f.col("is_a") == f.lit(which), f.col("record"))).alias(name)
               for name, which in (("lost", True), ("extra", False))])
    )  # fmt: skip

    def same_ones(row: Any) -> Iterator[tuple[object, ...]]:
        for found in changed([Unmatched(*each) for each in row.lost], [Unmatched(*each) for each in row.extra]):
            yield row.topic, row.partition, *found

    return lost.sparkSession.createDataFrame(gaps.rdd.flatMap(same_ones), _CORRUPT)


def _kind(kind: str, rows: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    fields = f.col("fields") if "fields" in rows.columns else f.lit(None).cast("string").alias("fields")
    return rows.select(*PARTITION, f.lit(kind).alias("kind"), "a_offset", "b_offset", fields)
