"""What Spark's sink writes has the times that it had, and nothing else that it had not; any reader sees so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bridge.pipeline.frames import kafka_frame, renamed
from bridge.pipeline.moves.sink import write
from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.ranges import TopicRange
from tests.pipeline.contents import by_partition, read_by_client
from tests.pipeline.running import run_job
from tests.pipeline.samples import Sample, filled, new_topic, varied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = varied(300)
STAMPS = ["bridge.src.topic", "bridge.src.partition", "bridge.src.offset", "bridge.src.timestamp"]


@pytest.fixture(params=["at_bridge", "at_kafka"])
def target(request: pytest.FixtureRequest) -> EndpointOptions:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


def copied(spark: SparkSession, source: EndpointOptions, target: EndpointOptions, **how: bool) -> list[Sample]:
    old, new = filled(source.bootstrap, SAMPLES), new_topic(target.bootstrap)
    rows = kafka_frame(spark, source, [TopicRange(old, partition, 0, 100) for partition in range(3)])
    write(renamed(rows, {old: new}), target, **how)
    return read_by_client(target.bootstrap, new, len(SAMPLES))


def test_records_are_what_they_were(spark: SparkSession, at_kafka: EndpointOptions, target: EndpointOptions) -> None:
    assert copied(spark, at_kafka, target) == by_partition(SAMPLES)


def test_they_may_have_the_time_of_now(spark: SparkSession, at_kafka: EndpointOptions, target: EndpointOptions) -> None:
    found = copied(spark, at_kafka, target, keep_times=False)
    newest = max(each.timestamp for each in SAMPLES)
    assert all(each.timestamp > newest for each in found)
    assert [(each.key, each.value, each.headers) for each in found] == [
        (each.key, each.value, each.headers) for each in by_partition(SAMPLES)
    ]


def test_where_they_come_from_is_written_where_that_is_wanted(
    spark: SparkSession, at_kafka: EndpointOptions, at_bridge: EndpointOptions
) -> None:
    topic = filled(at_kafka.bootstrap, SAMPLES)
    words = ["--source", at_kafka.bootstrap, "--target", at_bridge.bootstrap, "--topics", topic, "--headers"]
    assert run_job(spark, "copy", *words).code == 0
    found = read_by_client(at_bridge.bootstrap, topic, len(SAMPLES))
    for place, (each, sample) in enumerate(zip(found, by_partition(SAMPLES), strict=True)):
        stamps = [topic, str(sample.partition), str(place % 100), str(sample.timestamp)]
        ours = tuple((name, stamp.encode()) for name, stamp in zip(STAMPS, stamps, strict=True))
        assert (each.headers, each.timestamp) == (sample.headers + ours, sample.timestamp)


def test_an_interceptor_of_the_users_own_sees_them_so(
    spark: SparkSession, at_kafka: EndpointOptions, at_bridge: EndpointOptions, tmp_path: Path
) -> None:
    """A class that is not there shows that it is asked for, behind ours."""
    conf = tmp_path / "target.properties"
    conf.write_text("interceptor.classes=example.Missing\n")
    topic = filled(at_kafka.bootstrap, SAMPLES[:3])
    words = ["--source", at_kafka.bootstrap, "--target", at_bridge.bootstrap, "--target-conf", str(conf)]
    ended = run_job(spark, "copy", *words, "--topics", topic)
    assert (ended.code, "example.Missing" in ended.error) == (4, True), ended.error
