"""docs/hostile.md: what each row of bad input came to when it was last measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.faults.rows import FAULTS
from tests.hostile.grounds import Result, Times
from tests.hostile.rows import MIB, ROWS, Row
from tests.support.pages import between, put_between

PAGE = Path(__file__).parents[2] / "docs" / "hostile.md"
MEASURED = "<!-- rows: begin, written by `make hostile` -->", "<!-- rows: end -->"
TESTED = "<!-- tested: begin, written by `make hostile` -->", "<!-- tested: end -->"
_KINDS = ("asks", "writes", "logs in")
OF_FAULTS = "<!-- faults: begin, written by `make hostile` -->", "<!-- faults: end -->"
_COLUMNS = (
    "", "what is sent", "required", "seen", "memory, MiB", "after, MiB", "others ask, ms", "others write, ms",
    "others log in, ms",
)  # fmt: skip
_HEAD = f"| {' | '.join(_COLUMNS)} |\n|---|---|---|---|---:|---:|---|---|---|"


def measured() -> list[Row]:
    """The rows that are measured."""
    return [row for row in ROWS if row.scene is not None]


def write(results: Sequence[Result]) -> None:
    """Both tables of the page; rows that were not measured now stay as they are."""
    lines = dict(_lines()) | {(result.row.number, result.row.sent): _line(result) for result in results}
    rows = [lines.get((row.number, row.sent)) or _not_yet(row) for row in measured()]
    put_between(PAGE, *MEASURED, "\n".join([_HEAD, *rows]))
    put_between(PAGE, *TESTED, tested())
    put_between(PAGE, *OF_FAULTS, faults())


def faults() -> str:
    """What tests show of faults."""
    lines = ["| | fault | required | tests |", "|---|---|---|---|"]
    for one in FAULTS:
        names = "<br>".join(f"`tests/{test}`" for test in one.tests) or "none yet"
        lines.append(f"| {one.number} | {one.fault} | {one.required} | {names} |")
    return "\n".join(lines)


def tested() -> str:
    """What tests show."""
    lines = ["| | what is sent | required | tests |", "|---|---|---|---|"]
    for row in ROWS:
        if row.tests:
            names = "<br>".join(f"`tests/{one}`" for one in row.tests)
            lines.append(f"| {row.number} | {row.sent} | {row.required} | {names} |")
    return "\n".join(lines)


def rows_on_the_page() -> list[list[str]]:
    """Number, what is sent and what is required, of each measured row that the page has."""
    return [_cells(line)[:3] for _, line in _lines()]


def _lines() -> Iterator[tuple[tuple[str, str], str]]:
    for line in between(PAGE, *MEASURED).splitlines()[2:]:
        number, sent, *_ = _cells(line)
        yield (number, sent), line


def _cells(line: str) -> list[str]:
    return line.removeprefix("| ").removesuffix(" |").split(" | ")


def _line(result: Result) -> str:
    row = result.row
    waits = [_waits(result, kind) for kind in _KINDS]
    missed = f"; **missed: {', '.join(result.missed)}**" if result.missed else ""
    grown, kept = (f"{max(count, 0) / MIB:.0f}" for count in (result.grown, result.kept))
    cells = [row.number, row.sent, row.required, result.seen.text + missed, grown, kept, *waits]
    return f"| {' | '.join(cells)} |"


def _not_yet(row: Row) -> str:
    return f"| {row.number} | {row.sent} | {row.required} | not measured yet | | | | | |"


def _waits(result: Result, kind: str) -> str:
    if kind not in result.quiet:
        return ""
    return " → ".join(_told(span[kind]) for span in (result.quiet, result.elsewhere, result.during))


def _told(one: Times) -> str:
    return f"{one.half * 1000:.1f} / {one.most * 1000:.1f}"
