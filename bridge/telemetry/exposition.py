"""Shows the metrics to Prometheus: families made of the plain numbers, once per scrape.

Imported at the first scrape, not before: `prometheus_client` takes as long to import as a tenth of a start.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from bridge.telemetry.families import Family, Value
from bridge.telemetry.instruments import Counter, Gauge, Histogram

_KINDS: Final[dict[str, Any]] = {
    "counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily,
    "summary": SummaryMetricFamily,
}  # fmt: skip


class Exposition:
    """Metrics as text."""

    def __init__(self, families: Callable[[], Iterable[Family]], *, process: bool = True) -> None:
        """`process`: those of every Python process, too."""
        self._registry = CollectorRegistry()
        if process:
            ProcessCollector(registry=self._registry)
            PlatformCollector(registry=self._registry)
            GCCollector(registry=self._registry)
        self._registry.register(_Shown(families))

    def render(self, *, open_metrics: bool = False) -> tuple[bytes, str]:
        """The text, of OpenMetrics or the older format, and its content type; may take milliseconds, so not for the
        event loop."""
        encode, content_type = choose_encoder("application/openmetrics-text" if open_metrics else "")
        return encode(self._registry), content_type

    def families(self) -> list[Metric]:
        """What there is, with its samples."""
        return list(self._registry.collect())


class _Shown(Collector):
    def __init__(self, families: Callable[[], Iterable[Family]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        # one after another: the garbage collector would hold the event loop for what all of them have at once
        return map(_shown, self._families())

    def describe(self) -> Iterable[Metric]:
        return []


def _shown(family: Family) -> Metric:
    made: Any = _KINDS[family.kind](family.name, family.text, labels=family.labels)
    for labels, value in family.samples:
        made.add_metric(labels, *_numbers(value))
    shown: Metric = made
    return shown


def _numbers(value: Value) -> tuple[Any, ...]:
    if isinstance(value, Counter | Gauge):
        return (value.value,)
    if isinstance(value, Histogram):
        return value.buckets(), value.total
    return value if isinstance(value, tuple) else (value,)
