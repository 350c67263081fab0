"""Progress of a running job: a bar on a terminal, plain lines for another reader, or JSON lines for a program."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any, Literal, TextIO

from tqdm import tqdm

Style = Literal["text", "json", "quiet"]


class Progress:
    """Progress goes to standard error: over itself on a terminal, else line after line."""

    def __init__(self, style: Style, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._style = style
        self._stream = stream or sys.stderr
        self._clock = clock
        self.terminal = style == "text" and self._stream.isatty()
        self._bar: Any = None
        self._total: int | None = None
        self._done = self._running = 0
        self._began = clock()

    def note(self, text: str, **fields: Any) -> None:
        """Write one line; `fields` are for JSON readers."""
        if self._style == "text":
            tqdm.write(text, self._stream)
        self._tell("note", {"text": text, **fields})

    def begin(self, total: int | None) -> None:
        """Start counting records; `total` is None if it is not known."""
        self.close()
        self._total, self._done, self._running, self._began = total, 0, 0, self._clock()
        if self.terminal:
            self._bar = tqdm(total=total, unit=" records", dynamic_ncols=True, file=self._stream)

    def advance(self, records: int, **fields: Any) -> None:
        """Count records that are done permanently; `fields` (lag, batch, …) are shown as they are."""
        self._done += records
        self._running = 0
        elapsed = self._clock() - self._began
        if self._bar is not None:
            self._bar.set_postfix(fields, refresh=False)
            self._move(self._done)
        elif self._style == "text":
            facts = ", ".join(f"{name}={value}" for name, value in fields.items())
            shown = tqdm.format_meter(self._done, self._total, elapsed, ncols=0, unit=" records", postfix=facts)
            tqdm.write(shown, self._stream)
        rate = self._done / elapsed if elapsed > 0 else 0.0
        known: dict[str, Any] = {"records": self._done, "total": self._total, "rate": round(rate)}
        if self._total is not None and rate > 0:
            known["eta"] = round(max(self._total - self._done, 0) / rate, 1)
        self._tell("progress", {**known, **fields})

    def running(self, records: int) -> None:
        """Show on a terminal how many more are read and not yet done; called by another thread while a step runs."""
        self._running = max(self._running, records)
        if self._bar is not None and self._total is not None and self._running:
            self._move(min(self._done + self._running, self._total))

    def close(self) -> None:
        """End the bar; it stays as it is."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _move(self, records: int) -> None:
        self._bar.n = records
        self._bar.refresh()

    def _tell(self, event: str, fields: dict[str, Any]) -> None:
        if self._style == "json":
            self._stream.write(json.dumps({"event": event, **fields}) + "\n")
            self._stream.flush()
