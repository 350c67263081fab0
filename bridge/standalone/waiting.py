"""Shows how long a server takes to start, beside what it took the last time on this machine."""

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

from bridge.standalone.maven import ProgressLine, bar, cache_directory, duration

_FILE: Final = "start-seconds.json"


class Waiting:
    """A context around a start: `tell` is called while it lasts; a start that ends well is the next one's measure."""

    def __init__(
        self,
        name: str,
        kind: str | None = None,
        *,
        line: ProgressLine | None = None,
        directory: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`kind`: what takes as long as it, each time; None where that is not known."""
        self._name = name
        self._kind = kind
        self._line = line or ProgressLine()
        self._file = (directory or cache_directory()) / _FILE
        self._clock = clock
        self._usual = None if kind is None else _read(self._file).get(kind)

    def __enter__(self) -> "Waiting":
        self._began = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.clear()
        if error is None and self._kind is not None:
            kept = {**_read(self._file), self._kind: round(self._clock() - self._began, 1)}
            with contextlib.suppress(OSError):
                self._file.write_text(json.dumps(kept), encoding="utf-8")

    def tell(self, _: float = 0.0) -> None:
        """Show how far the start is; of a cluster it is called for one process after the other."""
        waited = self._clock() - self._began
        if self._usual is None:
            self._line.show(f"{self._name} starts: {duration(waited)}")
        elif waited > self._usual:
            self._line.show(f"{self._name} starts: {duration(waited)}, the last time it took {duration(self._usual)}")
        else:
            left = duration(self._usual - waited)
            self._line.show(f"{bar(waited, self._usual)}  {self._name} starts: {duration(waited)}, about {left} left")


def _read(path: Path) -> dict[str, float]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {str(kind): float(seconds) for kind, seconds in kept.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
