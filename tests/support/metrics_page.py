"""The table of docs/metrics.md, made from the code: `python -m tests.support.metrics_page` writes it."""

from __future__ import annotations

from pathlib import Path

from bridge.node.workers.overview import WorkersMetrics
from bridge.telemetry.families import Family
from bridge.telemetry.metrics import Metrics
from tests.support.pages import put_between

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
BEGIN, END = "<!-- metrics: begin, written by `python -m tests.support.metrics_page` -->", "<!-- metrics: end -->"


def page() -> str:
    """One row for each metric, in the order of a scrape."""
    workers = [
        family._replace(text=f"With `kafka.workers` above 1: {family.text}") for family in WorkersMetrics([]).families()
    ]
    rows = ["| metric | type | labels | what it says, and what to do |", "|---|---|---|---|"]
    return "\n".join([*rows, *map(_row, [*Metrics().families(), *workers])])


def _row(family: Family) -> str:
    name = f"{family.name}_total" if family.kind == "counter" else family.name
    shown = ", ".join(f"`{label}`" for label in sorted(family.labels))
    text = family.text.replace("__", r"\_\_").replace("|", r"\|")
    return f"| `{name}` | {family.kind} | {shown} | {text} |"


if __name__ == "__main__":
    put_between(PAGE, BEGIN, END, page())
