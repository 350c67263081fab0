"""Figures of a run, for people: `pytest -s` shows them, and `--figures FILE` collects them in a table."""

from __future__ import annotations

import os
from pathlib import Path

_HEAD = "| test | figures |\n|---|---|\n"
_file: list[Path] = []


def collect(path: Path | None) -> None:
    """Append what is reported to a Markdown table in this file."""
    _file[:] = [] if path is None else [path]
    if path is not None and not path.exists():
        path.write_text(_HEAD, encoding="utf-8")


def report(**figures: object) -> None:
    """Show figures under `pytest -s`."""
    told = " ".join(f"{name}={value}" for name, value in figures.items())
    print("figures:", told)
    for path in _file:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition("::")[2].partition(" ")[0]
        with path.open("a", encoding="utf-8") as table:
            table.write(f"| {test} | {told} |\n")
