"""Brokers of a real cluster die under load: their topics move, and clients of the bridge see no more than a pause."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.faults.checker import KAFKA_PYTHON_LEAKS, load
from tests.faults.figures import report
from tests.faults.ledgers import ledger_starts
from tests.pulsar_cluster.moves import Owners
from tests.support.bridges import BridgeChild
from tests.support.pulsar_cluster import RealCluster

pytestmark = KAFKA_PYTHON_LEAKS

PARTITIONS = 6


def test_a_topic_of_several_brokers_outlives_each_of_them(
    cluster: RealCluster, start_bridge: Callable[..., BridgeChild], cluster_namespace: str, topic: str
) -> None:
    bridge = start_bridge()
    with load(bridge.kafka, topic, PARTITIONS) as running:
        owners = Owners(cluster, cluster_namespace, topic, PARTITIONS)
        running.more(30)
        victim = owners.busiest()
        began = time.monotonic()
        victim.kill()
        moved = owners.moved_from(victim)
        gap = running.recovery()
        took = time.monotonic() - began
        victim.start()
        running.more(30)
        verdict = running.stop()
    report(verdict=verdict, moved=moved, recovery=round(gap, 2), took=round(took, 2))
    verdict.check(gap_ends=ledger_starts(cluster, cluster_namespace, topic, PARTITIONS))
