"""Measures a set of records: sizes, keys, times, gaps; from rows without the records themselves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bridge.pipeline.digest import PARTITION
from bridge.pipeline.provenance import true_timestamp
from bridge.pipeline.ranges import TopicRange

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Facts = dict[str, Any]
_SHARES = (0.5, 0.9, 0.99)
_NAMES = ("p50", "p90", "p99")
_EXACT = 10_000  # percentiles are right to this part of the rank
_MAX_BUCKETS = 400
_SECOND = 1000
_BUCKETS = [_SECOND * n for n in (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 28 * 86_400)]


def outlines(frame: "DataFrame", *, keys: bool) -> "DataFrame":
    """A row for each record, without it: offset, time, size, key's hash (with `keys` the key too), what is null."""
    from pyspark.sql import functions as f

    def size(column: str) -> "Column":
        return f.coalesce(f.length(column), f.lit(0))

    headers = f.transform(
        f.coalesce("headers", f.array()),
        lambda header: f.length(header["key"]) + f.coalesce(f.length(header["value"]), f.lit(0)),
    )
    return frame.select(
        *PARTITION,
        "offset",
        true_timestamp().alias("time"),
        (size("key") + size("value") + f.aggregate(headers, f.lit(0), lambda a, b: a + b)).cast("long").alias("size"),
        f.when(f.col("key").isNotNull(), f.xxhash64("key")).alias("key_hash"),
        (f.col("key") if keys else f.lit(None).cast("binary")).alias("key"),
        f.col("value").isNull().alias("tombstone"),
    )


def by_partition(rows: "DataFrame", ranges: Sequence[TopicRange]) -> list[Facts]:
    """One entry for each range. A record is late by how much older it is than the newest one before it."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    before = Window.partitionBy(*PARTITION).orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    late = f.greatest(f.max("time").over(before) - f.col("time"), f.lit(0))
    found = rows.withColumn("late", f.coalesce(late, f.lit(0))).groupBy(*PARTITION)
    aggregated = {
        (row["topic"], row["partition"]): row.asDict(recursive=True)
        for row in found.agg(
            f.count("*").alias("records"),
            f.sum("size").alias("bytes"),
            f.max("size").alias("largest"),
            f.percentile_approx("size", list(_SHARES), _EXACT).alias("sizes"),
            f.count_if(f.col("key_hash").isNull()).alias("null_keys"),
            f.count_if("tombstone").alias("tombstones"),
            f.min(f.when(f.col("time") >= 0, f.col("time"))).alias("first"),
            f.max("time").alias("last"),
            f.count_if(f.col("late") > 0).alias("late"),
            f.max("late").alias("latest_by"),
        ).collect()
    }
    return [_partition(each, aggregated.get(each.key, {})) for each in sorted(ranges)]


def _partition(held: TopicRange, row: Facts) -> Facts:
    counted = {
        name: row.get(name) or 0
        for name in ("records", "bytes", "largest", "null_keys", "tombstones", "late", "latest_by")
    }
    return {
        "topic": held.topic,
        "partition": held.partition,
        "from": held.start,
        "to": held.until,
        **counted,
        "gaps": held.size - counted["records"],
        "sizes": dict(zip(_NAMES, row.get("sizes") or (0, 0, 0), strict=True)),
        "first": row.get("first"),
        "last": row.get("last"),
    }


def bucket_width(partitions: Sequence[Facts]) -> int:
    """Milliseconds: the smallest even width that cuts the time there is into a few hundred pieces."""
    first = min((each["first"] for each in partitions if each["first"] is not None), default=0)
    last = max((each["last"] for each in partitions if each["last"] is not None), default=0)
    return next((width for width in _BUCKETS if (last - first) // width < _MAX_BUCKETS), _BUCKETS[-1])


def by_time(rows: "DataFrame", width: int) -> "DataFrame":
    """Records and bytes of each topic by the time of the records; those without one are left out."""
    from pyspark.sql import functions as f

    start = f.timestamp_millis(f.col("time") - f.col("time") % width)
    return (
        rows.where("time >= 0")
        .groupBy("topic", start.alias("start"))
        .agg(
            f.count("*").alias("records"),
            f.sum("size").alias("bytes"),
            f.count_if("tombstone").alias("tombstones"),
        )
        .orderBy("topic", "start")
    )


def by_key(rows: "DataFrame", top: int) -> dict[str, Facts]:
    """How many keys each topic has, about, and how much the most frequent ones take."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    keyed = rows.where("key_hash is not null")
    totals = keyed.groupBy("topic").agg(
        f.count("*").alias("records"), f.approx_count_distinct("key_hash").alias("keys")
    )
    found: dict[str, Facts] = {
        row["topic"]: {"records": row["records"], "keys": row["keys"], "top": []} for row in totals.collect()
    }
    counted = keyed.groupBy("topic", "key_hash").agg(f.count("*").alias("records"), f.any_value("key").alias("key"))
    rank = f.row_number().over(Window.partitionBy("topic").orderBy(f.desc("records"), "key_hash"))
    for row in counted.withColumn("rank", rank).where(f.col("rank") <= top).orderBy("topic", "rank").collect():
        entry = {"records": row["records"], "share": row["records"] / found[row["topic"]]["records"]}
        shown = {} if row["key"] is None else {"key": _readable(bytes(row["key"]))}
        found[row["topic"]]["top"].append({**entry, **shown})
    return found


def _readable(key: bytes) -> str:
    text = key.decode(errors="replace")
    return text if text.isprintable() and len(text) <= 40 else f"{key[:20].hex()}…"
