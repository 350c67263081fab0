"""What a terminal is told of a step that runs: the records that Spark counts in scans, of Kafka and of files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bridge.pipeline.frames import kafka_frame
from bridge.pipeline.live import LiveProgress, records_read, records_read_by
from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.progress import Progress
from bridge.pipeline.ranges import TopicRange
from tests.pipeline.samples import filled, varied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def queries(spark: SparkSession) -> dict[int, int]:
    """What each query until now has read, by its number."""
    session: Any = spark
    session._jsc.sc().listenerBus().waitUntilEmpty()
    store = session._jsparkSession.sharedState().statusStore()
    found = store.executionsList()
    numbers = [int(found.apply(at).executionId()) for at in range(found.size())]
    return {number: records_read_by(store, number) for number in numbers}


def test_records_of_kafka_and_of_files_are_counted(
    spark: SparkSession, at_bridge: EndpointOptions, tmp_path: Path
) -> None:
    samples = varied(90)
    topic = filled(at_bridge.bootstrap, samples)
    sizes = [sum(sample.partition == number for sample in samples) for number in range(3)]
    ranges = [TopicRange(topic, number, 0, size) for number, size in enumerate(sizes) if size]
    before = queries(spark)
    kafka_frame(spark, at_bridge, ranges).write.parquet(f"{tmp_path}/rows")
    written = queries(spark)
    assert sum(read for number, read in written.items() if number not in before) == 90
    spark.read.parquet(f"{tmp_path}/rows").selectExpr("sum(length(value))").collect()
    assert sum(read for number, read in queries(spark).items() if number not in written) == 90
    assert records_read(spark) == 0, "no query runs now"


@pytest.mark.parametrize("style", ["json", "quiet"])
def test_no_thread_is_started_where_no_person_looks(spark: SparkSession, style: Any) -> None:
    live = LiveProgress(spark, Progress(style, io.StringIO()))
    live.start()
    assert not live._thread.is_alive()
    live.stop()
