"""Three nodes, and Pulsar, are killed, frozen and cut off in the middle of transactions: all of each is there, or none.

`transactions_checker` says of what is looked for. At the end nothing may hold a last stable offset, nor a group's.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.faults.figures import report
from tests.faults.transactions_checker import check, summary
from tests.faults.transactions_faults import Faults
from tests.faults.transactions_load import transactions_load
from tests.support.nodes import Nodes
from tests.support.pulsar import PrivatePulsar

TIMES = 20
"""So many faults of each schedule in the soak."""


def run(broker: PrivatePulsar, nodes: Nodes, topic: str, schedule: Sequence[str], java: Path, *, seed: int = 0) -> None:
    """Do all that one after the other, each when the one before is overcome; then nothing is wrong."""
    longest = dict.fromkeys(schedule, 0.0)
    with transactions_load(nodes.bootstrap(), topic, seed, java) as load:
        faults = Faults(broker, nodes, load.topics, seed)
        for name in schedule:
            faults.all[name]()
            began = time.monotonic()
            load.more(3)
            longest[name] = max(longest[name], round(time.monotonic() - began, 1))
        history = load.stop()
    anomalies = check(history)
    outcomes = Counter(str(one.outcome) for one in history.transactions)
    report(schedule=dict(Counter(schedule)), transactions=dict(outcomes), overcome=longest, anomalies=len(anomalies))
    assert not anomalies, summary(anomalies)


@pytest.mark.timeout(300)
def test_transactions_are_whole_when_nodes_are_killed(
    broker: PrivatePulsar, start_nodes: Callable[..., Nodes], topic: str, tmp_path: Path
) -> None:
    run(broker, start_nodes(3), topic, ["kill", "unload slots", "kill"], tmp_path / "java")


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "faults",
    [
        ["kill", "kill two", "restart"],
        ["freeze"],
        ["freeze long"],
        ["unload slots", "unload data", "compact"],
        ["cut", "silence"],
        ["pulsar", "freeze pulsar"],
        ["kill", "freeze", "cut", "silence", "unload slots", "unload data", "compact", "pulsar"],
    ],
    ids=", ".join,
)
def test_transactions_are_whole_under_many_faults(
    broker: PrivatePulsar, start_nodes: Callable[..., Nodes], topic: str, tmp_path: Path, faults: list[str]
) -> None:
    seed = time.time_ns() % 1_000_000
    report(seed=seed)
    schedule = random.Random(seed).choices(faults, k=TIMES)
    run(broker, start_nodes(3, relayed=True, seed=seed), topic, schedule, tmp_path / "java", seed=seed)
