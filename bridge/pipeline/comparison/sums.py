"""The sums that identify a batch of records: how many, how large, a digest of them and their offsets."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bridge.pipeline.digest import record_hash

if TYPE_CHECKING:
    from pyspark.sql import Column

_LOW_HALF = 0xFFFFFFFF


def batch_sums() -> "list[Column]":
    """Aggregates over records; `bytes` are those of keys and values."""
    from pyspark.sql import functions as f

    placed = f.xxhash64(record_hash(), f.col("topic"), f.col("partition"), f.col("offset"))
    size = f.coalesce(f.length("key"), f.lit(0)) + f.coalesce(f.length("value"), f.lit(0))
    return [
        f.count(f.lit(1)).alias("records"),
        f.coalesce(f.sum(size), f.lit(0)).alias("bytes"),
        # in halves: the sum of whole hashes would overflow
        f.coalesce(f.sum(placed.bitwiseAND(f.lit(_LOW_HALF))), f.lit(0)).alias("low"),
        f.coalesce(f.sum(f.shiftrightunsigned(placed, 32)), f.lit(0)).alias("high"),
    ]


def batch_digest(sums: Mapping[str, Any]) -> str:
    """The digest out of the aggregates, as it is written down."""
    return f"xxhash64:{sums['high']:x}:{sums['low']:x}"
