"""What traffic tells of a topic whose records are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bridge.pipeline.endpoint import Committed, KafkaEndpoint
from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.ranges import Partition
from tests.pipeline.running import Outcome, run_job
from tests.pipeline.samples import Sample, filled, new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIME = 1_700_000_000_000
# partition 0: a record a second, every tenth without a value, half of them of one key; partition 1: one is late
RECORDS = [
    *(
        Sample(0, b"often" if at % 2 else b"%05d" % at, None if at % 10 == 0 else b"x" * 90, TIME + 1000 * at)
        for at in range(100)
    ),
    Sample(1, None, b"x" * 40, TIME + 5000, (("name", b"value"), ("n", None))),
    Sample(1, b"often", b"x" * 1000, TIME + 2500),
]


@pytest.fixture(scope="module")
def topic(at_bridge: EndpointOptions) -> str:
    return filled(at_bridge.bootstrap, RECORDS, 2)


@pytest.fixture(scope="module")
def measured(
    spark: SparkSession, at_bridge: EndpointOptions, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Outcome]:
    """A second run into the same directory, after the group has gone on by 20 records."""
    out = tmp_path_factory.mktemp("traffic")
    words = ["traffic", "--bootstrap", at_bridge.bootstrap, "--topics", topic, "--out", str(out)]
    words += ["--groups", f"group-{topic}", "--top", "3", "--show-keys"]
    outcomes = []
    for committed in (50, 70):
        with KafkaEndpoint(at_bridge) as endpoint:
            endpoint.commit(f"group-{topic}", {Partition(topic, 0): Committed(committed, "")})
        outcomes.append(run_job(spark, *words))
    assert [outcome.code for outcome in outcomes] == [0, 0]
    return out, outcomes[-1]


def partition(measured: tuple[Path, Outcome], number: int) -> dict[str, Any]:
    found: dict[str, Any] = measured[1].report["partitions"][number]
    return found


def test_volume_and_sizes(measured: tuple[Path, Outcome]) -> None:
    first = partition(measured, 0)
    assert (first["records"], first["from"], first["to"], first["gaps"]) == (100, 0, 100, 0)
    assert first["bytes"] == 100 * 5 + 90 * 90
    assert (first["sizes"], first["largest"]) == ({"p50": 95, "p90": 95, "p99": 95}, 95)
    second = partition(measured, 1)
    assert (second["records"], second["bytes"]) == (2, 40 + len("namevaluen") + 1005)


def test_nulls_and_tombstones(measured: tuple[Path, Outcome]) -> None:
    assert [partition(measured, at)["null_keys"] for at in (0, 1)] == [0, 1]
    assert [partition(measured, at)["tombstones"] for at in (0, 1)] == [10, 0]


def test_time_and_lateness(measured: tuple[Path, Outcome]) -> None:
    first, second = partition(measured, 0), partition(measured, 1)
    assert (first["first"], first["last"], first["late"]) == (TIME, TIME + 99_000, 0)
    assert (second["late"], second["latest_by"]) == (1, 2500)


def test_rates_by_time(measured: tuple[Path, Outcome]) -> None:
    report = measured[1].report
    assert report["bucket_ms"] == 1000
    assert [(row["start"], row["records"]) for row in report["times"][:6]] == [
        (TIME, 1), (TIME + 1000, 1), (TIME + 2000, 2), (TIME + 3000, 1), (TIME + 4000, 1), (TIME + 5000, 2),
    ]  # fmt: skip
    assert sum(row["bytes"] for row in report["times"]) == sum(partition(measured, at)["bytes"] for at in (0, 1))


def test_key_skew(measured: tuple[Path, Outcome], topic: str) -> None:
    keys = measured[1].report["keys"][topic]
    assert keys["records"] == 101
    assert keys["keys"] == pytest.approx(51, rel=0.2)  # it is an estimate
    assert keys["top"][0] == {"records": 51, "share": 51 / 101, "key": "often"}
    assert [each["records"] for each in keys["top"]] == [51, 1, 1]


def test_the_lag_of_every_run_is_remembered(measured: tuple[Path, Outcome]) -> None:
    lag = measured[1].report["lag"]
    assert [(row["committed"], row["end"], row["lag"]) for row in lag] == [(50, 100, 50), (70, 100, 30)]


def test_the_report_is_markdown_html_plots_and_parquet(
    spark: SparkSession, measured: tuple[Path, Outcome], topic: str
) -> None:
    out = measured[0]
    text = (out / "traffic.md").read_text()
    assert f"{topic}/0 | 100 | 8,600 |" in text.replace("\\", "")
    assert "about 2,500" not in text and "2.500 s" in text
    page = (out / "traffic.html").read_text()
    for name in ("records", "bytes", f"keys-{topic}", "lag"):
        assert f"({name}.svg)" in text
        assert (out / f"{name}.svg").read_text().lstrip().startswith("<?xml")
    assert page.count("<svg") == 4
    assert spark.read.parquet(f"{out}/partitions").count() == 2
    assert spark.read.parquet(f"{out}/times").agg({"records": "sum"}).collect()[0][0] == 102


def test_what_makes_no_sense_is_refused_before_spark_starts(
    at_bridge: EndpointOptions, topic: str, tmp_path: Path
) -> None:
    empty = new_topic(at_bridge.bootstrap)
    for change, reason in (
        ({"--topics": "no-such-topic"}, "no such topic"),
        ({"--topics": empty}, "nothing between"),
        ({"--top": "0"}, "--top"),
        ({"--groups": "no-such-group"}, "group no-such-group"),
    ):
        words = {"--bootstrap": at_bridge.bootstrap, "--topics": topic, "--out": str(tmp_path / "out"), **change}
        outcome = run_job(None, "traffic", *[word for pair in words.items() for word in pair])
        assert (outcome.code, reason in outcome.error) == (2, True), outcome.error
    assert not (tmp_path / "out").exists()
