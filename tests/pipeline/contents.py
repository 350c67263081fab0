"""What topics and archives hold, as the samples that were written."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, TopicPartition

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


def read_by_client(bootstrap: str, topic: str, samples: int) -> list[Sample]:
    """By librdkafka; times as the producer has set them."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    found: list[Sample] = []
    with closing(Consumer({**settings, "auto.offset.reset": "error"})) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
        while len(found) < samples:
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None, message.error()
            kind, time = message.timestamp()
            assert kind == TIMESTAMP_CREATE_TIME
            headers = tuple(message.headers() or ())
            found.append(Sample(message.partition(), message.key(), message.value(), time, headers))
    return by_partition(found)
