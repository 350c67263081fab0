"""A `bridge standalone` of a test: started, read, and ended whatever happens."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.foreign import until

FREE_PORTS = ("--kafka-port", "0", "--http-port", "0", "--pulsar-port", "0")


@dataclass
class Run:
    """A running `bridge standalone`."""

    process: "subprocess.Popen[bytes]"
    log: Path
    ready_file: Path

    def output(self) -> str:
        return self.log.read_text()

    def ready(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ready_file.read_text())
        return found

    def wait(self) -> int:
        return self.process.wait(60)


@contextmanager
def standalone(
    directory: Path,
    *arguments: str,
    bridge: Sequence[str] = (sys.executable, "-m", "bridge"),
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[Run]:
    log, ready_file = directory / "log", directory / "ready.json"
    command = [*bridge, "standalone", "--ready-file", str(ready_file), *arguments]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=cwd, env=env) as process,
    ):
        try:
            yield Run(process, log, ready_file)
        finally:
            process.kill()


def started(run: Run) -> dict[str, Any]:
    assert until(lambda: run.process.poll() is not None or "\nmetrics http://" in run.output(), 150), run.output()
    assert run.process.poll() is None, run.output()
    return run.ready()
