"""The rows of docs/mistakes.md: `pytest tests/mistakes --mistakes docs/mistakes.md` writes those that ran."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tests.mistakes.mistake import Mistake
from tests.support.pages import between, put_between
from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "mistakes.md"
BEGIN, END = (
    "<!-- mistakes: begin, written by `pytest tests/mistakes --mistakes docs/mistakes.md` -->",
    ("<!-- mistakes: end -->"),
)
_HEAD = "| mistake | what is printed | what to do |\n|---|---|---|"


def everything() -> dict[str, list[Mistake]]:
    """All mistakes, by what they are made with."""
    from tests.mistakes import of_pulsar, of_settings, of_this_machine

    return {
        "In the settings": of_settings.MISTAKES,
        "On this machine": of_this_machine.MISTAKES,
        "Towards Pulsar": of_pulsar.MISTAKES,
    }


def row(mistake: Mistake, printed: str) -> str:
    """A row of a table."""
    remedy = f"yes: {_cell(mistake.remedy)}" if mistake.remedy else "it only says what is wrong"
    return f"| {mistake.what} | {_cell(printed)} | {remedy} |"


def rows(path: Path = PAGE) -> set[str]:
    """Those that the page has."""
    return set(re.findall(r"^\| .+ \|$", between(path, BEGIN, END), re.MULTILINE))


def write(path: Path, told: Mapping[str, str]) -> None:
    """Write the rows of what was told, and leave the others."""
    old = {line.split(" | ")[0].removeprefix("| "): line for line in rows(path)}
    parts, good, count = [], 0, 0
    for group, mistakes in everything().items():
        lines = [row(one, told[one.what]) if one.what in told else old.get(one.what, "") for one in mistakes]
        parts.append("\n".join([f"## {group}", "", _HEAD, *filter(None, lines)]))
        good, count = good + sum(bool(one.remedy) for one in mistakes), count + len(mistakes)
    summary = f"{count} mistakes; {good} times what is printed says what to do as well."
    put_between(path, BEGIN, END, "\n\n".join([summary, *parts]))


def _cell(text: str) -> str:
    """As code, line by line; a bar would end the cell."""
    return "<br>".join(
        f"`{line}`".replace("|", "\\|") if "`" not in line else f"`` {line} ``" for line in text.splitlines()
    )
