"""Progress of a running job: plain lines for a reader, or JSON lines for a program."""

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Literal, TextIO

from bridge.standalone.maven import bar, duration

Style = Literal["text", "json", "quiet"]


class Progress:
    """Progress goes to standard error; lines of a terminal are rewritten in place, others follow each other."""

    def __init__(self, style: Style, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._style = style
        self._stream = stream or sys.stderr
        self._clock = clock
        self._lock = threading.Lock()
        self.terminal = style == "text" and self._stream.isatty()
        self._open_line = False
        self._total: int | None = None
        self._done = self._running = 0
        self._began = clock()

    def note(self, text: str, **fields: Any) -> None:
        """Write one line; `fields` are for JSON readers."""
        self._emit("note", text, {"text": text, **fields})

    def begin(self, total: int | None) -> None:
        """Start counting records; `total` is None if it is not known."""
        self._total, self._done, self._running, self._began = total, 0, 0, self._clock()

    def advance(self, records: int, **fields: Any) -> None:
        """Count records that are done permanently; `fields` (lag, batch, …) are shown as they are."""
        self._done += records
        self._running = 0
        facts = {**self._facts(self._done), **fields}
        self._emit("progress", _readable(facts), facts, replace=True)

    def running(self, records: int) -> None:
        """Show on a terminal how many more are read and not yet done; called by another thread while a step runs."""
        self._running = max(self._running, records)
        if not self.terminal or self._total is None or not self._running:
            return
        facts = self._facts(min(self._done + self._running, self._total))
        self._emit("progress", _readable(facts), facts, replace=True)

    def _facts(self, records: int) -> dict[str, Any]:
        elapsed = self._clock() - self._began
        rate = records / elapsed if elapsed > 0 else 0.0
        facts: dict[str, Any] = {"records": records, "total": self._total, "rate": round(rate)}
        if self._total is not None and rate > 0:
            facts["eta"] = round(max(self._total - records, 0) / rate, 1)
        return facts

    def close(self) -> None:
        """End a line that was being rewritten."""
        if self._open_line:
            self._stream.write("\n")
            self._stream.flush()
            self._open_line = False

    def _emit(self, event: str, text: str, fields: dict[str, Any], *, replace: bool = False) -> None:
        if self._style == "quiet":
            return
        with self._lock:
            self._write(event, text, fields, replace=replace)

    def _write(self, event: str, text: str, fields: dict[str, Any], *, replace: bool) -> None:
        if self._style == "json":
            self._stream.write(json.dumps({"event": event, **fields}) + "\n")
        elif self.terminal and replace:
            self._stream.write(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}")
            self._open_line = True
        else:
            self.close()
            self._stream.write(text + "\n")
        self._stream.flush()


def _readable(facts: dict[str, Any]) -> str:
    known = {"records", "total", "rate", "eta"}
    parts = [f"{facts['records']:,} records"]
    if facts["total"]:
        parts[0] = f"{bar(facts['records'], facts['total'])}  {parts[0]} of {facts['total']:,}"
    parts.append(f"{facts['rate']:,}/s")
    if "eta" in facts:
        parts.append(f"{duration(facts['eta'])} left")
    parts += [f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in facts.items()
              if name not in known]  # fmt: skip
    return "  ".join(parts)
