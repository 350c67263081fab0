"""One line of a terminal that tells how far long work is; nothing is written where there is no terminal."""

import math
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_EVERY_SECONDS = 0.2
_WIDTH = 24


class ProgressLine:
    """The line; whatever else is printed while it stands needs `clear` before it."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._shown: float | None = None
        self.terminal = self._stream.isatty()

    def show(self, text: str) -> None:
        """Write the line over the one before; five times a second at most."""
        now = self._clock()
        if not self.terminal or (self._shown is not None and now - self._shown < _EVERY_SECONDS):
            return
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{text[:width]}")
        self._stream.flush()
        self._shown = now

    def clear(self) -> None:
        """Take the line away."""
        if self._shown is not None:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = None

    @contextmanager
    def kept(self, text: Callable[[], str]) -> Iterator[None]:
        """Show what `text` returns, again and again by a thread of its own, while the block runs."""
        over = threading.Event()

        def show() -> None:
            while not over.wait(_EVERY_SECONDS):
                self.show(text())

        if not self.terminal:
            yield
            return
        thread = threading.Thread(target=show, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self.clear()


def bar(done: float, total: float) -> str:
    """`[======              ]  25 %`; never over the whole."""
    share = min(max(done / total, 0.0), 1.0) if total > 0 else 0.0
    return f"[{'=' * math.floor(share * _WIDTH):<{_WIDTH}}] {100 * share:3.0f} %"


def duration(seconds: float) -> str:
    """`12 s`, `3 min 05 s`, `2 h 10 min`."""
    whole = round(max(seconds, 0.0))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
