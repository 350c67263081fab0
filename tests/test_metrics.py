"""Metrics: plain numbers in, bounded Prometheus families out (`bridge.metrics` and `bridge.exposition`)."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bridge import __version__
from bridge.exposition import Exposition
from bridge.instruments import Counter, Gauge, Histogram
from bridge.metrics import REJECTION_REASONS, Lag, Metrics


def render(metrics: Metrics, *, open_metrics: bool = False) -> tuple[bytes, str]:
    return Exposition(metrics).render(open_metrics=open_metrics)


def sample(metrics: Metrics, name: str, **labels: str) -> float:
    text = render(metrics)[0].decode()
    found = [
        one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.name == name and one.labels == labels
    ]
    assert len(found) == 1, (name, labels, found)
    return found[0]


def test_an_api_has_its_own_series() -> None:
    metrics = Metrics()
    metrics.name_apis({0: "Produce", 1: "Fetch"})
    produce = metrics.api(0)
    produce.requests.inc()
    produce.bytes_in.inc(100)
    produce.seconds.observe(0.002)
    produce.error(6)
    produce.error(6)
    assert sample(metrics, "bridge_kafka_requests_total", api="Produce") == 1
    assert sample(metrics, "bridge_kafka_requests_total", api="Fetch") == 0
    assert sample(metrics, "bridge_kafka_request_bytes_total", api="Produce") == 100
    assert sample(metrics, "bridge_kafka_errors_total", api="Produce", code="6") == 2
    assert sample(metrics, "bridge_kafka_request_seconds_bucket", api="Produce", le="0.001") == 0
    assert sample(metrics, "bridge_kafka_request_seconds_bucket", api="Produce", le="0.0025") == 1
    assert sample(metrics, "bridge_kafka_request_seconds_count", api="Produce") == 1
    assert sample(metrics, "bridge_kafka_request_seconds_sum", api="Produce") == pytest.approx(0.002)


def test_the_build_is_named() -> None:
    assert sample(Metrics("native"), "bridge_build_info", version=__version__, codec="native") == 1


def test_clients_cannot_make_series() -> None:
    metrics = Metrics()
    before = render(metrics)[0].count(b"\n")
    for key in range(1000):
        metrics.api(key).requests.inc()
        metrics.rejected(f"reason {key}")
    assert render(metrics)[0].count(b"\n") == before
    assert sample(metrics, "bridge_kafka_requests_total", api="unknown") == 1000
    assert sample(metrics, "bridge_kafka_rejected_total", reason="other") == 1000


@pytest.mark.parametrize("reason", REJECTION_REASONS)
def test_a_rejection_is_counted_by_its_reason(reason: str) -> None:
    metrics = Metrics()
    metrics.rejected(reason)
    assert sample(metrics, "bridge_kafka_rejected_total", reason=reason) == 1


def test_gauges_go_up_and_down() -> None:
    metrics = Metrics()
    metrics.connections.inc(3)
    metrics.connections.dec()
    metrics.storage.cache_bytes.set(7)
    assert sample(metrics, "bridge_kafka_connections") == 2
    assert sample(metrics, "bridge_storage_cache_bytes") == 7


def test_a_bound_belongs_to_its_own_bucket() -> None:
    histogram = Histogram()
    for seconds in (0.0005, 0.00051, 31.0):
        histogram.observe(seconds)
    assert histogram.buckets()[:2] == [("0.0005", 1), ("0.001", 2)]
    assert histogram.buckets()[-2:] == [("30.0", 2), ("+Inf", 3)]


def test_every_number_of_pulsar_and_storage_is_shown() -> None:
    metrics = Metrics()
    names = set(render(metrics)[0].decode().replace("{", " ").split())
    parts = (
        (metrics.pulsar, "bridge_pulsar_"),
        (metrics.storage, "bridge_storage_"),
        (metrics.groups, "bridge_groups_"),
    )
    for part, prefix in parts:
        for name in type(part).__slots__:
            if not isinstance(getattr(part, name), Counter | Gauge | Histogram):
                continue  # has labels
            assert {f"{prefix}{name}", f"{prefix}{name}_total", f"{prefix}{name}_count"} & names, name


def test_the_lag_of_groups_is_shown_as_far_as_it_is_known() -> None:
    metrics = Metrics()
    metrics.groups.lags = [Lag("g", "t", 0, 5, 7, 1.5), Lag("g", "t", 1, 6, None, None)]
    assert sample(metrics, "bridge_group_lag_records", group="g", topic="t", partition="0") == 7
    assert sample(metrics, "bridge_group_lag_seconds", group="g", topic="t", partition="0") == 1.5
    assert sample(metrics, "bridge_group_committed_offset", group="g", topic="t", partition="1") == 6
    assert 'bridge_group_lag_records{group="g",partition="1"' not in render(metrics)[0].decode()


def test_openmetrics_is_given_to_those_who_ask() -> None:
    body, content_type = render(Metrics(), open_metrics=True)
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
