"""Brokers of a real cluster die under load: their topics move, and clients of the bridge see no more than a pause."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from bridge.standalone.jvm import JvmProcess
from tests.faults.checker import Load, Verdict, load
from tests.faults.figures import report
from tests.faults.ledgers import ledger_starts
from tests.faults.processes import let_pass
from tests.pulsar_cluster.moves import Owners, first_acks, longest_pauses, summary
from tests.support.bridges import BridgeChild
from tests.support.freezing import frozen
from tests.support.pulsar_cluster import RealCluster

PARTITIONS = 6
KILLS = 10
FROZEN_SECONDS = 40.0


def kill(running: Load, owners: Owners, victim: JvmProcess) -> list[float]:
    """SIGKILL to a broker; seconds from a new owner to the first ack, of each partition it had."""
    partitions = owners.of(victim)
    at = time.monotonic()
    victim.kill()
    moved = owners.moved(partitions, victim)
    running.recovery(120)
    return first_acks(running, moved, at)


def check(verdict: Verdict, cluster: RealCluster, namespace: str, topic: str) -> None:
    """Nothing is lost or out of order; a plain producer may have repeated what a node refused that was cut off."""
    assert not verdict.duplicates_idempotent, str(verdict)
    verdict.check(duplicates=True, gap_ends=ledger_starts(cluster, namespace, topic, PARTITIONS))


def test_a_topic_of_several_brokers_outlives_one_of_them(
    cluster: RealCluster, start_bridge: Callable[..., BridgeChild], cluster_namespace: str, topic: str
) -> None:
    bridge = start_bridge()
    with load(bridge.kafka, topic, PARTITIONS) as running:
        owners = Owners(cluster, cluster_namespace, topic, PARTITIONS)
        victim = owners.busiest()
        waited = kill(running, owners, victim)
        victim.start()
        running.more(30)
        verdict = running.stop()
    report(verdict=verdict, first_ack_after_owner=summary(waited))
    check(verdict, cluster, cluster_namespace, topic)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_topic_of_several_brokers_outlives_kill_after_kill(
    cluster: RealCluster, start_bridge: Callable[..., BridgeChild], cluster_namespace: str, topic: str
) -> None:
    bridge = start_bridge()
    waited: list[float] = []
    with load(bridge.kafka, topic, PARTITIONS) as running:
        owners = Owners(cluster, cluster_namespace, topic, PARTITIONS)
        for _ in range(KILLS):
            running.more(60)
            victim = owners.busiest()
            waited += kill(running, owners, victim)
            report(first_ack_after_owner=waited)
            victim.start()
        running.more(60)
        verdict = running.stop()
    report(verdict=verdict, first_ack_after_owner=summary(waited))
    check(verdict, cluster, cluster_namespace, topic)


@pytest.mark.soak
def test_a_frozen_broker_loses_its_topics_and_comes_back_as_another(
    cluster: RealCluster, start_bridge: Callable[..., BridgeChild], cluster_namespace: str, topic: str
) -> None:
    bridge = start_bridge()
    with load(bridge.kafka, topic, PARTITIONS) as running:
        owners = Owners(cluster, cluster_namespace, topic, PARTITIONS)
        victim = owners.busiest()
        partitions = owners.of(victim)
        at = time.monotonic()
        with frozen(victim.pid):
            moved = owners.moved(partitions, victim)
            let_pass(FROZEN_SECONDS - (time.monotonic() - at))
        gap = running.recovery(180)
        pauses = longest_pauses(running, at)
        verdict = running.stop()
    owned = [round(when - at, 1) for when in moved.values()]
    report(verdict=verdict, new_owner_after=owned, recovery=round(gap, 2), pauses=summary(pauses))
    check(verdict, cluster, cluster_namespace, topic)
