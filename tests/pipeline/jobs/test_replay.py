"""A replay writes each record once, in order and in its partition, however often it was killed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from bridge.pipeline.endpoint import KafkaEndpoint
from bridge.pipeline.options import EndpointOptions
from tests.pipeline.contents import by_partition, contents
from tests.pipeline.running import run_job
from tests.pipeline.samples import Sample, filled, new_topic, varied, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = varied(900)


def archived(spark: SparkSession, endpoint: EndpointOptions, samples: list[Sample], out: Path) -> str:
    topic = filled(endpoint.bootstrap, samples, partitions=4)  # one of them stays empty
    job = ["archive", "--bootstrap", endpoint.bootstrap, "--topics", topic, "--out", str(out)]
    assert run_job(spark, *job).code == 0
    return topic


@pytest.fixture(scope="module")
def archive(spark: SparkSession, at_bridge: EndpointOptions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("replay") / "archive"
    archived(spark, at_bridge, SAMPLES, out)
    return out


def moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def target() -> str:
    return f"replayed-{uuid4().hex[:10]}"


def only_topic(archive: Path) -> str:
    (found,) = archive.glob("topic=*")
    return found.name.removeprefix("topic=")


def words(endpoint: EndpointOptions, archive: Path, name: str, *more: str) -> list[str]:
    mapped = f"{only_topic(archive)}={name}"
    return ["replay", "--archive", str(archive), "--bootstrap", endpoint.bootstrap, "--map", mapped, *more]


def test_writes_everything_as_it_was_and_nothing_again(
    spark: SparkSession, at_bridge: EndpointOptions, archive: Path
) -> None:
    name = target()
    first = run_job(spark, *words(at_bridge, archive, name, "--chunk", "300"))
    assert (first.code, first.report["written"]) == (0, 900)
    assert contents(spark, at_bridge, name) == by_partition(SAMPLES)
    with KafkaEndpoint(at_bridge) as asked:
        assert asked.partitions([name]) == {name: [0, 1, 2, 3]}
    again = run_job(spark, *words(at_bridge, archive, name))
    assert (again.code, again.report["written"]) == (0, 0)


def test_a_range_of_time_is_found_in_the_archive(spark: SparkSession, at_kafka: EndpointOptions, archive: Path) -> None:
    name = target()
    noon = SAMPLES[450].timestamp
    replayed = run_job(spark, *words(at_kafka, archive, name, "--to", moment(noon), "--rate", "100000"))
    assert replayed.code == 0
    expected = []
    for partition in range(3):
        of_it = [sample for sample in SAMPLES if sample.partition == partition]
        first = next(number for number, sample in enumerate(of_it) if sample.timestamp >= noon)
        expected += of_it[:first]
    assert contents(spark, at_kafka, name) == expected


def test_a_target_that_does_not_fit_is_refused(spark: SparkSession, at_bridge: EndpointOptions, archive: Path) -> None:
    small = new_topic(at_bridge.bootstrap, 2)
    refused = run_job(spark, *words(at_bridge, archive, small))
    assert refused.code == 2
    assert "has 2 partitions" in refused.error
    foreign = filled(at_bridge.bootstrap, SAMPLES[3:6])
    refused = run_job(spark, *words(at_bridge, archive, foreign))
    assert refused.code == 2
    assert "an empty topic is needed" in refused.error
    assert run_job(spark, *words(at_bridge, archive, target(), "--topics", "another")).code == 2


def test_another_writer_is_noticed(spark: SparkSession, at_bridge: EndpointOptions, archive: Path) -> None:
    name = target()
    half = words(at_bridge, archive, name)
    assert run_job(spark, *half, "--to", moment(SAMPLES[450].timestamp)).code == 0
    write(at_bridge.bootstrap, name, SAMPLES[:3])
    noticed = run_job(spark, *half)
    assert noticed.code == 3
    assert "another writer has written" in noticed.error
