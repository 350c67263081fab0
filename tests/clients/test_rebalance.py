"""How long a rebalance takes when a second member joins; `--control` shows the same clients' time on a real Kafka."""

from __future__ import annotations

import statistics

import pytest

from tests.clients.endpoint import Clients, Endpoint
from tests.clients.members import until, until_shared
from tests.clients.scene import Scene

ROUNDS = 7


@pytest.mark.parametrize("family", ["kafka-python", "confluent", "java"])
def test_a_rebalance_ends_when_a_member_comes_and_goes(endpoint: Endpoint, clients: Clients, family: str) -> None:
    seconds = []
    scene = Scene(clients)
    try:
        stays = scene.join(family)
        until("the first to hold all", lambda: stays.held == set(range(scene.partitions)), stays)
        for _ in range(ROUNDS):
            comes = scene.join(family)
            seconds.append(until_shared([stays, comes], scene.partitions) - comes.joined_at)
            comes.leave()
            until("the first to hold all again", lambda: stays.held == set(range(scene.partitions)), stays)
    finally:
        scene.close()
    median = statistics.median(seconds)
    print(f"figures: rebalance {endpoint.name} {family} median={median:.3f} s max={max(seconds):.3f} s")
