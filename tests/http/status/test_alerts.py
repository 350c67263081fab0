"""The page's alerts are those of config/alerts.yml: the same names, durations, severities and conditions."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from bridge.http.status.alerts import ELSEWHERE, LOOK_SECONDS, RULES, Alerts
from bridge.telemetry.instruments import Level
from bridge.telemetry.metrics import GroupRow, Known, Lag, Lags, Metrics
from tests.support.sources import ROOT


class Clock:
    """Goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """The metrics of a node, looked at as a node does."""

    def __init__(self) -> None:
        self.metrics = Metrics("python")
        self.clock = Clock()
        self.alerts = Alerts(self.metrics, self.clock, self.clock)

    def pass_seconds(self, seconds: float) -> None:
        """Looks every 15 seconds; Pulsar acknowledges heartbeats meanwhile."""
        for _ in range(int(seconds / LOOK_SECONDS)):
            self.clock.now += LOOK_SECONDS
            self.metrics.cluster.heartbeat_seconds.observe(0.01)
            self.alerts.look()

    def firing(self) -> list[str]:
        return [one.alert for one in self.alerts.firing()]


@pytest.fixture
def node() -> Watched:
    made = Watched()
    made.alerts.look()
    return made


def in_file() -> dict[str, dict[str, Any]]:
    found = yaml.safe_load((ROOT / "config" / "alerts.yml").read_text(encoding="utf-8"))
    return {rule["alert"]: rule for group in found["groups"] for rule in group["rules"] if "alert" in rule}


def seconds_of(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)([smh])", text).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1, "m": 60, "h": 3600}[unit]


def test_they_are_those_of_the_file() -> None:
    rules = in_file()
    assert {rule.name for rule in RULES} | set(ELSEWHERE) == set(rules)
    for rule in RULES:
        of_file = rules[rule.name]
        assert rule.seconds == seconds_of(of_file.get("for", "0s")), rule.name
        assert rule.severity == of_file["labels"]["severity"], rule.name


def test_a_node_that_is_well_has_none(node: Watched) -> None:
    node.pass_seconds(3600)
    assert not node.firing()


def test_one_fires_when_it_has_held_for_its_time_and_ends_at_once(node: Watched) -> None:
    node.metrics.pulsar.stalled_seconds.set(1)
    node.pass_seconds(60)
    assert not node.firing()
    node.pass_seconds(15)
    assert node.firing() == ["BridgePulsarStoresNothing"]
    node.metrics.pulsar.stalled_seconds.set(0)
    node.pass_seconds(15)
    assert not node.firing()


def test_no_heartbeat_is_acknowledged(node: Watched) -> None:
    node.pass_seconds(120)
    for _ in range(20):
        node.clock.now += LOOK_SECONDS
        node.alerts.look()
    assert node.firing() == ["BridgePulsarUnreachable"]
    node.metrics.pulsar.stalled_seconds.set(100)  # then another one says it
    node.clock.now += LOOK_SECONDS
    node.alerts.look()
    assert "BridgePulsarUnreachable" not in node.firing()


def lags(node: Watched, *found: Lag, members: int = 1) -> None:
    rows = [GroupRow(group, "classic", "Stable", members) for group in dict.fromkeys(one.group for one in found)]
    node.metrics.groups.show_lags("", Lags(list(found), len(rows), 0, 0, rows, {}, members), 4000)


@pytest.mark.parametrize(("members", "alert"), [(2, "BridgeGroupStuck"), (0, "BridgeGroupWithoutMembers")])
def test_a_group_that_commits_nothing_while_records_wait(node: Watched, members: int, alert: str) -> None:
    lags(node, Lag("g", "orders", 0, 5, 7, 1.0), Lag("g", "orders", 1, 5, 0, 0.0), members=members)
    node.pass_seconds(600)
    assert not node.firing()
    node.pass_seconds(330)
    assert node.firing() == [alert]
    assert "1 partitions" in node.alerts.firing()[0].what
    lags(node, Lag("g", "orders", 0, 6, 6, 1.0), members=members)
    node.pass_seconds(15)
    assert not node.firing()


def test_a_lag_that_grows_above_a_thousand(node: Watched) -> None:
    for number in range(100):
        lags(node, Lag("g", "orders", 0, number, 1000 + number, 1.0), Lag("steady", "orders", 0, number, 9000, 1.0))
        node.pass_seconds(15)
    assert node.firing() == ["BridgeLagGrowing"]
    assert node.alerts.firing()[0].what.startswith("g in orders: ")


def test_a_lag_that_is_not_known(node: Watched) -> None:
    lags(node, Lag("g", "orders", 0, 5, None, None), members=0)
    node.pass_seconds(615)
    assert node.firing() == ["BridgeLagUnknown"]


def test_produce_requests_that_fail(node: Watched) -> None:
    produce = node.metrics.api(0)
    for _ in range(30):
        produce.requests.inc(100)
        produce.error(7)
        node.pass_seconds(15)
    assert not node.firing()  # one in a hundred
    for _ in range(30):
        produce.requests.inc(100)
        produce.error(7)
        produce.error(7)
        produce.error(3)  # the client's own
        node.pass_seconds(15)
    assert node.firing() == ["BridgeProduceErrors"]


def test_receipts_that_are_slow(node: Watched) -> None:
    for _ in range(45):
        for _ in range(98):
            node.metrics.pulsar.receipt_seconds.observe(0.01)
        for _ in range(2):
            node.metrics.pulsar.receipt_seconds.observe(2.0)
        node.pass_seconds(15)
    assert node.firing() == ["BridgeReceiptsSlow"]


def test_what_is_above_a_limit(node: Watched) -> None:
    metrics = node.metrics
    metrics.ready = {"pulsar": False, "index": True}
    metrics.memory = {"requests": Level(lambda: 95, 100), "records": Level(lambda: 100, 100)}
    metrics.pulsar.slow_topics["orders"] = 30.0
    metrics.pulsar.token_expires_seconds["file"] = node.clock.now + 86_400
    metrics.pulsar.token_expires_seconds["oauth2"] = node.clock.now + 60
    metrics.tls.certificate_expires_seconds["kafka"] = node.clock.now + 86_400
    metrics.transactions.show_known("", Known(2, 30.0))
    node.pass_seconds(615)
    assert set(node.firing()) == {
        "BridgeNotReady", "BridgeMemoryNearLimit", "BridgeTopicNotAcknowledged", "BridgePulsarTokenEnding",
        "BridgeCertificateEnding", "BridgeTransactionOverdue", "BridgeTransactionTableOld",
    }  # fmt: skip
    assert node.alerts.firing()[0].severity == "critical"


def test_what_has_grown_of_late(node: Watched) -> None:
    node.metrics.cluster.members.set(3)
    node.pass_seconds(30)
    node.metrics.cluster.members.set(2)
    node.metrics.pulsar.corrupt_entries.inc()
    for _ in range(45):
        node.metrics.rejected("no_memory")
        node.pass_seconds(15)
    assert set(node.firing()) == {"BridgeNodeMissing", "BridgeEntriesCorrupt", "BridgeRefusesClients"}
    node.pass_seconds(3700)
    assert not node.firing()
