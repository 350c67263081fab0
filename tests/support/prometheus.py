"""A real Prometheus on a free port: started, reloaded, asked over its HTTP API, stopped by its pid."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import yaml

from bridge.node.orphans import Guard
from bridge.standalone import probe
from bridge.standalone.child import Child
from bridge.standalone.ports import HOST, any_free
from tests.faults.processes import let_pass
from tests.support.programs import require

_START_SECONDS = 30.0
_LOOK_EVERY_SECONDS = 0.1
_TIMEOUT_SECONDS = 60.0


class Sample(NamedTuple):
    """One series of an answer."""

    labels: Mapping[str, str]
    value: float


def promtool(*arguments: str | Path) -> str:
    """What promtool prints; AssertionError with it where promtool finds fault."""
    command = [require("promtool"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS)
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"promtool {' '.join(map(str, arguments))}:\n{said}"
    return said


def check_metrics(text: str | bytes) -> str:
    """What `promtool check metrics` has to say against a scrape: nothing, if all is well."""
    given = text.encode() if isinstance(text, str) else text
    command = [require("promtool"), "check", "metrics"]
    done = subprocess.run(command, input=given, capture_output=True, timeout=_TIMEOUT_SECONDS)
    said = (done.stdout + done.stderr).decode(errors="replace")
    return said or ("" if done.returncode == 0 else f"promtool ended with {done.returncode}")


class Prometheus:
    """One server, with its data in a directory of its own."""

    def __init__(self, directory: Path, guard: Guard, configuration: Mapping[str, Any]) -> None:
        self._directory = directory
        self._file = directory / "prometheus.yml"
        self._configuration = configuration
        self.port = any_free()
        self.child = Child("Prometheus", guard, directory / "prometheus.log")

    def start(self) -> None:
        """Start it, and wait until it takes queries."""
        self._write()
        command = [
            require("prometheus"),
            f"--config.file={self._file}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address={HOST}:{self.port}",
            "--log.level=warn",
        ]
        self.child.start(command, cwd=self._directory)
        probe.wait_until_ready(self.child, self._problem, _START_SECONDS)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL where that is not enough."""
        self.child.stop(_TIMEOUT_SECONDS)

    def reload(self, configuration: Mapping[str, Any]) -> None:
        """Take another configuration."""
        self._configuration = configuration
        self._write()
        os.kill(self.child.pid, signal.SIGHUP)

    def query(self, expression: str) -> list[Sample]:
        """An instant vector of now; a scalar as one sample without labels."""
        data = self._ask("query", {"query": expression})
        if data["resultType"] == "scalar":
            return [Sample({}, float(data["result"][1]))]
        return [Sample(one["metric"], float(one["value"][1])) for one in data["result"]]

    def alerts(self) -> dict[str, str]:
        """The alerts that are not at rest: `pending` or `firing`, the worst of each name."""
        found: dict[str, str] = {}
        for alert in self._ask("alerts")["alerts"]:
            name, state = alert["labels"]["alertname"], alert["state"]
            found[name] = "firing" if "firing" in (state, found.get(name)) else state
        return found

    def until(self, what: str, holds: Callable[[], bool], seconds: float = _TIMEOUT_SECONDS) -> None:
        """Wait for what its answers show: what it scrapes gives no event."""
        for _ in range(int(seconds / _LOOK_EVERY_SECONDS)):
            if holds():
                return
            let_pass(_LOOK_EVERY_SECONDS)
        raise AssertionError(f"not within {seconds:.0f} s: {what}; alerts: {self.alerts()}\n{self.child.last_lines()}")

    def _write(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._file.write_text(yaml.safe_dump(dict(self._configuration)), encoding="utf-8")

    def _problem(self) -> str | None:
        status, body = probe.get(self.port, "/-/ready")
        return None if status == 200 else f"{status} {body}"

    def _ask(self, what: str, parameters: Mapping[str, str] | None = None) -> Any:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request("GET", f"/api/v1/{what}?{urlencode(parameters or {})}")
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        assert answer["status"] == "success", f"{what} {parameters}: {answer}"
        return answer["data"]


def scraping(
    targets: Mapping[str, Sequence[str]],
    *,
    every: float,
    rules: Sequence[Path] = (),
    paths: Mapping[str, str] | None = None,
    seldom: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """A configuration that scrapes so often, and judges the rules as often.

    `targets`: the addresses of each job. `paths`: where a job's metrics are, if not at /metrics. `seldom`: the seconds
    between scrapes of a job that takes long to answer.
    """
    interval = f"{round(every * 1000)}ms"
    return {
        "global": {"evaluation_interval": interval},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [
            {
                "job_name": job,
                **dict.fromkeys(
                    ("scrape_interval", "scrape_timeout"), f"{round((seldom or {}).get(job, every) * 1000)}ms"
                ),
                "metrics_path": (paths or {}).get(job, "/metrics"),
                "static_configs": [{"targets": list(addresses)}],
            }
            for job, addresses in targets.items()
        ],
    }
