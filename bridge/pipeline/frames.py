"""Records as a DataFrame, the same columns whether they come from Kafka or from an archive.

topic string, partition int, offset long, timestamp timestamp, timestamp_type int (0 CreateTime, 1 LogAppendTime),
key binary, value binary, headers array<struct<key string, value binary>> (null where a record has none).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.ranges import TopicRange

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
SCHEMA = (
    "topic string, partition int, offset long, timestamp timestamp, timestamp_type int, "
    "key binary, value binary, headers array<struct<key: string, value: binary>>"
)
_READING = {
    "includeHeaders": "true",
    "failOnDataLoss": "true",
    # a consumer asks for the ends of the log twice a poll; 500 records a poll are too few for that
    "kafka.max.poll.records": "5000",
    # after a poll Spark asks for the ends of the log, on the connection on which the next fetch waits already: where a
    # range ends at the end of its log, that were 500 ms for each task, for records that it is not to read
    "kafka.fetch.max.wait.ms": "10",
    # an endpoint that no longer answers shows itself in half a minute, not in two
    "kafkaConsumer.pollTimeoutMs": "30000",
}


def kafka_frame(spark: "SparkSession", endpoint: EndpointOptions, ranges: Sequence[TopicRange]) -> "DataFrame":
    """Read exactly these ranges, one task each, in the order of offsets; at most one range a partition."""
    if not ranges:
        return spark.createDataFrame([], SCHEMA)
    options = {**_READING, **endpoint.spark_options()}
    options["assign"] = _by_topic_json({each: None for each in ranges})
    options["startingOffsets"] = _by_topic_json({each: each.start for each in ranges})
    options["endingOffsets"] = _by_topic_json({each: each.until for each in ranges})
    frame = spark.read.format("kafka").options(**options).load()
    return frame.withColumnRenamed("timestampType", "timestamp_type").select(*COLUMNS)


def archive_frame(spark: "SparkSession", path: str, ranges: Iterable[TopicRange] | None = None) -> "DataFrame":
    """Read an archive, or these ranges of it; rows come in no order."""
    frame = spark.read.schema(f"{SCHEMA}, date string, batch string").parquet(path).select(*COLUMNS)
    return frame if ranges is None else frame.where(within(ranges))


def small_frame(spark: "SparkSession", rows: Sequence[Mapping[str, Any]], schema: str) -> "DataFrame":
    """Our own rows, by way of JSON: from tuples Spark would make them in Python workers, as if they were many."""
    from pyspark.sql import functions as f

    told = f.from_json(f.lit(json.dumps(rows)), f"array<struct<{schema}>>")
    return spark.range(1).select(f.inline(told))


def renamed(frame: "DataFrame", names: Mapping[str, str]) -> "DataFrame":
    """The records under other topics' names."""
    others: dict[Any, Any] = {old: new for old, new in names.items() if old != new}
    return frame.replace(others, subset=["topic"]) if others else frame


def within(ranges: Iterable[TopicRange]) -> "Column":
    """Whether a row lies in one of the ranges."""
    from pyspark.sql import functions as f

    conditions = [
        (f.col("topic") == each.topic)
        & (f.col("partition") == each.partition)
        & (f.col("offset") >= each.start)
        & (f.col("offset") < each.until)
        for each in ranges
    ]
    return reduce(lambda one, other: one | other, conditions, f.lit(False))


def _by_topic_json(values: dict[TopicRange, int | None]) -> str:
    """Kafka's own form: {"topic": {"0": 17}}, or {"topic": [0]} where partitions have no value."""
    offsets: dict[str, dict[str, int]] = {}
    bare: dict[str, list[int]] = {}
    for each, value in values.items():
        if value is None:
            bare.setdefault(each.topic, []).append(each.partition)
        else:
            offsets.setdefault(each.topic, {})[str(each.partition)] = value
    return json.dumps(offsets or bare)
