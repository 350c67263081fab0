"""Makes families of what has no labels, and of what has one."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from bridge.telemetry.instruments import Counter, Gauge, Histogram

Names = Mapping[str, tuple[str, str]]
"""By attribute: the family's name and its help text."""


def unlabelled(part: object, names: Names) -> Iterator[Metric]:
    """A family for each of these attributes of a part of the metrics."""
    for attribute, (name, text) in names.items():
        yield _family(name, text, getattr(part, attribute))


def prefixed(prefix: str, texts: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The names of families that are called as their attributes are."""
    return {attribute: (prefix + attribute, text) for attribute, text in texts.items()}


def counters(name: str, text: str, labels: list[str], counts: Iterable[tuple[Iterable[str], float]]) -> Metric:
    """A family of counters: the labels' values, and the count, of each."""
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in counts:
        family.add_metric(list(values), count)
    return family


def gauges(name: str, text: str, labels: list[str], values: Iterable[tuple[Iterable[str], float]]) -> Metric:
    """As `counters`, of gauges."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for one, value in values:
        family.add_metric(list(one), value)
    return family


def by_one(counts: Mapping[str, Counter]) -> Iterable[tuple[Iterable[str], float]]:
    """What `counters` takes, of counters by the value of one label. A copy: the loop's thread may add to them while
    this one renders."""
    return [((value,), counter.value) for value, counter in dict(counts).items()]


def _family(name: str, text: str, value: Counter | Gauge | Histogram) -> Metric:
    if isinstance(value, Counter):
        return CounterMetricFamily(name, text, value=value.value)
    if isinstance(value, Gauge):
        return GaugeMetricFamily(name, text, value=value.value)
    return HistogramMetricFamily(name, text, buckets=value.buckets(), sum_value=value.total)
