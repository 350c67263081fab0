"""Behind a real Pulsar proxy: the bridge reaches brokers by way of it alone, and outlives it and a broker behind it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from bridge.node.orphans import Guard
from tests.faults.checker import load
from tests.faults.figures import report
from tests.faults.ledgers import ledger_starts
from tests.pulsar_cluster.moves import Owners, first_acks
from tests.support.bridges import BridgeChild
from tests.support.pulsar_cluster import RealCluster
from tests.support.pulsar_proxy import PulsarProxy, in_front_of, proxy_jars

PARTITIONS = 3
SECONDS = 30.0


@pytest.fixture(scope="module")
def jars() -> list[Path]:
    return proxy_jars()


@pytest.fixture
def proxy(cluster: RealCluster, guard: Guard, tmp_path: Path, jars: list[Path]) -> Iterator[PulsarProxy]:
    with PulsarProxy(in_front_of(cluster), tmp_path / "proxy", guard, jars) as started:
        yield started


@pytest.fixture
def bridge(proxy: PulsarProxy, start_bridge: Callable[..., BridgeChild]) -> BridgeChild:
    return start_bridge(pulsar={"service_url": proxy.service_url, "admin_url": proxy.admin_url})


def test_everything_goes_by_way_of_the_proxy_which_may_be_killed(
    cluster: RealCluster,
    proxy: PulsarProxy,
    bridge: BridgeChild,
    cluster_namespace: str,
    topic: str,
) -> None:
    with load(bridge.kafka, topic, PARTITIONS) as running:
        commit(bridge.kafka, topic, 7)
        proxy.process.kill()
        proxy.process.start()
        gap = running.recovery()
        assert committed(bridge.kafka, topic) == 7
        verdict = running.stop()
    report(verdict=verdict, after_proxy=round(gap, 2))
    verdict.check(gap_ends=ledger_starts(cluster, cluster_namespace, topic, PARTITIONS))


@pytest.mark.soak
def test_a_broker_behind_the_proxy_may_be_killed(
    cluster: RealCluster,
    proxy: PulsarProxy,
    bridge: BridgeChild,
    cluster_namespace: str,
    topic: str,
) -> None:
    with load(bridge.kafka, topic, PARTITIONS) as running:
        commit(bridge.kafka, topic, 7)
        owners = Owners(cluster, cluster_namespace, topic, PARTITIONS)
        victim = owners.busiest()
        partitions, at = owners.of(victim), time.monotonic()
        victim.kill()
        moved = owners.moved(partitions, victim)
        running.recovery()
        waited = first_acks(running, moved, at)
        assert committed(bridge.kafka, topic) == 7
        verdict = running.stop()
    report(verdict=verdict, first_ack_after_owner=waited)
    assert not verdict.duplicates_idempotent
    verdict.check(duplicates=True, gap_ends=ledger_starts(cluster, cluster_namespace, topic, PARTITIONS))


def commit(bootstrap: str, topic: str, offset: int) -> None:
    consumer = member(bootstrap)
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def committed(bootstrap: str, topic: str) -> int:
    consumer = member(bootstrap)
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], SECONDS)
        return int(found.offset)
    finally:
        consumer.close()


def member(bootstrap: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False, "log_level": 0})
