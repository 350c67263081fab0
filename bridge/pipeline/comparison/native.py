"""A side of a comparison that is read directly from Pulsar, so that independent code checks the bridge."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bridge.pipeline.errors import Usage
from bridge.pipeline.frames import COLUMNS, SCHEMA
from bridge.pipeline.pulsar import reader
from bridge.pipeline.pulsar.connection import Address, TopicNotFound
from bridge.pipeline.ranges import TopicRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RAW = SCHEMA.replace("timestamp timestamp", "timestamp long")


def native_ranges(address: Address, topics: Sequence[str]) -> list[TopicRange]:
    """All that the topics hold now, by partition."""
    found = []
    for topic in topics:
        for partition, name in enumerate(_names(address, topic)):
            earliest, latest = reader.ends(address, name)
            found.append(TopicRange(topic, partition, earliest, latest))
    return found


def native_frame(spark: "SparkSession", address: Address, ranges: Sequence[TopicRange]) -> "DataFrame":
    """Read exactly these ranges, one task each, in the order of offsets."""
    from pyspark.sql import functions as f

    if not ranges:
        return spark.createDataFrame([], SCHEMA)
    named = [(each, _names(address, each.topic)[each.partition]) for each in ranges]
    rows = spark.sparkContext.parallelize(named, len(named)).flatMap(lambda part: _rows(address, *part))
    # times come as numbers: a datetime for each record costs more than all the rest
    frame = spark.createDataFrame(rows, _RAW, verifySchema=False)
    return frame.withColumn("timestamp", f.timestamp_millis("timestamp")).select(*COLUMNS)


def _rows(address: Address, part: TopicRange, name: str) -> Iterator[tuple[object, ...]]:
    for offset, timestamp, key, value, headers in reader.read(address, name, part.start, part.until):
        yield part.topic, part.partition, offset, timestamp, 0, key, value, headers or None


def _names(address: Address, topic: str) -> list[str]:
    try:
        return reader.topics_of(address, topic)
    except TopicNotFound:
        raise Usage(f"no topic {topic} in Pulsar's namespace {address.namespace}") from None
