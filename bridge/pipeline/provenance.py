"""The headers in which replay and copy can say of each record where it came from, and the time it had there.

They are ours: comparisons leave every header that begins with `bridge.` out, and compare the time in them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PREFIX = "bridge."
TOPIC = "bridge.src.topic"
PARTITION = "bridge.src.partition"
OFFSET = "bridge.src.offset"
TIMESTAMP = "bridge.src.timestamp"
"""Milliseconds since 1970, in text like the others."""
_STAMPS = (TOPIC, PARTITION, OFFSET, TIMESTAMP)


def foreign_headers() -> "Column":
    """The headers that are the user's own; null where the record has none, as Kafka tells it."""
    from pyspark.sql import functions as f

    own = f.filter("headers", lambda header: ~header["key"].startswith(PREFIX))
    return f.when(f.size(own) > 0, own)


def header_text(name: str) -> "Column":
    """The value of one of our headers, or null."""
    from pyspark.sql import functions as f

    found = f.filter("headers", lambda header: header["key"] == name)
    return f.get(found, f.lit(0))["value"].cast("string")


def true_timestamp() -> "Column":
    """The time the record had at its first source: as a header tells it, else its own, in milliseconds."""
    from pyspark.sql import functions as f

    # anyone can write such a header: what is no number is none of ours, and must not end a job
    return f.coalesce(header_text(TIMESTAMP).try_cast("long"), f.unix_millis("timestamp"))


def stamped(frame: "DataFrame") -> "DataFrame":
    """The frame with our four headers behind the others."""
    from pyspark.sql import functions as f

    def header(name: str, value: "Column") -> "Column":
        return f.struct(f.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))

    others = f.filter("headers", lambda each: ~each["key"].isin(*_STAMPS))
    ours = f.array(
        header(TOPIC, f.col("topic")),
        header(PARTITION, f.col("partition")),
        header(OFFSET, f.col("offset")),
        header(TIMESTAMP, true_timestamp()),
    )
    return frame.withColumn("headers", f.concat(f.coalesce(others, f.array()), ours))
