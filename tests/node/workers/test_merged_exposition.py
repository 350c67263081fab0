"""Expositions of several processes become one that Prometheus reads."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families as families

from bridge.node.workers.merged_exposition import merge
from bridge.telemetry.exposition import Exposition
from bridge.telemetry.metrics import Lag, Metrics


def busy(connections: int) -> Metrics:
    metrics = Metrics()
    metrics.name_apis({0: "Produce"})
    metrics.connections.set(connections)
    metrics.api(0).requests.inc(connections)
    metrics.api(0).seconds.observe(0.1)
    metrics.groups.lags = [Lag('a "group" {x} # of\nlines', "topic", 0, connections, 1, None)]
    return metrics


@pytest.mark.parametrize("open_metrics", [False, True])
def test_every_family_comes_once_with_each_workers_samples(open_metrics: bool) -> None:
    texts = {str(i): Exposition(busy(i).families).render(open_metrics=open_metrics)[0] for i in (3, 5)}
    text = merge(texts).decode()
    parse = open_metrics_families if open_metrics else families
    found = {family.name: family for family in parse(text)}
    for line in (line for line in text.splitlines() if line.startswith("# HELP")):
        assert text.count(line + "\n") == 1
    samples = {(s.name, *sorted(s.labels.items())): s.value for family in found.values() for s in family.samples}
    for worker in (3, 5):
        label = ("worker", str(worker))
        assert samples["bridge_kafka_connections", label] == worker
        assert samples["bridge_kafka_requests_total", ("api", "Produce"), label] == worker
        group = ("group", 'a "group" {x} # of\nlines')
        assert samples["bridge_group_committed_offset", group, ("partition", "0"), ("topic", "topic"), label] == worker
    assert text.endswith("# EOF\n") == open_metrics


def test_nothing_is_lost_and_nothing_made() -> None:
    """Each sample of each process is there, and no other."""
    texts = {str(i): Exposition(busy(i).families).render()[0] for i in range(3)}
    expected = sorted(
        (sample.name, str(sorted({**sample.labels, "worker": worker}.items())), sample.value)
        for worker, text in texts.items()
        for family in families(text.decode())
        for sample in family.samples
    )
    merged = [
        (sample.name, str(sorted(sample.labels.items())), sample.value)
        for family in families(merge(texts).decode())
        for sample in family.samples
    ]
    assert sorted(merged) == expected


def test_own_families_get_no_label() -> None:
    own = b'# HELP up Whether.\n# TYPE up gauge\nup{worker="0"} 1\n'
    assert merge({"0": b"# HELP a A.\n# TYPE a gauge\na 1\n"}, own) == (
        own + b'# HELP a A.\n# TYPE a gauge\na{worker="0"} 1\n'
    )


def test_no_worker_is_no_text() -> None:
    assert merge({}) == b""
