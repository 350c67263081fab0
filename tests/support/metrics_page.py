"""The table of docs/metrics.md, made from the code: `python -m tests.support.metrics_page` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prometheus_client.metrics_core import Metric

from bridge import apis
from bridge.telemetry.exposition import Exposition
from bridge.telemetry.exposition.texts import WORKERS
from bridge.telemetry.instruments import Level
from bridge.telemetry.metrics import QUOTA_TYPES, Lag, Lags, LedPartitions, Metrics, PartitionEnd
from tests.support.pages import put_between

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
BEGIN, END = "<!-- metrics: begin, written by `python -m tests.support.metrics_page` -->", "<!-- metrics: end -->"
_IMPLIED = {"le"}
"""Labels that the type has."""


def filled() -> Metrics:
    """Metrics of which each has a value, so that all their labels can be seen."""
    metrics = Metrics()
    metrics.pulsar.slow_topics = {"orders": 12.5}
    metrics.name_apis({key: api.name for key, api in apis.load().items()})
    metrics.api(0).error(6)
    metrics.login("PLAIN", "failed")
    metrics.security.denied("Read", "Topic")
    for quota in QUOTA_TYPES:
        metrics.quotas.throttle(quota, 0.5)
    metrics.tls.certificate_expires["SSL"] = metrics.pulsar.certificate_expires_seconds["tls_cert_file"] = 1e9
    metrics.tls.crl_expires["SSL"] = 1e9
    metrics.cluster.node = lambda: ("1", "node", "rack")
    metrics.pulsar.broker("broker:6650").acknowledged(1.0, 1.5)
    metrics.memory["requests"] = metrics.places["connections"] = Level(lambda: 1, 2)
    metrics.ready = {"pulsar": True}
    metrics.storage.led[""] = LedPartitions(1, [PartitionEnd("topic", 0, 7)])
    metrics.groups.show_lags("", Lags([Lag("group", "topic", 0, 5, 2, 1.5)], 1, 0, 0), 10)
    metrics.topics.most = metrics.clients.most = 1
    metrics.topics.enter("topic").bytes_in += 1
    metrics.clients.enter(("librdkafka", "2.3.0")).requests += 1
    return metrics


def families(metrics: Metrics) -> list[Metric]:
    """All families; those of the process among them."""
    return Exposition(metrics).families()


async def rolled(metrics: Metrics) -> Metrics:
    """The same, with those shown that are to be shown now."""
    for table in (metrics.topics, metrics.clients):
        await table.roll()
    return metrics


def table(found: list[Metric]) -> str:
    """One row for each metric, in the order of a scrape."""
    rows = ["| metric | type | labels | what it says, and what to do |", "|---|---|---|---|"]
    return "\n".join([*rows, *map(_row, found), *_workers()])


def labels(family: Metric) -> list[str]:
    """Those of its samples, in alphabetical order."""
    return sorted({label for one in family.samples for label in one.labels} - _IMPLIED)


def _row(family: Metric) -> str:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    shown = ", ".join(f"`{label}`" for label in labels(family))
    return f"| `{name}` | {family.type} | {shown} | {_escaped(family.documentation)} |"


def _workers() -> Iterator[str]:
    for name, kind, text in WORKERS.values():
        shown = f"{name}_total" if kind == "counter" else name
        yield f"| `{shown}` | {kind} | `worker` | With `kafka.workers` above 1: {_escaped(text)} |"


def _escaped(text: str) -> str:
    return text.replace("__", r"\_\_").replace("|", r"\|")


async def page() -> str:
    """The table as the code has it."""
    return table(families(await rolled(filled())))


def main() -> None:
    """Write the page's table."""
    import asyncio

    put_between(PAGE, BEGIN, END, asyncio.run(page()))


if __name__ == "__main__":
    main()
