"""An archive holds each record once, however often the job was killed; what does not fit is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bridge.pipeline.frames import archive_frame
from bridge.pipeline.options import EndpointOptions
from tests.pipeline.contents import as_samples
from tests.pipeline.running import run_job
from tests.pipeline.samples import filled, new_topic, varied, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = varied(900)


@pytest.fixture(scope="module")
def topic(at_bridge: EndpointOptions) -> str:
    return filled(at_bridge.bootstrap, SAMPLES)


def words(endpoint: EndpointOptions, topic: str, out: Path, *more: str) -> list[str]:
    return ["archive", "--bootstrap", endpoint.bootstrap, "--topics", topic, "--out", str(out), *more]


def holds(spark: SparkSession, out: Path, samples: list[object]) -> bool:
    rows = as_samples(archive_frame(spark, str(out)).orderBy("partition", "offset"))
    return rows == sorted(samples, key=lambda sample: sample.partition)  # type: ignore[attr-defined]


def test_holds_every_record_once_and_goes_on_where_it_stopped(
    spark: SparkSession, at_bridge: EndpointOptions, tmp_path: Path
) -> None:
    topic = filled(at_bridge.bootstrap, SAMPLES)
    archived = run_job(spark, *words(at_bridge, topic, tmp_path / "a", "--batch", "400"))
    assert (archived.code, archived.report["records"], archived.report["batches"]) == (0, 900, 3)
    assert holds(spark, tmp_path / "a", [*SAMPLES])
    assert run_job(spark, "verify", "--archive", str(tmp_path / "a")).code == 0

    again = run_job(spark, *words(at_bridge, topic, tmp_path / "a"))
    assert (again.code, again.report.get("records")) == (0, None)
    more = varied(300, first=900)
    write(at_bridge.bootstrap, topic, more)
    assert run_job(spark, *words(at_bridge, topic, tmp_path / "a")).report["records"] == 300
    assert holds(spark, tmp_path / "a", [*SAMPLES, *more])
    assert run_job(spark, "verify", "--archive", str(tmp_path / "a")).report["records"] == 1200


def test_files_lie_by_topic_and_hour(
    spark: SparkSession, at_bridge: EndpointOptions, topic: str, tmp_path: Path
) -> None:
    assert run_job(spark, *words(at_bridge, topic, tmp_path / "a", "--partition-by", "hour")).code == 0
    hours = {path.relative_to(tmp_path / "a").parts[:3] for path in tmp_path.rglob("*.parquet")}
    assert hours == {(f"topic={topic}", f"date=2023-11-{day}", "hour=22") for day in range(14, 19)}
    assert holds(spark, tmp_path / "a", [*SAMPLES])


def test_verify_finds_what_is_not_as_it_was_written(
    spark: SparkSession, at_bridge: EndpointOptions, topic: str, tmp_path: Path
) -> None:
    out = tmp_path / "a"
    run_job(spark, *words(at_bridge, topic, out, "--batch", "450"))
    files = sorted(out.rglob("*.parquet"))
    files[0].rename(tmp_path / "away")
    missing = run_job(spark, "verify", "--archive", str(out))
    assert missing.code == 3
    assert "records instead of" in missing.error
    (tmp_path / "away").rename(files[0])
    assert run_job(spark, "verify", "--archive", str(out)).code == 0
    manifest = out / "_bridge" / "manifest-00000001.json"
    content = json.loads(manifest.read_text())
    manifest.with_name(".manifest-00000001.json.crc").unlink(missing_ok=True)
    manifest.write_text(json.dumps({**content, "digest": content["digest"][:-1] + "x"}))
    assert "digest differs" in run_job(spark, "verify", "--archive", str(out)).error


def test_ranges_are_kept_to(spark: SparkSession, at_bridge: EndpointOptions, topic: str, tmp_path: Path) -> None:
    offsets = json.dumps({topic: {"0": 10, "1": 20, "2": 300}})
    until = json.dumps({topic: {"0": 30, "1": 21}})
    assert run_job(spark, *words(at_bridge, topic, tmp_path / "a", "--from", offsets, "--to", until)).code == 0
    by_partition = [[s for s in SAMPLES if s.partition == partition] for partition in range(3)]
    assert holds(spark, tmp_path / "a", [*by_partition[0][10:30], *by_partition[1][20:21]])


def test_a_plan_is_shown_without_spark_and_nothing_is_written(
    at_bridge: EndpointOptions, topic: str, tmp_path: Path
) -> None:
    planned = run_job(None, *words(at_bridge, topic, tmp_path / "a", "--dry-run"))
    assert planned.code == 0
    assert "3 partitions, about 900 records" in planned.notes[-1]
    assert not (tmp_path / "a").exists()


def test_what_does_not_fit_is_refused_before_anything_is_written(
    spark: SparkSession, at_bridge: EndpointOptions, topic: str, tmp_path: Path
) -> None:
    out = tmp_path / "a"
    unknown = run_job(None, *words(at_bridge, "no-such-topic", out))
    assert (unknown.code, unknown.error) == (2, "no such topic: no-such-topic")
    empty = run_job(spark, *words(at_bridge, new_topic(at_bridge.bootstrap), out))
    assert (empty.code, empty.error) == (2, "there is nothing between --from and --to")
    gone = run_job(None, *words(at_bridge, topic, out, "--from", json.dumps({topic: {"0": 1000}})))
    assert gone.code == 2
    assert not out.exists()
    out.mkdir()
    (out / "theirs.txt").write_text("theirs")
    foreign = run_job(spark, *words(at_bridge, topic, out))
    assert (foreign.code, [path.name for path in out.iterdir()]) == (2, ["theirs.txt"])
    assert run_job(spark, "verify", "--archive", str(out)).code == 2


def test_an_archive_of_other_topics_is_not_gone_on_with(
    spark: SparkSession, at_bridge: EndpointOptions, topic: str, tmp_path: Path
) -> None:
    run_job(spark, *words(at_bridge, topic, tmp_path / "a"))
    other = run_job(spark, *words(at_bridge, filled(at_bridge.bootstrap, SAMPLES[:3]), tmp_path / "a"))
    assert other.code == 2
    assert "was begun with topics" in other.error


def test_an_endpoint_without_a_listener_is_an_endpoint_failure(tmp_path: Path) -> None:
    dead = run_job(None, *words(EndpointOptions("127.0.0.1:1"), "t", tmp_path / "a"))
    assert dead.code == 4
    assert dead.error.startswith("127.0.0.1:1: ")
