"""A real Prometheus watches a real bridge that is killed: the alert fires, and ends when the bridge is back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bridge.node.orphans import Guard
from tests.monitoring import quickened
from tests.support.bridges import BridgeChild
from tests.support.prometheus import Prometheus, promtool, scraping

FACTOR = 60.0
OF_TARGET = 'instance!=""'
"""Of a target that does not answer, not of one that is not there."""


@pytest.fixture
def watched(bridge_process: Callable[..., BridgeChild]) -> BridgeChild:
    """A bridge to which records were sent."""
    child = bridge_process()
    producer = Producer({"bootstrap.servers": child.kafka})
    producer.produce("watched", b"x")
    assert producer.flush(30) == 0
    return child


@pytest.fixture
def prometheus(watched: BridgeChild, guard: Guard, tmp_path: Path) -> Iterator[Prometheus]:
    """It scrapes the bridge, by the rules in seconds instead of minutes."""
    rules = quickened.rules(FACTOR, tmp_path)
    promtool("check", "rules", rules)
    every = quickened.SCRAPE_SECONDS / FACTOR
    running = Prometheus(
        tmp_path / "prometheus", guard, scraping({"bridge": [watched.settings.http.listen]}, every=every, rules=[rules])
    )
    running.start()
    yield running
    running.stop()


def test_a_killed_bridge_fires_its_alert_and_its_start_ends_it(watched: BridgeChild, prometheus: Prometheus) -> None:
    ready = 'min(bridge_ready_check) == 1 and sum(up{job="bridge"}) == 1'
    # until the first scrape there was no bridge at all, which the rules of one second see as well
    prometheus.until(
        "it is scraped, and well", lambda: bool(prometheus.query(ready)) and "BridgeDown" not in prometheus.alerts()
    )
    watched.kill()
    prometheus.until("the alert fires", lambda: prometheus.alerts().get("BridgeDown") == "firing")
    assert prometheus.query(f'count_over_time(ALERTS{{alertname="BridgeDown", alertstate="pending", {OF_TARGET}}}[1m])')
    watched.start()
    prometheus.until("the alert has ended", lambda: "BridgeDown" not in prometheus.alerts())
    prometheus.until("it is well again", lambda: bool(prometheus.query(ready)))


@pytest.mark.parametrize(
    ("given", "quick"),
    [
        ("rate(x_total[5m]) > 0.01 * y", "rate(x_total[5000ms]) > 0.01 * y"),
        ("max_over_time(x[1h])", "max_over_time(x[60000ms])"),
        ('x{code=~"5|6"} < 7 * 86400', 'x{code=~"5|6"} < 7 * 86400'),
        ("deriv(x[30s])", "deriv(x[1000ms])"),
    ],
)
def test_only_ranges_are_divided(given: str, quick: str) -> None:
    assert quickened.expression(given, FACTOR) == quick
