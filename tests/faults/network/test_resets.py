"""Connections are reset under load, between clients and the bridge or between it and Pulsar: a pause, nothing else."""

from __future__ import annotations

import pytest

from tests.faults.checker import load
from tests.faults.figures import report
from tests.faults.ledgers import ledger_starts
from tests.support.nodes import Node
from tests.support.pulsar import PrivatePulsar

PARTITIONS = 3


def reset(relayed: Node, broker: PrivatePulsar, namespace: str, topic: str, side: str, times: int) -> None:
    relay, gaps = relayed.relay(side), []
    with load(relayed.kafka, topic, PARTITIONS) as running:
        for _ in range(times):
            running.more(40)
            assert relay.reset(), "no connection passes through the relay"
            gaps.append(round(running.recovery(), 2))
        running.more(40)
        verdict = running.stop()
    report(side=side, verdict=verdict, recovery=gaps)
    # a writer without idempotence sends again what was stored and whose answer was lost
    verdict.check(duplicates=True, gap_ends=ledger_starts(broker, namespace, topic, PARTITIONS))
    assert verdict.duplicates_idempotent == []


def test_resets_are_a_pause(relayed: Node, broker: PrivatePulsar, broker_namespace: str, topic: str, side: str) -> None:
    reset(relayed, broker, broker_namespace, topic, side, 1)


@pytest.mark.soak
def test_many_resets_are_pauses(
    relayed: Node, broker: PrivatePulsar, broker_namespace: str, topic: str, side: str
) -> None:
    reset(relayed, broker, broker_namespace, topic, side, 20)
