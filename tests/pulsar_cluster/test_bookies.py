"""A bookie of a real cluster dies under load: each entry is on two of three, so clients see no more than a pause."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.faults.checker import load
from tests.faults.figures import report
from tests.faults.ledgers import ledger_starts
from tests.pulsar_cluster.moves import longest_pauses
from tests.support.bridges import BridgeChild
from tests.support.pulsar_cluster import RealCluster

PARTITIONS = 3


def test_a_dead_bookie_is_replaced_in_the_open_ledgers(
    cluster: RealCluster, start_bridge: Callable[..., BridgeChild], cluster_namespace: str, topic: str
) -> None:
    bridge = start_bridge()
    with load(bridge.kafka, topic, PARTITIONS) as running:
        at = time.monotonic()
        cluster.bookies[0].kill()
        running.recovery()
        running.more(30)
        pauses = longest_pauses(running, at)
        verdict = running.stop()  # reads everything once more, with a bookie missing
    report(verdict=verdict, pauses=pauses)
    verdict.check(gap_ends=ledger_starts(cluster, cluster_namespace, topic, PARTITIONS))
