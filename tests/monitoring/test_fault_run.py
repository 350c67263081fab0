"""Real faults under load, and a real Prometheus: each alert fires and ends, and none fires while all is well.

The rules are quickened twenty times, so three minutes are an hour. `make alerts` keeps the time line in docs/alerts.md.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridge.node.orphans import Guard
from tests.faults.disk import Disk, mounted
from tests.faults.processes import let_pass
from tests.monitoring import quickened, time_line
from tests.monitoring.load import Load, restarted_in_turn
from tests.monitoring.time_line import TimeLine
from tests.support.freezing import frozen
from tests.support.nodes import Nodes
from tests.support.prometheus import Prometheus, scraping
from tests.support.pulsar import NewPulsar, PrivatePulsar

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system, which takes root"),
]

FACTOR = 20.0
HEALTHY_SECONDS = 3600 / FACTOR
RESTARTS = 4
DOWN_SECONDS = 1.5
CONNECTIONS = 60
"""That a node takes; the load has a few."""


@dataclass
class Scene:
    """All that runs."""

    disk: Disk
    pulsar: PrivatePulsar
    nodes: Nodes
    load: Load
    time_line: TimeLine


@pytest.fixture
def scene(new_pulsar: NewPulsar, guard: Guard, tmp_path: Path) -> Iterator[Scene]:
    with mounted(tmp_path / "disk") as disk:
        pulsar = new_pulsar(directory=disk.path / "pulsar")
        pulsar.start()
        few = {"kafka": {"max_connections": CONNECTIONS}}
        nodes = Nodes(pulsar, pulsar.create_namespace(), guard, tmp_path / "nodes", 2, overrides=few)
        targets = {"bridge": [node.http for node in nodes.all]}
        rules = quickened.rules(FACTOR, tmp_path)
        configuration = scraping(targets, every=quickened.SCRAPE_SECONDS / FACTOR, rules=[rules])
        prometheus = Prometheus(tmp_path / "prometheus", guard, configuration)
        load = Load(nodes.bootstrap())
        try:
            nodes.start()
            nodes.wait_until_settled()
            prometheus.start()
            watched = TimeLine(prometheus)
            with load.at_work(), watched.kept():
                prometheus.until("the group commits", lambda: bool(prometheus.query("bridge:group_lag_records")))
                prometheus.until("no alert", lambda: not prometheus.alerts())
                yield Scene(disk, pulsar, nodes, load, watched)
        finally:
            prometheus.stop()
            nodes.close()
            pulsar.kill()


def healthy(scene: Scene) -> None:
    """An hour, in which nodes are restarted one after the other."""
    with scene.time_line.period("none, but restarts of a node") as period:
        restarted_in_turn(scene.nodes, RESTARTS, HEALTHY_SECONDS / RESTARTS, DOWN_SECONDS)
    assert not period.fired


def bridge_killed(scene: Scene) -> None:
    with scene.time_line.period("one of two bridges killed"):
        scene.nodes.all[0].kill()
        scene.time_line.wait_for(["BridgeDown", "BridgeNodeMissing"])
        scene.nodes.all[0].start()


def pulsar_frozen(scene: Scene) -> None:
    with scene.time_line.period("Pulsar frozen"), frozen(scene.pulsar.pid):
        scene.time_line.wait_for(["BridgeNotReady", "BridgePulsarUnreachable", "BridgeProduceErrors"])


def pulsar_slow(scene: Scene) -> None:
    with scene.time_line.period("Pulsar held up for 1.5 of every 2.5 seconds") as period:
        for _ in range(60):
            if "BridgeReceiptsSlow" in period.fired:
                break
            with frozen(scene.pulsar.pid):
                let_pass(1.5)
            let_pass(1.0)
    assert "BridgeReceiptsSlow" in period.fired


def pulsar_killed(scene: Scene) -> None:
    with scene.time_line.period("Pulsar killed"):
        scene.pulsar.kill()
        scene.time_line.wait_for(["BridgeNotReady", "BridgePulsarUnreachable"])
        scene.pulsar.start()


def consumer_stalled(scene: Scene) -> None:
    with scene.time_line.period("a consumer stalled"), scene.load.held_up():
        scene.time_line.wait_for(["BridgeLagGrowing", "BridgeGroupStuck"])


def consumer_gone(scene: Scene) -> None:
    with scene.time_line.period("a group's consumer gone"), scene.load.without_members():
        scene.time_line.wait_for(["BridgeGroupWithoutMembers"])


def disk_full(scene: Scene) -> None:
    with scene.time_line.period("Pulsar's disk full"):
        scene.disk.fill(leave=3_000_000)  # less than the hundredth at which the bookie turns read-only
        scene.time_line.wait_for(["BridgeNotReady", "BridgePulsarStoresNothing"])
        scene.disk.free()


def too_many_connections(scene: Scene) -> None:
    host, _, port = scene.nodes.all[0].kafka.rpartition(":")
    with scene.time_line.period("a client that leaks connections") as period, ExitStack() as leaked:
        for _ in range(CONNECTIONS):
            leaked.enter_context(socket.create_connection((host, int(port)), timeout=10))
        for _ in range(240):
            if "BridgeRefusesClients" in period.fired:
                break
            socket.create_connection((host, int(port)), timeout=10).close()
            let_pass(0.5)
        assert "BridgeRefusesClients" in period.fired


FAULTS = (
    healthy,
    bridge_killed,
    pulsar_frozen,
    pulsar_slow,
    pulsar_killed,
    consumer_stalled,
    consumer_gone,
    disk_full,
    too_many_connections,
)


def test_each_fault_fires_its_alert_and_its_end_ends_it(scene: Scene, request: pytest.FixtureRequest) -> None:
    try:
        for fault in FAULTS:
            fault(scene)
            print("\n".join(scene.time_line.periods[-1].rows()), flush=True)
    finally:
        page = request.config.getoption("--time-line", default=None)
        if page is not None:
            time_line.write(scene.time_line.periods, page)
