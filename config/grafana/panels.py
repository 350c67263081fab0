"""What the dashboards are made of: expressions on the bridge's metrics, and the panels that show them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TypeAlias

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

Panel: TypeAlias = timeseries.Panel | stat.Panel | table.Panel
Query: TypeAlias = tuple[str, str]
"""An expression, and the legend of its series."""

INSTANCE = 'instance=~"$instance"'
SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")


def series(metric: str, *labels: str) -> str:
    """A metric of the chosen nodes, with more labels to match."""
    return f"{metric}{{{', '.join((INSTANCE, *labels))}}}"


def total(metric: str, by: str = "instance", *labels: str) -> str:
    """The sum of a gauge."""
    return f"sum by ({by}) ({series(metric, *labels)})"


def most(metric: str, by: str = "instance", *labels: str) -> str:
    """The largest of a gauge that makes no sum."""
    return f"max by ({by}) ({series(metric, *labels)})"


def rate(metric: str, by: str = "instance", *labels: str) -> str:
    """The rate of a counter."""
    return f"sum by ({by}) (rate({series(metric, *labels)}[$__rate_interval]))"


def _of_groups(metric: str, *labels: str) -> str:
    """A metric by group and partition, of the node that coordinates the group; of two, while it moves, one."""
    return f"max by (job, group, topic, partition) (bridge_group_{metric}{{{', '.join(labels)}}})"


def _without(metric: str, by: str, *labels: str) -> str:
    """How many partitions have an offset, and not this."""
    return f"count by ({by}) ({_of_groups('committed_offset', *labels)} unless {_of_groups(metric, *labels)})"


def lag(by: str, *labels: str) -> str:
    """Records that groups have not committed; none where those of one partition are not known."""
    known = f"sum by ({by}) (clamp_min({_of_groups('lag_records', *labels)}, 0))"
    return f"{known} unless {_without('lag_records', by, *labels)}"


def lag_seconds(by: str, *labels: str) -> str:
    """The age of the oldest record that groups have not committed; none where one is not known."""
    known = f"max by ({by}) ({_of_groups('lag_seconds', *labels)})"
    return f"{known} unless {_without('lag_seconds', by, *labels)}"


def lag_not_known(by: str, *labels: str) -> str:
    """Of how many partitions the lag is not known."""
    none = f"0 * count by ({by}) ({_of_groups('committed_offset', *labels)})"
    return f"{_without('lag_records', by, *labels)} or {none}"


def share(used: str, limit: str, by: str, *labels: str) -> str:
    """How much of its limit a gauge has reached; of workers the one that is nearest to it."""
    return f"max by ({by}) ({series(used, *labels)} / {series(limit, *labels)})"


def top(most: int, expression: str) -> str:
    """The largest so many."""
    return f"topk({most}, {expression})"


def quantile(part: float, metric: str, by: str = "instance", *labels: str) -> str:
    """A quantile of a histogram; without observations there is none."""
    return f"histogram_quantile({part}, {rate(f'{metric}_bucket', f'{by}, le', *labels)})"


def quantiles(metric: str, by: str = "instance", *labels: str) -> list[Query]:
    """The median, and what one in a hundred exceeds."""
    return [
        (quantile(part, metric, by, *labels), f"{{{{{by}}}}} {name}") for part, name in ((0.5, "p50"), (0.99, "p99"))
    ]


def _targets(queries: Sequence[Query], *, at_once: bool = False) -> list[Builder[Dataquery]]:
    made: list[Builder[Dataquery]] = []
    for letter, (expression, legend) in zip("ABCDEFGH", queries, strict=False):
        query = prometheus.Dataquery().expr(expression).legend_format(legend).ref_id(letter)
        made.append(query.instant().format(PromQueryFormat.TABLE) if at_once else query.range())
    return made


def graph(title: str, says: str, unit: str, *queries: Query, width: int = 12) -> Panel:
    """Lines over time."""
    return (
        timeseries.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .unit(unit)
        .min(0)
        .line_width(1)
        .fill_opacity(10)
        .show_points(options.VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .display_mode(options.LegendDisplayMode.TABLE)
            .placement(options.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI).sort(options.SortOrder.DESCENDING))
        .targets(_targets(queries))
        .height(8)
        .span(width)
    )


def number(
    title: str, says: str, unit: str, expression: str, *, red_from: float | None = None, width: int = 4
) -> Panel:
    """One number, large. `red_from`: it is red from there on."""
    steps = [models.Threshold(color="green", value=None)]
    if red_from is not None:
        steps.append(models.Threshold(color="red", value=red_from))
    thresholds = dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)
    return (
        stat.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .unit(unit)
        .thresholds(thresholds)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .targets(_targets([(expression, "")]))
        .height(4)
        .span(width)
    )


def rows(title: str, says: str, unit: str, expression: str, *, width: int = 12) -> Panel:
    """A table of what is there now, with a column for each label."""
    hide = models.DataTransformerConfig(id_val="organize", options={"excludeByName": {"Time": True}})
    return (
        table.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .override_by_name("Value", [models.DynamicConfigValue(id_val="unit", value=unit)])
        .targets(_targets([(expression, "")], at_once=True))
        .with_transformation(hide)
        .height(8)
        .span(width)
    )


def _variable(name: str, label: str, metric: str) -> Builder[models.VariableModel]:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(f"label_values({metric}, {name})")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(models.VariableOption(selected=True, text=["All"], value=["$__all"]))
    )


VARIABLES = {
    "instance": _variable("instance", "Node", "bridge_build_info"),
    "group": _variable("group", "Group", "bridge_group_committed_offset"),
    "topic": _variable("topic", "Topic", "bridge_topic_produced_bytes_total"),
}


def board(
    name: str, title: str, says: str, parts: Sequence[tuple[str, Sequence[Panel]]], *variables: str
) -> dashboard.Dashboard:
    """A dashboard: rows of panels under their headings. `variables`: besides the node."""
    made = (
        dashboard.Dashboard(f"Bridge: {title}")
        .uid(f"bridge-{name}")
        .description(says)
        .tags(["bridge", "kafka", "pulsar"])
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .refresh("30s")
        .time("now-1h", "now")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .link(
            dashboard.DashboardLink("Bridge").type(models.DashboardLinkType.DASHBOARDS).tags(["bridge"])
            .include_vars(True).keep_time(True)
        )
    )  # fmt: skip
    for variable in ("instance", *variables):
        made = made.with_variable(VARIABLES[variable])
    numbers = count(1)
    for heading, panels in parts:
        made = made.with_row(dashboard.Row(heading).id(next(numbers)))
        for panel in panels:
            made = made.with_panel(panel.id(next(numbers)))
    return made
