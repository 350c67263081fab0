"""Runs a load of our own in a process apart, so that it costs the bridge and this process nothing."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bridge.errors import BridgeError

_SECONDS = 180.0


class Apart:
    """One such process, which prints its result as JSON."""

    def __init__(self, process: "subprocess.Popen[str]", module: str) -> None:
        self._process = process
        self._module = module

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait_for(self, word: str) -> None:
        """Wait until it says so on standard error."""
        said = []
        for line in self._process.stderr or ():
            if line.strip() == word:
                return
            said.append(line)
        raise BridgeError(f"{self._module} ended before it was ready:\n{''.join(said)[-2000:]}")

    def result(self) -> Any:
        """Wait for its end."""
        printed, said = self._process.communicate(timeout=_SECONDS)
        if self._process.returncode:
            raise BridgeError(f"{self._module} ended with {self._process.returncode}:\n{said[-2000:]}")
        return json.loads(printed)


@contextmanager
def started(module: str, **options: object) -> Iterator[Apart]:
    """`python -m bench.<module> --name value …`, ended with the block if it has not."""
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    command = [sys.executable, "-m", f"bench.{module}", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603 - ours
    with process:
        try:
            yield Apart(process, module)
        finally:
            if process.poll() is None:
                process.kill()
