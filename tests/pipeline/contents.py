"""What topics and archives hold, as the samples that were written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridge.pipeline.endpoint import KafkaEndpoint
from bridge.pipeline.frames import kafka_frame
from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.ranges import TopicRange
from tests.pipeline.samples import Sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def as_samples(frame: DataFrame) -> list[Sample]:
    return [as_sample(row) for row in frame.collect()]


def as_sample(row: Any) -> Sample:
    headers = tuple((header.key, None if header.value is None else bytes(header.value)) for header in row.headers or ())
    key, value = (None if field is None else bytes(field) for field in (row.key, row.value))
    return Sample(row.partition, key, value, round(row.timestamp.timestamp() * 1000), headers)


def contents(spark: SparkSession, endpoint: EndpointOptions, topic: str) -> list[Sample]:
    """What a topic holds, as any reader gets it."""
    with KafkaEndpoint(endpoint) as asked:
        bounds = asked.bounds([topic])
    ranges = [TopicRange(*key, held.earliest, held.latest) for key, held in bounds.items() if held.latest]
    return as_samples(kafka_frame(spark, endpoint, ranges).orderBy("partition", "offset"))


def by_partition(samples: list[Sample]) -> list[Sample]:
    return sorted(samples, key=lambda sample: sample.partition)
