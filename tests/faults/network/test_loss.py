"""One packet in five is lost, on either side of the bridge and in both directions: slower, and nothing else.

It takes root and `iptables`, so it is part of `make soak`.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.faults.checker import load
from tests.faults.figures import report
from tests.faults.ledgers import ledger_starts
from tests.support.nodes import Node
from tests.support.programs import require
from tests.support.pulsar import PrivatePulsar

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(os.geteuid() != 0, reason="tells the kernel to lose packets, which takes root"),
]

PARTITIONS = 3
LOST = 0.2
RECORDS = 400


@contextmanager
def lossy(port: int) -> Iterator[None]:
    """Packets to and from this port of the loopback interface are lost by chance."""
    iptables = require("iptables", "apt-get install -y --no-install-recommends iptables")
    rules = [
        ["INPUT", "-i", "lo", "-p", "tcp", way, str(port), "-m", "statistic", "--mode", "random",
         "--probability", str(LOST), "-j", "DROP"]
        for way in ("--dport", "--sport")
    ]  # fmt: skip
    added: list[list[str]] = []
    try:
        for rule in rules:
            subprocess.run([iptables, "-w", "-A", *rule], check=True, capture_output=True)
            added.append(rule)
        yield
    finally:
        for rule in added:
            subprocess.run([iptables, "-w", "-D", *rule], check=True, capture_output=True)


def dropped(port: int) -> int:
    """Packets that were lost so far."""
    listing = subprocess.run(["iptables", "-w", "-L", "INPUT", "-n", "-v", "-x"], check=True, capture_output=True)
    lines = [line.split() for line in listing.stdout.decode().splitlines()]
    return sum(int(words[0]) for words in lines if any(word.endswith(f"t:{port}") for word in words))


def test_lost_packets_cost_time_alone(
    relayed: Node, broker: PrivatePulsar, broker_namespace: str, topic: str, side: str
) -> None:
    port = relayed.relay(side).port
    with load(relayed.kafka, topic, PARTITIONS) as running:
        running.more(40)
        began = time.monotonic()
        with lossy(port):
            running.more(RECORDS)
            lost = dropped(port)
        took = time.monotonic() - began
        running.more(40)
        verdict = running.stop()
    report(side=side, packets_lost=lost, seconds=round(took, 1), verdict=verdict)
    assert lost > RECORDS / 20, "packets are not lost"
    verdict.check(duplicates=True, gap_ends=ledger_starts(broker, broker_namespace, topic, PARTITIONS))
    assert verdict.duplicates_idempotent == []
