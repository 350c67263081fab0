"""The traffic report's plots, each an SVG."""

import io
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE = (8.0, 3.2)
_MANY = 12  # lines that can still be told apart
Series = Mapping[str, Sequence[tuple[datetime, float]]]


def over_time(series: Series, title: str, unit: str) -> str:
    """A line for each name; of many only the largest."""
    largest = sorted(series, key=lambda name: -sum(value for _, value in series[name]))[:_MANY]

    def draw(axes: "Axes") -> None:
        for name in sorted(largest):
            moments, values = zip(*series[name], strict=True)
            # matplotlib counts days and takes moments for numbers; its stubs do not know
            axes.plot(list[Any](moments), list(values), label=name, linewidth=1.2, marker=".", markersize=3)
        axes.legend(fontsize="small", frameon=False)
        axes.set_ylim(bottom=0)
        axes.tick_params(axis="x", labelsize="small", rotation=15)

    return _svg(draw, title, unit)


def bars(values: Mapping[str, float], title: str, unit: str) -> str:
    """A bar for each name, in the order given."""

    def draw(axes: "Axes") -> None:
        axes.bar(range(len(values)), list(values.values()), width=0.8)
        axes.set_xticks(range(len(values)), list(values), fontsize="x-small", rotation=45, ha="right")

    return _svg(draw, title, unit)


def _svg(draw: Callable[["Axes"], None], title: str, unit: str) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    # text stays text, and the same figures give the same file
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.subplots()
        draw(axes)
        axes.set_title(title, fontsize="medium", loc="left")
        axes.set_ylabel(unit)
        axes.grid(axis="y", linewidth=0.4)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
