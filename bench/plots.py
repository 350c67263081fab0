"""Draws the parts' figures as SVG."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.results import PERCENTS, Part, Table

_COLOURS = {"bridge": "#2563eb", "Pulsar": "#94a3b8", "Kafka": "#f59e0b"}
_RATES = (" MB/s", " ends/s")
# the same file for the same figures: no date, no random ids; text stays text
_STYLE = {"svg.hashsalt": "bridge", "svg.fonttype": "none", "font.size": 9}


def draw(parts: list[Part], directory: Path) -> dict[str, list[str]]:
    """Every plot there is; the file names of each part."""
    directory.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, list[str]] = {}
    with mpl.rc_context(_STYLE):
        for part in parts:
            names = drawn[part.name] = []
            for number, table in enumerate(part.tables, 1):
                for rate in _RATES:
                    if f"bridge{rate}" in table.columns:
                        names.append(f"{part.name}-{number}.svg" if len(part.tables) > 1 else f"{part.name}.svg")
                        _save(_bars(table, rate), directory / names[-1])
            if part.percentiles:
                names.append(f"{part.name}.svg")
                _save(_percentiles(part), directory / names[-1])
            for name, points in part.series.items():
                names.append(f"{part.name}-{name.replace(' ', '-').lower()}.svg")
                _save(_line(part.title, name, points), directory / names[-1])
    return drawn


def _bars(table: Table, rate: str) -> Figure:
    """A group of bars for each load: how fast each system took it. `rate`: how the columns' names end."""
    systems = [column.removesuffix(rate) for column in table.columns if column.endswith(rate)]
    figure = Figure(figsize=(8, 0.9 + 0.42 * len(table.rows)), layout="constrained")
    axes = figure.add_subplot()
    height = 0.8 / len(systems)
    for place, system in enumerate(systems):
        at = table.columns.index(system + rate)
        widths = [float(row[at] or 0) for row in table.rows]
        bars = axes.barh([y + place * height for y in range(len(widths))], widths, height, label=system)
        for bar in bars:
            bar.set_color(_COLOURS.get(system, "#10b981"))
    axes.set_yticks([y + 0.4 - height / 2 for y in range(len(table.rows))], [str(row[0]) for row in table.rows])
    axes.invert_yaxis()
    axes.set_xlabel(rate.strip())
    axes.set_title(table.title)
    axes.legend()
    return figure


def _percentiles(part: Part) -> Figure:
    """A panel for each load: how long the fastest half, nine tenths, … of the records took, to each system a line."""
    columns = 3
    lines = -(-len(part.percentiles) // columns)
    figure = Figure(figsize=(10, 0.5 + 2.4 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).flatten()
    places = range(len(PERCENTS))
    names = ["max" if percent == 100 else f"p{percent}" for percent in PERCENTS]
    for axes, (load, systems) in zip(panels, part.percentiles.items(), strict=False):
        for system, values in systems.items():
            axes.plot(places, values, marker="o", markersize=3, color=_COLOURS[system], label=system)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(_plain_number)
        axes.set_xticks(places, names, rotation=45)
        axes.grid(axis="y", alpha=0.3)
        axes.set_title(load)
    for axes in panels[len(part.percentiles) :]:
        axes.set_axis_off()
    for axes in panels[::columns]:
        axes.set_ylabel("ms")
    panels[0].legend()
    figure.suptitle(part.title)
    return figure


def _plain_number(value: float, _: object) -> str:
    return f"{value:g}"


def _line(title: str, name: str, points: list[list[float]]) -> Figure:
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([x for x, _ in points], [y for _, y in points], color=_COLOURS["bridge"])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel(name)
    axes.set_title(title)
    return figure


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, format="svg", metadata={"Date": None})
