"""Writes what is in bench/results into docs/benchmarks.md, between its marks, and draws the plots."""

from pathlib import Path

from bench import plots, results
from bench.results import Part
from tests.support.pages import put_between

ORDER = (
    "produce", "fetch", "latency", "end-to-end", "consumers", "connections", "singles", "transactions", "partitions",
    "compressed", "groups", "memory", "startup", "topics", "workers", "nodes", "security", "codec", "pipeline",
)  # fmt: skip
_BEGIN, _END = "<!-- bench: begin, written by `make bench` -->", "<!-- bench: end -->"


def render(root: Path, directory: Path) -> None:
    """Write the documents again from all results there are."""
    parts = [results.read(directory / f"{name}.json") for name in ORDER if (directory / f"{name}.json").exists()]
    drawn = plots.draw(parts, root / "docs" / "plots")
    text = "\n\n".join(_section(part, drawn.get(part.name, [])) for part in parts)
    put_between(root / "docs" / "benchmarks.md", _BEGIN, _END, text)


def _section(part: Part, drawn: list[str]) -> str:
    lines = [f"## {part.title}", part.method]
    lines += [f"![{part.title}](plots/{name})" for name in drawn]
    lines += [results.markdown(table) for table in part.tables]
    lines.append(f"<sub>{part.machine}</sub>")
    return "\n\n".join(lines)
