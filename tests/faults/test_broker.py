"""Pulsar is killed, stopped, unloaded and rolled over while Kafka clients write and read; none of them may notice more
than a pause."""

from __future__ import annotations

from itertools import pairwise

from tests.faults.checker import load
from tests.faults.figures import report
from tests.faults.ledgers import ledger_starts
from tests.faults.processes import let_pass, resident_bytes
from tests.support.bridges import BridgeChild
from tests.support.freezing import frozen
from tests.support.pulsar import PrivatePulsar

PARTITIONS = 3


def test_no_acknowledged_record_is_lost_when_pulsar_is_killed(
    broker: PrivatePulsar, bridge_child: BridgeChild, broker_namespace: str, topic: str
) -> None:
    with load(bridge_child.kafka, topic, PARTITIONS) as running:
        running.more(100)
        broker.kill()
        broker.start()
        gap = running.recovery()
        running.more(100)
        verdict = running.stop()
    report(verdict=verdict, recovery=round(gap, 2))
    verdict.check(gap_ends=ledger_starts(broker, broker_namespace, topic, PARTITIONS))


def test_a_stopped_pulsar_is_a_pause(broker: PrivatePulsar, bridge_child: BridgeChild, topic: str) -> None:
    with load(bridge_child.kafka, topic, PARTITIONS) as running:
        before = resident_bytes(bridge_child.pid)
        with frozen(broker.pid):
            let_pass(6)
            grown = resident_bytes(bridge_child.pid) - before
        gap = running.recovery()
        verdict = running.stop()
    report(verdict=verdict, recovery=round(gap, 2), grown=grown)
    verdict.check()
    assert grown < 64 << 20


def test_topics_and_bundles_are_unloaded_under_load(
    broker: PrivatePulsar, bridge_child: BridgeChild, broker_namespace: str, topic: str
) -> None:
    with load(bridge_child.kafka, topic, PARTITIONS) as running:
        gaps = []
        for _ in range(2):
            running.more(60)
            for partition in range(PARTITIONS):
                broker.admin("PUT", f"persistent/{broker_namespace}/{topic}-partition-{partition}/unload")
            gaps.append(round(running.recovery(), 2))
        for bundle in bundles(broker, broker_namespace):
            broker.admin("PUT", f"namespaces/{broker_namespace}/{bundle}/unload")
        gaps.append(round(running.recovery(), 2))
        running.more(60)
        verdict = running.stop()
    report(verdict=verdict, recovery=gaps)
    verdict.check(gap_ends=ledger_starts(broker, broker_namespace, topic, PARTITIONS))


def bundles(broker: PrivatePulsar, namespace: str) -> list[str]:
    policies = broker.admin("GET", f"namespaces/{namespace}/bundles")
    assert isinstance(policies, dict)
    edges = policies["boundaries"]
    return [f"{low}_{high}" for low, high in pairwise(edges)]
