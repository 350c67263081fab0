"""Bundles of a real cluster are split, unloaded and moved under load: clients of the bridge see a short pause."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from bridge.node.orphans import Guard
from tests.faults.checker import Load, load
from tests.faults.figures import report
from tests.faults.ledgers import ledger_starts
from tests.pulsar_cluster.conftest import BROKERS
from tests.pulsar_cluster.moves import Owners, longest_pauses
from tests.support.bridges import BridgeChild
from tests.support.pulsar_cluster import EXTENSIBLE, RealCluster, make_cluster

PARTITIONS = 6


@pytest.fixture(
    params=[
        pytest.param("real_cluster", id="modular"),
        pytest.param("extensible_cluster", id="extensible", marks=pytest.mark.soak),
    ]
)
def cluster(request: pytest.FixtureRequest) -> RealCluster:
    """A cluster with one load manager of Pulsar's or the other."""
    found: RealCluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def extensible_cluster(
    pulsar_jars: None, guard: Guard, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    """One whose load manager tells clients where their topics have gone."""
    made = make_cluster(tmp_path_factory.mktemp("extensible"), guard, BROKERS, EXTENSIBLE)
    made.start()
    yield made
    made.kill()


def pauses_of(running: Load, cluster: RealCluster, path: str) -> list[float]:
    """Each partition's longest time without an ack, from before a change until all have records from after it."""
    at = time.monotonic()
    cluster.admin("PUT", path)
    running.recovery()
    return longest_pauses(running, at)


def test_bundles_are_split_unloaded_and_moved_under_load(
    cluster: RealCluster, start_bridge: Callable[..., BridgeChild], cluster_namespace: str, topic: str
) -> None:
    bridge = start_bridge()
    unloaded, split, moved = [list[float]() for _ in range(3)]
    with load(bridge.kafka, topic, PARTITIONS) as running:
        owners = Owners(cluster, cluster_namespace, topic, PARTITIONS)
        at = f"namespaces/{cluster_namespace}"
        for bundle in owners.bundles():
            unloaded.append(max(pauses_of(running, cluster, f"{at}/{bundle}/unload")))
        for bundle in owners.bundles():
            split.append(max(pauses_of(running, cluster, f"{at}/{bundle}/split?unload=true")))
        for bundle in owners.bundles():
            to = cluster.id_of(owners.elsewhere(bundle))
            moved.append(max(pauses_of(running, cluster, f"{at}/{bundle}/unload?destinationBroker={to}")))
        used = {owner.name for owner in owners.now() if owner is not None}
        verdict = running.stop()
    report(verdict=verdict, unload=unloaded, split=split, move=moved, brokers=used)
    verdict.check(gap_ends=ledger_starts(cluster, cluster_namespace, topic, PARTITIONS))
