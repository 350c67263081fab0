"""A file system of its own that a test may fill: to mount one takes root."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SIZE = "400m"


class Disk:
    """A file system of its own, small enough to be filled."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, leave: int = 0) -> None:
        """Take all space but so many bytes."""
        with self._filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError:
                    continue
            file.truncate(max(0, file.tell() - leave))

    def free(self) -> None:
        """Give it back."""
        self._filler.unlink()


@contextmanager
def mounted(path: Path) -> Iterator[Disk]:
    """Mount one at a path that is not there yet, in memory."""
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(path)], check=True)
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", str(path)], check=True)
