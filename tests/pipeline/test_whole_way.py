"""Into an archive and out of it into another topic, both jobs killed on the way: Pulsar itself holds the same in both.

`--pipeline-records 1000000 --pipeline-kills 2` for the long run (`make soak`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from bridge.pipeline.options import EndpointOptions
from tests.pipeline.running import JobProcess, run_job, until_written
from tests.pipeline.samples import counted, new_topic, write
from tests.support.bridges import BridgeChild

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KILLS = (JobProcess.kill, JobProcess.kill_all)


@pytest.fixture
def records(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--pipeline-records", default=12_000))


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--pipeline-kills", default=1))


@pytest.mark.soak  # each job is killed in the tests of its own, too
@pytest.mark.timeout(1800)
def test_what_was_archived_and_replayed_under_kills_is_identical_in_pulsar(
    spark: SparkSession,
    bridge_child: BridgeChild,
    start_job: Callable[..., JobProcess],
    tmp_path: Path,
    records: int,
    kills: int,
) -> None:
    here = EndpointOptions(bridge_child.kafka)
    source, target, out = new_topic(here.bootstrap), f"replayed-{uuid4().hex[:10]}", tmp_path / "archive"
    write(here.bootstrap, source, counted(records))

    archive = ["archive", "--bootstrap", here.bootstrap, "--topics", source, "--out", str(out)]
    archive += ["--batch", str(records // 6)]
    killed(
        start_job, archive, kills, lambda process, nth: process.wait_for(lambda event: event.get("batch") == 2 * nth)
    )
    assert run_job(spark, *archive).code == 0
    verified = run_job(spark, "verify", "--archive", str(out))
    assert (verified.code, verified.report["records"]) == (0, records)

    replay = ["replay", "--archive", str(out), "--bootstrap", here.bootstrap, "--map", f"{source}={target}"]
    replay += ["--chunk", str(records // 2)]
    killed(
        start_job, replay, kills, lambda process, nth: until_written(here, target, 1 + nth * records * 3 // 5, process)
    )
    assert run_job(spark, *replay).code == 0

    native = ["--b-native", f"{bridge_child.pulsar}/{bridge_child.namespace}"]
    for side, to in ((["--a-archive", str(out)], source), (["--a", here.bootstrap], target)):
        found = run_job(spark, "reconcile", *side, *native, "--topics", source, "--map", f"{source}={to}")
        assert (found.code, found.report["verdict"]) == (0, "identical")
        assert sum(partition["b"]["records"] for partition in found.report["partitions"]) == records


def killed(
    start_job: Callable[..., JobProcess], job: list[str], kills: int, until: Callable[[JobProcess, int], None]
) -> None:
    """Start the job so often and kill it in the midst of it."""
    for nth in range(kills):
        process = start_job(*job)
        until(process, nth)
        _KILLS[nth % len(_KILLS)](process)
