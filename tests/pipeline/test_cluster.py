"""The jobs on a Spark cluster of their own, a master and a worker: by `--master`, and started by spark-submit."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from bridge.node.orphans import Guard
from bridge.pipeline.jars import connector_jars
from bridge.pipeline.options import EndpointOptions
from bridge.standalone import probe
from bridge.standalone.child import Child
from bridge.standalone.ports import HOST, any_free
from tests.pipeline.contents import by_partition, read_by_client
from tests.pipeline.running import QUICK, ROOT, TIMEOUT
from tests.pipeline.samples import filled, varied

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

SPARK = Path(pyspark.__file__).parent
ENVIRONMENT = {**os.environ, **QUICK, "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
RECORDS = 3000


@pytest.fixture(scope="module")
def master(guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master and its worker; where the master is."""
    work = tmp_path_factory.mktemp("spark")
    port, page = any_free(), any_free()
    url = f"spark://{HOST}:{port}"
    deploy = "org.apache.spark.deploy"
    with ExitStack() as started:

        def start(name: str, ready: str, *words: str) -> None:
            def problem() -> str | None:
                written = child.last_lines(40)
                return None if ready in written else written

            child = Child(name, guard, work / f"{name}.out")
            started.callback(child.stop, 30)
            child.start([str(SPARK / "bin" / "spark-class"), f"{deploy}.{name}", *words], environment=ENVIRONMENT)
            probe.wait_until_ready(child, problem, 60)

        place = ["--host", HOST, "--webui-port"]
        start("master.Master", "New state: ALIVE", *place, str(page), "--port", str(port))
        room = ["--cores", "2", "--memory", "2g", "--work-dir", str(work / "work")]
        start("worker.Worker", "registered with master", *place, str(any_free()), *room, url)
        yield url


def outcome(guard: Guard, output: Path, command: list[str]) -> int:
    """Run a command to its end."""
    with output.open("wb") as file:
        process = guard.popen(command, output=file, cwd=ROOT, environment=ENVIRONMENT)
    code = process.wait(TIMEOUT)
    guard.forget(process.pid)
    return code


def test_a_job_runs_on_a_cluster(master: str, at_bridge: EndpointOptions, guard: Guard, tmp_path: Path) -> None:
    topic, out = filled(at_bridge.bootstrap, varied(RECORDS)), tmp_path / "archive"
    job = ["archive", "--bootstrap", at_bridge.bootstrap, "--topics", topic, "--out", str(out)]
    run = [sys.executable, "-m", "bridge.pipeline"]
    code = outcome(guard, tmp_path / "run.out", [*run, *job, "--master", master, "--progress", "json"])
    assert code == 0, (tmp_path / "run.out").read_text()

    package = tmp_path / "bridge.zip"
    with zipfile.ZipFile(package, "w") as zipped:
        for path in sorted((ROOT / "bridge").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                zipped.write(path, path.relative_to(ROOT))
    submit = [str(SPARK / "bin" / "spark-submit"), "--master", master, "--py-files", str(package)]
    submit += ["--jars", ",".join(str(jar) for jar in connector_jars(None)), "--conf", "spark.driver.host=127.0.0.1"]
    verify = ["verify", "--archive", str(out), "--report", str(tmp_path / "report.json"), "--progress", "json"]
    submit.append(str(ROOT / "bridge/pipeline/__main__.py"))
    code = outcome(guard, tmp_path / "submit.out", [*submit, *verify])
    assert code == 0, (tmp_path / "submit.out").read_text()
    assert f'"records": {RECORDS}' in (tmp_path / "report.json").read_text()

    replay = ["replay", "--archive", str(out), "--bootstrap", at_bridge.bootstrap, "--map", f"{topic}={topic}-again"]
    code = outcome(guard, tmp_path / "replay.out", [*submit, *replay, "--progress", "json"])
    assert code == 0, (tmp_path / "replay.out").read_text()
    # the executors have what keeps the times
    assert read_by_client(at_bridge.bootstrap, f"{topic}-again", RECORDS) == by_partition(varied(RECORDS))
