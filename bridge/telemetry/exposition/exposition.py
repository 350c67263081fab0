"""One process's metrics as text, in Prometheus's format or in OpenMetrics'."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from bridge.telemetry.exposition import of_clients, of_pulsar, of_server
from bridge.telemetry.metrics import Metrics


class Exposition:
    """One process's metrics as text."""

    def __init__(self, metrics: Metrics) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(_Families(metrics))

    def render(self, *, open_metrics: bool = False) -> tuple[bytes, str]:
        """The text, of OpenMetrics or the older format, and its content type; may take milliseconds, so not for the
        event loop."""
        encode, content_type = choose_encoder("application/openmetrics-text" if open_metrics else "")
        return encode(self._registry), content_type

    def families(self) -> list[Metric]:
        """What there is, with its samples."""
        return list(self._registry.collect())


class _Families(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        metrics = self._metrics
        yield from of_server.families(metrics)
        yield from of_clients.families(metrics)
        yield from of_pulsar.pulsar_families(metrics.pulsar)
        yield from of_pulsar.storage_families(metrics)
        yield from of_pulsar.group_families(metrics.groups)

    def describe(self) -> Iterable[Metric]:
        return []
