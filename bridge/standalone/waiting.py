"""Shows how long a server takes to start, beside what it took the last time on this machine."""

import contextlib
import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tqdm import tqdm

from bridge.standalone.maven import cache_directory

_FILE: Final = "start-seconds.json"
_KNOWN: Final = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}, about {remaining} left"
_UNKNOWN: Final = "{desc}: {elapsed}"


class TimeBar:
    """A line of a terminal for what takes a known time, or one that is not known; nothing is written elsewhere."""

    def __init__(self, what: str, seconds: float | None, done: float = 0.0) -> None:
        """`done`: so many of the seconds are over already."""
        self._done, self._began = done, time.monotonic()
        shown = _KNOWN if seconds else _UNKNOWN
        self._bar: Any = tqdm(
            total=seconds, initial=done, desc=what, bar_format=shown, dynamic_ncols=True, leave=False, disable=None
        )

    def show(self, _: float = 0.0) -> None:
        """Write it again."""
        self._bar.n = self._done + time.monotonic() - self._began
        if self._bar.total and self._bar.n > self._bar.total:
            self._bar.bar_format = _UNKNOWN  # it takes longer than it should
        self._bar.refresh()

    def close(self) -> None:
        """Take the line away."""
        self._bar.close()


class Waiting:
    """A context around a start: `tell` is called while it lasts; a start that ends well is the next one's measure."""

    def __init__(self, name: str, kind: str | None = None, *, directory: Path | None = None) -> None:
        """`kind`: what takes as long as it, each time; None where that is not known."""
        self._name = name
        self._kind = kind
        self._file = (directory or cache_directory()) / _FILE
        self._usual = None if kind is None else _read(self._file).get(kind)

    def __enter__(self) -> "Waiting":
        self._began = time.monotonic()
        self._bar = TimeBar(f"{self._name} starts", self._usual)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
        if error is None and self._kind is not None:
            kept = {**_read(self._file), self._kind: round(time.monotonic() - self._began, 1)}
            with contextlib.suppress(OSError):
                self._file.write_text(json.dumps(kept), encoding="utf-8")

    def tell(self, _: float = 0.0) -> None:
        """Show how far the start is; of a cluster it is called for one process after the other."""
        self._bar.show()


def _read(path: Path) -> dict[str, float]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {str(kind): float(seconds) for kind, seconds in kept.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
