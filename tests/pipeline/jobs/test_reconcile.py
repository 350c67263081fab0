"""Two sides that hold the same are identical, whatever they are; what differs is found, what is missing repaired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bridge.pipeline.options import EndpointOptions
from tests.pipeline.running import Outcome, run_job
from tests.pipeline.samples import Sample, filled, new_topic, varied
from tests.support.bridges import BridgeChild

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = varied(600)
LACKING = {3, 4, 5, 30, 599}


@pytest.fixture(scope="module")
def topic(at_bridge: EndpointOptions) -> str:
    return filled(at_bridge.bootstrap, SAMPLES)


@pytest.fixture(scope="module")
def native(bridge_child: BridgeChild) -> str:
    return f"{bridge_child.pulsar}/{bridge_child.namespace}"


def verdicts(outcome: Outcome) -> list[str]:
    return [partition["verdict"] for partition in outcome.report["partitions"]]


def test_the_bridge_gives_what_pulsar_holds(
    spark: SparkSession, at_bridge: EndpointOptions, native: str, topic: str
) -> None:
    outcome = run_job(spark, "reconcile", "--a", at_bridge.bootstrap, "--b-native", native, "--topics", topic)
    assert (outcome.code, outcome.report["verdict"], verdicts(outcome)) == (0, "identical", ["identical"] * 3)
    assert [partition["b"]["records"] for partition in outcome.report["partitions"]] == [200] * 3


def test_an_archive_holds_what_the_bridge_gives_between_two_times(
    spark: SparkSession, at_bridge: EndpointOptions, topic: str, tmp_path: Path
) -> None:
    words = ["--bootstrap", at_bridge.bootstrap, "--topics", topic, "--out", str(tmp_path / "a")]
    assert run_job(spark, "archive", *words).code == 0
    times = ["--from", "2023-11-15T22:13:20", "--to", "2023-11-17T22:13:20"]
    sides = ["--a-archive", str(tmp_path / "a"), "--b", at_bridge.bootstrap, "--topics", topic]
    outcome = run_job(spark, "reconcile", *sides, *times)
    assert (outcome.code, outcome.report["verdict"]) == (0, "identical")
    assert 0 < outcome.report["partitions"][0]["a"]["records"] < 200


def test_what_a_copy_lacks_or_has_changed_is_found_and_what_is_missing_is_repaired(
    spark: SparkSession, at_bridge: EndpointOptions, at_kafka: EndpointOptions, topic: str, tmp_path: Path
) -> None:
    copy = filled(at_kafka.bootstrap, faulty())
    sides = ["--a", at_bridge.bootstrap, "--b", at_kafka.bootstrap]
    words = ["reconcile", *sides, "--topics", topic, "--map", f"{topic}={copy}"]
    outcome = run_job(spark, *words, "--report", str(tmp_path / "report"))
    assert (outcome.code, outcome.report["verdict"]) == (1, "different")
    partitions = json.loads((tmp_path / "report").read_text())["partitions"]
    assert [(each["counts"], each["missing"]) for each in partitions] == [
        ({"missing": 2}, [[1, 2], [10, 11]]),
        ({"corrupt": 1, "missing": 1}, [[1, 2]]),
        ({"duplicate": 1, "missing": 2}, [[1, 2], [199, 200]]),
    ]
    assert outcome.report["partitions"][1]["examples"]["corrupt"] == [
        {"a_offset": 33, "b_offset": 32, "fields": "value"}
    ]
    outcome = repair(spark, at_bridge, at_kafka, tmp_path / "report")
    assert (outcome.code, outcome.report["written"]) == (0, len(LACKING))
    assert any("order is not restored" in note for note in outcome.notes)

    again = repair(spark, at_bridge, at_kafka, tmp_path / "report")
    assert again.code == 2 and "reconcile again" in again.error
    counts = [each["counts"] for each in run_job(spark, *words).report["partitions"]]
    assert not any("missing" in each for each in counts)
    assert counts[1]["corrupt"] == counts[2]["duplicate"] == 1


def faulty() -> list[Sample]:
    """As SAMPLES, without some, with one changed in partition 1 and one repeated in partition 2."""
    copied = [sample for number, sample in enumerate(SAMPLES) if number not in LACKING]
    changed = next(at for at, sample in enumerate(copied) if sample == SAMPLES[100])
    sample = copied[changed]
    copied[changed] = Sample(sample.partition, sample.key, b"changed", sample.timestamp, sample.headers)
    return [*copied, SAMPLES[200]]


def repair(spark: SparkSession, a: EndpointOptions, b: EndpointOptions, report: Path) -> Outcome:
    return run_job(spark, "repair", "--findings", str(report), "--a", a.bootstrap, "--b", b.bootstrap)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"--topics": "no-such-topic"}, "no such topic"),
        ({"--map": "other=that"}, "--map"),
        ({"--b-native": "http://127.0.0.1:1"}, "expected pulsar://"),
        ({"--a": "nowhere"}, "not HOST:PORT"),
        ({"--from": "yesterday"}, "neither"),
    ],
)
def test_what_makes_no_sense_is_refused_before_spark_starts(
    at_bridge: EndpointOptions, native: str, topic: str, change: dict[str, str], reason: str
) -> None:
    words = {"--a": at_bridge.bootstrap, "--b-native": native, "--topics": topic, **change}
    outcome = run_job(None, "reconcile", *[word for pair in words.items() for word in pair])
    assert outcome.code == 2
    assert reason in outcome.error


def test_nothing_on_either_side_is_refused(at_bridge: EndpointOptions, native: str) -> None:
    empty = new_topic(at_bridge.bootstrap)
    outcome = run_job(None, "reconcile", "--a", at_bridge.bootstrap, "--b-native", native, "--topics", empty)
    assert (outcome.code, "nothing to compare" in outcome.error) == (2, True)


def test_a_dry_run_shows_the_ranges(at_bridge: EndpointOptions, native: str, topic: str) -> None:
    words = ["--a", at_bridge.bootstrap, "--b-native", native, "--topics", topic, "--dry-run"]
    outcome = run_job(None, "reconcile", *words)
    assert outcome.code == 0
    assert outcome.notes[0].count("about 600 records") == 2


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (None, "no report"),
        ({"job": "archive"}, "no report"),
        ({"job": "reconcile", "partitions": []}, "nothing is missing"),
        ({"job": "reconcile", "partitions": [{"missing": [[0, 1]]}]}, "no report"),
        (
            {
                "job": "reconcile",
                "partitions": [
                    {"topic": "gone", "b_topic": "gone", "partition": 0, "missing": [[0, 1]], "b": {"end": 1}}
                ],
            },
            "no partition gone/0",
        ),
    ],
)
def test_repair_refuses_a_report_it_cannot_use(
    at_bridge: EndpointOptions, tmp_path: Path, report: Any, reason: str
) -> None:
    path = tmp_path / "report"
    path.write_text("rubbish" if report is None else json.dumps(report))
    words = ["--findings", str(path), "--a", at_bridge.bootstrap, "--b", at_bridge.bootstrap]
    outcome = run_job(None, "repair", *words)
    assert outcome.code == 2
    assert reason in outcome.error
