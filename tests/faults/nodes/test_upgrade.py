"""Three nodes go from the version before transactions to this one and back, each in its turn, under load.

No client meets an error either way. New nodes let transactional ids wait until the last old one is gone. The old
version is taken from the history of this repository, without its native codec.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bridge.apis import find_coordinator
from bridge.config import Settings
from bridge.kafka.error_codes import ErrorCode
from bridge.node.orphans import Guard
from bridge.standalone.bridge_process import BridgeProcess
from tests.apis.wire import ask_at
from tests.faults.figures import report
from tests.faults.nodes.load import nodes_load
from tests.faults.transactions_checker import Outcome, check, summary
from tests.faults.transactions_load import transactions_load
from tests.support.nodes import Node, Nodes
from tests.support.pulsar import PrivatePulsar

EARLIER = "2198d1c346d0"
"""The last commit whose bridges know no transactions."""
_ROOT = Path(__file__).parents[3]


class EarlierProcess(BridgeProcess):
    """A bridge of the earlier version; its settings are those that it knows."""

    def __init__(self, tree: Path, settings: Settings, directory: Path, guard: Guard) -> None:
        """`tree`: its sources."""
        super().__init__(settings, directory, guard)
        self._tree = tree

    def launch(self) -> None:
        settings, pulsar = self.settings, self.settings.pulsar
        known = {
            "BRIDGE_KAFKA_LISTEN": settings.kafka.listen,
            "BRIDGE_HTTP_LISTEN": settings.http.listen,
            "BRIDGE_CLUSTER_NAME": settings.cluster.name,
            "BRIDGE_PULSAR_SERVICE_URL": pulsar.service_url,
            "BRIDGE_PULSAR_ADMIN_URL": pulsar.admin_url,
            "BRIDGE_PULSAR_TENANT": pulsar.tenant,
            "BRIDGE_PULSAR_NAMESPACE": pulsar.namespace,
            "BRIDGE_PULSAR_TRUST_STATE_NAMESPACE": "true",
        }
        code = {"PYTHONPATH": str(self._tree), "BRIDGE_CODEC": "python"}
        command = [sys.executable, "-P", "-m", "bridge", "run"]
        self.child.start(command, environment={**os.environ, **known, **code})


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The sources of the earlier version."""
    tree = tmp_path / "earlier"
    tree.mkdir()
    packed = tmp_path / "earlier.tar"
    subprocess.run(["git", "archive", "--output", packed, EARLIER, "bridge"], cwd=_ROOT, check=True)
    with tarfile.open(packed) as archive:
        archive.extractall(tree, filter="data")
    return tree


def told_of_a_transactional_id(node: Node) -> int:
    """What the node answers who looks for the coordinator of one."""
    request = find_coordinator.Request(key_type=1, coordinator_keys=["upgraded"])
    (found,) = ask_at(node.kafka, find_coordinator.API, request).coordinators
    return int(found.error_code)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_no_client_notices_an_upgrade_and_the_way_back(
    broker: PrivatePulsar, broker_namespace: str, guard: Guard, tmp_path: Path, topic: str, earlier: Path
) -> None:
    nodes = Nodes(broker, broker_namespace, guard, tmp_path)
    now = {node.name: node.process for node in nodes.all}
    work = tmp_path / "work"
    before = {node.name: EarlierProcess(earlier, node.settings, work / node.name, guard) for node in nodes.all}

    def roll(to: Mapping[str, BridgeProcess], look: Callable[[Node], object]) -> None:
        for node in nodes.all:
            node.stop()
            node.process = to[node.name]
            node.start()
            running.more(10)
            look(node)

    for node in nodes.all:
        node.process = before[node.name]
    try:
        nodes.start()
        with nodes_load(nodes, topic) as running:
            told: list[int] = []
            roll(now, lambda node: told.append(told_of_a_transactional_id(node)))
            assert told[:2] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
            with transactions_load(nodes.bootstrap(), f"{topic}-eos") as load:
                load.more(10)
                history = load.stop()
            anomalies = check(history)
            assert not anomalies, summary(anomalies)
            outcomes = [one.outcome for one in history.transactions]
            roll(before, lambda _: None)
            verdict = running.judged(pauses_only=True)
        report(verdict=verdict, committed=outcomes.count(Outcome.COMMITTED), aborted=outcomes.count(Outcome.ABORTED))
        assert Outcome.COMMITTED in outcomes
        assert Outcome.ABORTED in outcomes
    finally:
        for one in (*before.values(), *now.values()):
            one.kill()
