"""SIGTERM under producers that never repeat: what was received is answered, what fails was not stored."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from tests.faults.no_retries import Verdict, sending
from tests.faults.processes import let_pass
from tests.faults.topics import create
from tests.support.bridges import BridgeChild
from tests.support.kafka_broker import NewKafka
from tests.support.servers import KafkaServer

PARTITIONS = 3
RATE = 500  # of each client


def restarted(
    server: KafkaServer, topic: str, work: Path, restarts: int, seconds: float
) -> tuple[Verdict, dict[str, list[float]]]:
    """What became of the records, and how long each client had no acknowledgement."""
    create(server.address, topic, PARTITIONS)
    with sending(server.address, topic, work, partitions=PARTITIONS, rate=RATE) as running:
        for _ in range(restarts):
            let_pass(seconds)
            running.restart(server)
        verdict = running.end()
        gaps = running.gaps()
    for sender in verdict.senders:
        figures = f"{sender.sent} sent, {len(sender.failed)} failed, gaps {gaps[sender.name]} s"
        print(f"figures: {server.child.name}, {sender.name}: {figures}", flush=True)
    return verdict, gaps


def of_bridge(child: BridgeChild) -> KafkaServer:
    return KafkaServer(child.process.child, child.process.launch, child.kafka)


def test_what_fails_in_a_restart_was_not_stored(bridge_child: BridgeChild, topic: str, tmp_path: Path) -> None:
    verdict, _ = restarted(of_bridge(bridge_child), topic, tmp_path, restarts=2, seconds=2)
    verdict.check()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_restart_costs_no_more_than_one_of_kafka(
    bridge_child: BridgeChild, new_kafka: NewKafka, topic: str, tmp_path: Path
) -> None:
    found = {}
    kafka = new_kafka()
    kafka.start()
    servers = {"bridge": of_bridge(bridge_child), "kafka": KafkaServer(kafka.child, kafka.launch, kafka.kafka)}
    try:
        for name, server in servers.items():
            (tmp_path / name).mkdir()
            found[name] = restarted(server, topic, tmp_path / name, restarts=5, seconds=6)
    finally:
        kafka.stop()
    (ours, our_gaps), (theirs, their_gaps) = found["bridge"], found["kafka"]
    ours.check()
    assert ours.failed <= theirs.failed
    assert all(statistics.median(our_gaps[name]) <= statistics.median(their_gaps[name]) for name in our_gaps)
