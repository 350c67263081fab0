"""The dashboards are what their generator writes; what they and the alerts ask for is there, in a real Prometheus."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bridge.node.orphans import Guard
from config.grafana import generate
from tests.monitoring.busy import Busy
from tests.monitoring.quickened import ALL
from tests.support.prometheus import Prometheus, Sample, scraping
from tests.support.pulsar import PulsarAddress

SCRAPE_SECONDS = 0.5
FILES = sorted(generate.DIRECTORY.glob("*.json"))
VALUES = {"$__rate_interval": "30s", "$instance": ".*", "$group": ".*", "$topic": ".*"}
"""What Grafana puts in."""


def panels(file: Path) -> Iterator[dict[str, Any]]:
    """All but the headings."""
    for panel in json.loads(file.read_text(encoding="utf-8"))["panels"]:
        if panel["type"] != "row":
            yield panel


def expressions() -> Iterator[tuple[str, str]]:
    """Each expression with its place, the variables filled in."""
    for file in FILES:
        for panel in panels(file):
            for target in panel["targets"]:
                expression = target["expr"]
                for name, value in VALUES.items():
                    expression = expression.replace(name, value)
                assert "$" not in expression
                yield f"{file.stem}, {panel['title']}", expression


def variables() -> Iterator[tuple[str, str]]:
    """The metric and the label that each variable's values come from."""
    for file in FILES:
        for variable in json.loads(file.read_text(encoding="utf-8"))["templating"]["list"]:
            if variable["type"] == "query":
                metric, _, label = variable["query"].removeprefix("label_values(").removesuffix(")").partition(", ")
                assert label == variable["name"]
                yield metric, label


@pytest.fixture(scope="module")
def prometheus(pulsar: PulsarAddress, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It scrapes a bridge at work, and its Pulsar."""
    directory = tmp_path_factory.mktemp("dashboards")
    busy = Busy(pulsar, directory, guard)
    targets = {"bridge": [busy.settings.http.listen], "pulsar": [urlsplit(pulsar.admin_url).netloc]}
    configuration = scraping(targets, every=SCRAPE_SECONDS, paths={"pulsar": "/metrics/"}, seldom={"pulsar": 4.0})
    running = Prometheus(directory / "prometheus", guard, configuration)
    with busy.at_work():
        running.start()
        yield running
        running.stop()


def test_they_are_what_the_generator_writes() -> None:
    written = dict(generate.files())
    assert {path.name for path in FILES} == set(written)
    for path in FILES:
        assert path.read_text(encoding="utf-8") == written[path.name], (
            "write them again: python -m config.grafana.generate"
        )


def test_every_expression_finds_data(prometheus: Prometheus) -> None:
    def without_data() -> list[tuple[str, str]]:
        return [
            (where, expression)
            for where, expression in expressions()
            if not any(math.isfinite(sample.value) for sample in prometheus.query(expression))
        ]

    try:
        prometheus.until("all expressions find data", lambda: not without_data())
    except AssertionError:
        assert not without_data()


def test_every_variable_has_values(prometheus: Prometheus) -> None:
    for metric, label in variables():
        found: list[Sample] = []

        def has_values(metric: str = metric, label: str = label, found: list[Sample] = found) -> bool:
            found[:] = prometheus.query(f"count by ({label}) ({metric})")
            return bool(found)

        prometheus.until(f"{metric} has {label}", has_values)
        assert all(sample.labels[label] for sample in found), (metric, label)


def test_what_the_alerts_ask_for_is_there(prometheus: Prometheus) -> None:
    named = set(re.findall(r"\b(?:bridge_\w+|up)\b", " ".join(rule["expr"] for rule in ALL)))
    other = {
        "bridge_pulsar_certificate_expires_seconds",
        "bridge_pulsar_topic_unacknowledged_seconds",
    }
    prometheus.until("all others are", lambda: all(prometheus.query(metric) for metric in named - other))
    assert not any(map(prometheus.query, other))


def test_an_expression_that_finds_nothing_would_be_seen(prometheus: Prometheus) -> None:
    assert prometheus.query("bridge_renamed_total") == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_panel_says_what_it_shows(file: Path) -> None:
    for panel in panels(file):
        assert panel["title"] and panel["description"].endswith("."), panel["title"]
