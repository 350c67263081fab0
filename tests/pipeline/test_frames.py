"""Records come out of a frame as they went in, whichever endpoint holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from bridge.pipeline.errors import DataLoss
from bridge.pipeline.frames import COLUMNS, archive_frame, kafka_frame
from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.ranges import TopicRange
from bridge.pipeline.session import failure_of
from tests.pipeline.contents import as_samples
from tests.pipeline.samples import Sample, filled, varied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = varied(600)


@pytest.fixture(scope="module", params=["at_bridge", "at_kafka"])
def endpoint(request: pytest.FixtureRequest) -> EndpointOptions:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def topic(endpoint: EndpointOptions) -> str:
    return filled(endpoint.bootstrap, SAMPLES)


def expected(partition: int, start: int, until: int) -> list[Sample]:
    return [sample for sample in SAMPLES if sample.partition == partition][start:until]


def test_reads_every_field_of_a_range_in_order(spark: SparkSession, endpoint: EndpointOptions, topic: str) -> None:
    ranges = [TopicRange(topic, 0, 0, 200), TopicRange(topic, 2, 17, 120)]
    frame = kafka_frame(spark, endpoint, ranges)
    assert tuple(frame.columns) == COLUMNS
    assert as_samples(frame.where("partition = 0")) == expected(0, 0, 200)
    assert as_samples(frame.where("partition = 2")) == expected(2, 17, 120)
    assert {row.headers is None for row in frame.collect()} == {True, False}


def test_nothing_is_read_for_no_range(spark: SparkSession, endpoint: EndpointOptions) -> None:
    frame = kafka_frame(spark, endpoint, [])
    assert tuple(frame.columns) == COLUMNS
    assert frame.collect() == []


def test_an_archive_gives_the_same_columns(
    spark: SparkSession, endpoint: EndpointOptions, topic: str, tmp_path: Any
) -> None:
    frame = kafka_frame(spark, endpoint, [TopicRange(topic, 1, 0, 200)])
    frame.selectExpr("*", "'2026-01-01' date", "'00000000' batch").write.partitionBy("topic", "date", "batch").parquet(
        f"{tmp_path}/archive"
    )
    back = archive_frame(spark, f"{tmp_path}/archive", [TopicRange(topic, 1, 50, 90)])
    assert tuple(back.columns) == COLUMNS
    assert as_samples(back.orderBy("offset")) == expected(1, 50, 90)


def test_records_that_are_gone_are_a_loss_not_a_gap(spark: SparkSession, endpoint: EndpointOptions) -> None:
    topic = filled(endpoint.bootstrap, SAMPLES[:90])
    admin = AdminClient({"bootstrap.servers": endpoint.bootstrap})
    admin.delete_records([TopicPartition(topic, 0, 10)])[TopicPartition(topic, 0)].result(30)
    with pytest.raises(Exception) as gone:
        kafka_frame(spark, endpoint, [TopicRange(topic, 0, 5, 30)]).collect()
    assert isinstance(failure_of(gone.value), DataLoss)
