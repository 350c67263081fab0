"""Idempotent producers while the bridge and Pulsar are killed in turn: nothing lost, nothing twice, order kept."""

from __future__ import annotations

import pytest

from tests.faults.checker import load
from tests.faults.ledgers import ledger_starts
from tests.support.bridges import BridgeChild
from tests.support.pulsar import PrivatePulsar


@pytest.mark.parametrize(
    "kills", [1, pytest.param(10, marks=(pytest.mark.soak, pytest.mark.timeout(1200)), id="10, the long run")]
)
def test_idempotent_producers_survive_kills_of_bridge_and_pulsar(
    broker: PrivatePulsar, bridge_child: BridgeChild, broker_namespace: str, topic: str, kills: int
) -> None:
    """Each is killed so often, in turn."""
    gaps: dict[str, list[float]] = {"bridge": [], "pulsar": []}
    with load(bridge_child.kafka, topic, idempotent=True) as running:
        for _ in range(kills):
            for name, victim in (("bridge", bridge_child), ("pulsar", broker)):
                running.more(100)
                victim.kill()
                victim.start()
                gaps[name].append(round(running.recovery(), 2))
        running.more(100)
        verdict = running.stop()
    print("figures:", verdict, "recovery:", gaps)
    verdict.check(gap_ends=ledger_starts(broker, broker_namespace, topic, running.partitions))
    assert all(writer.idempotent for writer in running.writers)
