"""The report of a run: one JSON file with the request, the work done and the outcome."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from bridge.pipeline.errors import Usage


class Report:
    """Collects facts while a job runs; `--report FILE` keeps them, `--json` prints them, however the job ends."""

    def __init__(self, path: Path | None, job: str, out: TextIO | None = None) -> None:
        self._path = path
        self._out = out
        self.facts: dict[str, Any] = {"job": job, "started": _now()}

    def set(self, **facts: Any) -> None:
        """Add or replace facts, as anything JSON can hold."""
        self.facts.update(facts)

    def check(self) -> None:
        """Raise Usage where the file cannot be written when the work is done."""
        path, self._path = self._path, None
        if path is None:
            return
        if path.is_dir() or not os.access(path.parent, os.W_OK):
            raise Usage(f"--report {path}: it cannot be written there")
        self._path = path

    def write(self, exit_code: int, error: str | None = None) -> None:
        """Write the file, whole or not at all, and print it where that is wanted."""
        self.set(ended=_now(), exit_code=exit_code, **({} if error is None else {"error": error}))
        if self._out is not None:
            print(json.dumps(self.facts, indent=2), file=self._out)
        if self._path is None:
            return
        part = self._path.with_name(self._path.name + ".part")
        part.write_text(json.dumps(self.facts, indent=2) + "\n", encoding="utf-8")
        os.replace(part, self._path)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
