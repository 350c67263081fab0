"""One child process: started under the guard, its output in a file, stopped by its own pid."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bridge.errors import StartupError
from bridge.node.orphans import Guard

_TAIL_BYTES = 64 * 1024
_LINE = 400
"""Characters of a line that are told."""


class Child:
    """A program that should run until it is told to stop."""

    def __init__(self, name: str, guard: Guard, output: Path) -> None:
        self.name = name
        self.output = output
        self._guard = guard
        self._process: subprocess.Popen[bytes] | None = None
        self._reaped = True

    def start(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        keep_open: Sequence[int] = (),
    ) -> None:
        """Start it; what an earlier run wrote is kept beside as `….1`."""
        if self.running:
            raise StartupError(f"{self.name} runs already")
        self.output.parent.mkdir(parents=True, exist_ok=True)
        if self.output.exists():
            os.replace(self.output, self.output.with_name(self.output.name + ".1"))
        with self.output.open("wb") as file:
            self._process = self._guard.popen(
                command, output=file, cwd=cwd, environment=environment, keep_open=keep_open
            )
        self._reaped = False

    @property
    def pid(self) -> int:
        """Its process id, also after its end."""
        if self._process is None:
            raise StartupError(f"{self.name} was not started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self._process is not None and self._process.poll() is None

    def exit_description(self) -> str:
        """`exited with 1`, `was killed by SIGKILL`."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return "runs"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"

    def wait(self, seconds: float) -> bool:
        """Whether it ended within this time."""
        if self._process is None:
            return True
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, seconds: float) -> bool:
        """TERM, and KILL when it has not ended in time; whether TERM was enough."""
        if self._process is None:
            return True
        gentle = True
        if self.running:
            self._process.terminate()
            gentle = self.wait(seconds)
        self.kill()
        return gentle

    def kill_nowait(self) -> None:
        """KILL it and whatever it started, without waiting for its end: also for signal handlers."""
        if self._process is not None and not self._reaped:  # later its pid may be another's
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM for a group of zombies
                os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """KILL it and whatever it started, and see it end."""
        if self._process is None or self._reaped:
            return
        self.kill_nowait()
        self._reaped = True
        self._process.wait()
        self._guard.forget(self._process.pid)

    def last_lines(self, count: int = 12) -> str:
        """The end of what it wrote."""
        return tail(self.output, count)


def tail(path: Path, count: int) -> str:
    """The last lines of a file that may be large or missing; of a long one, such as Pulsar's settings, its start."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return "\n".join(line if len(line) <= _LINE else f"{line[:_LINE]}..." for line in lines[-count:])
