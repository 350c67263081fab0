"""What a part of the benchmark has found, as it is written to JSON and shown."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

Cell = str | float | None
PERCENTS = (50, 75, 90, 95, 99, 99.9, 100)
"""Those that are plotted."""


@dataclass
class Table:
    """One table; numbers stand in it as they are shown."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]

    def only(self, columns: Sequence[str]) -> "Table":
        """The same with these columns alone."""
        places = [self.columns.index(column) for column in columns]
        return Table(self.title, list(columns), [[row[at] for at in places] for row in self.rows])


@dataclass
class Part:
    """One part's tables and how it was done, and what is plotted.

    `series`: name → [[x, y], …]. `percentiles`: load → system → milliseconds at each of `PERCENTS`.
    """

    name: str
    title: str
    method: str
    tables: list[Table] = field(default_factory=list)
    series: dict[str, list[list[float]]] = field(default_factory=dict)
    percentiles: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    machine: str = ""
    seconds: float = 0.0
    """How long it took; 0 where that was not kept."""

    def write(self, directory: Path) -> None:
        """Save it as `<name>.json`."""
        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False)
        (directory / f"{self.name}.json").write_text(text + "\n", encoding="utf-8")


def read(path: Path) -> Part:
    """What `write` saved."""
    values = json.loads(path.read_text(encoding="utf-8"))
    values["tables"] = [Table(**table) for table in values["tables"]]
    return Part(**values)


def shown(cell: Cell) -> str:
    """A cell's text."""
    return "–" if cell is None else str(cell)


def plain(table: Table) -> str:
    """The table for a terminal."""
    rows = [table.columns, *[[shown(cell) for cell in row] for row in table.rows]]
    widths = [max(len(row[at]) for row in rows) for at in range(len(table.columns))]
    lines = ["  ".join(_padded(row, widths)).rstrip() for row in rows]
    return "\n".join([table.title, *lines])


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if at == 0 else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def markdown(table: Table) -> str:
    """The table for a document."""
    head = "| " + " | ".join(table.columns) + " |"
    rule = "|---|" + "---:|" * (len(table.columns) - 1)
    rows = ["| " + " | ".join(shown(cell) for cell in row) + " |" for row in table.rows]
    return "\n".join([f"**{table.title}**", "", head, rule, *rows])
