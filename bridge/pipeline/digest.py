"""Hashes that tell whether two sets of records are the same: of each field, each record, and their sums.

A record's hash covers key, value, headers and time, with null different from empty; headers of ours
(`provenance`) are left out. Sums of hashes do not depend on order, so a partition is summed where it is read and only
the sums travel. xxHash64 is no cryptographic hash: it finds accidents, not forgers.
"""

from typing import TYPE_CHECKING

from bridge.pipeline.provenance import foreign_headers, true_timestamp

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PARTITION = ("topic", "partition")
HASHES = ("hash", "key_hash", "value_hash", "headers_hash", "time")
_LOW_HALF = 0xFFFFFFFF


def hashed(frame: "DataFrame", *, times: bool = True) -> "DataFrame":
    """The records' positions and hashes, without the records; `times`: whether their times count."""
    from pyspark.sql import functions as f

    fields = frame.select(
        *PARTITION,
        "offset",
        _hash_of("key").alias("key_hash"),
        _hash_of("value").alias("value_hash"),
        _hash_of_headers().alias("headers_hash"),
        (true_timestamp() if times else f.lit(None).cast("long")).alias("time"),
    )
    return fields.withColumn("hash", f.xxhash64("key_hash", "value_hash", "headers_hash", "time"))


def record_hash() -> "Column":
    """The hash that `hashed` gives, for rows that keep their records."""
    from pyspark.sql import functions as f

    return f.xxhash64(_hash_of("key"), _hash_of("value"), _hash_of_headers(), true_timestamp())


def content_sums() -> "list[Column]":
    """Aggregates over `hashed` rows: the records, in any order."""
    from pyspark.sql import functions as f

    return _sums(f.col("hash"), "content")


def place_sums(place: "Column") -> "list[Column]":
    """Aggregates over `hashed` rows: the records with their positions."""
    from pyspark.sql import functions as f

    return _sums(f.xxhash64(f.col("hash"), place), "place")


def _sums(hashes: "Column", name: str) -> "list[Column]":
    """Of both halves of a hash: a sum of 64 bits would overflow, one of 32 does so after two thousand million."""
    from pyspark.sql import functions as f

    low, high = hashes.bitwiseAND(f.lit(_LOW_HALF)), f.shiftrightunsigned(hashes, 32)
    return [f.sum(half).alias(f"{name}_{which}") for half, which in ((low, "low"), (high, "high"))]


def _hash_of(column: str) -> "Column":
    """xxhash64 passes over nulls, so they are marked."""
    from pyspark.sql import functions as f

    return f.xxhash64(f.col(column).isNull(), f.coalesce(f.col(column), f.lit(b"")))


def _hash_of_headers() -> "Column":
    from pyspark.sql import functions as f

    def whole(header: "Column") -> "Column":
        value = header["value"]
        return f.struct(header["key"], value.isNull(), f.coalesce(value, f.lit(b"")))

    return f.xxhash64(f.transform(f.coalesce(foreign_headers(), f.array()), whole))
