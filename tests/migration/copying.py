"""`bridge-pipeline copy` as docs/cut-over.md runs it: it follows one cluster into the other until SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from bridge.node.orphans import Guard
from tests.pipeline.running import QUICK
from tests.support.sources import ROOT

_STOP_SECONDS = 120.0


class Copying:
    """One job, in a process of its own."""

    def __init__(self, work: Path, guard: Guard, source: str, target: str, topic: str, groups: Sequence[str]) -> None:
        work.mkdir()
        self.report = work / "report.json"
        self._output = work / "output"
        command = [sys.executable, "-m", "bridge.pipeline", "copy", "--source", source, "--target", target]
        command += ["--topics", topic, "--groups", ",".join(groups), "--follow", "1", "--report", str(self.report)]
        command += ["--master", "local[2]", "--driver-memory", "1g", "--shuffle-partitions", "2"]
        self._guard = guard
        with self._output.open("wb") as output:
            self._process = guard.popen(command, output=output, cwd=ROOT, environment={**os.environ, **QUICK})

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        os.kill(self._process.pid, signal.SIGTERM)
        code = self._process.wait(_STOP_SECONDS)
        self._guard.forget(self._process.pid)
        return code

    def kill(self) -> None:
        """SIGKILL, the JVM with it; also after its end."""
        if self.running:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._guard.forget(self._process.pid)

    def said(self) -> str:
        """The end of what it said."""
        return self._output.read_text(errors="replace")[-4000:]

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None
