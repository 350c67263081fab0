"""A wall clock that the test moves, for a bridge of its own: the bridge imports this file as `sitecustomize`.

Only `time.time` and `time.time_ns` move, before any module of the bridge has taken them. `time.monotonic` goes on, as
where an administrator sets a clock.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import time
from pathlib import Path

_VARIABLE = "MOVED_CLOCK"
_SECONDS = struct.Struct("d")


class MovedClock:
    """The clock of the processes that are started with `environment`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        shutil.copy(__file__, directory / "sitecustomize.py")
        self._file = directory / "seconds"
        self._file.write_bytes(_SECONDS.pack(0))
        before = os.environ.get("PYTHONPATH")
        self.environment = {
            "PYTHONPATH": os.pathsep.join([str(directory), *([before] if before else [])]),
            _VARIABLE: str(self._file),
        }

    def move(self, seconds: float) -> None:
        """Show so many seconds more than the true time from now on."""
        with self._file.open("r+b") as file:
            file.write(_SECONDS.pack(seconds))


def _install(path: str) -> None:
    """Add what the file says to the time of this process."""
    with open(path, "rb") as file:
        shared = mmap.mmap(file.fileno(), _SECONDS.size, access=mmap.ACCESS_READ)
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + _SECONDS.unpack_from(shared)[0]
    time.time_ns = lambda: nanoseconds() + int(_SECONDS.unpack_from(shared)[0]) * 1_000_000_000


if __name__ == "sitecustomize" and _VARIABLE in os.environ:
    _install(os.environ[_VARIABLE])
