"""How long a rebalance takes when a second member joins; `--control` shows the same clients' time on a real Kafka.

Most of it is waiting for the first member's next heartbeat. So the second comes at any time between two of them: right
after the last rebalance it would meet the same moment of the client's clock every time.
"""

from __future__ import annotations

import random
import statistics
import time

import pytest

from tests.clients.endpoint import Clients, Endpoint
from tests.clients.members import until, until_shared
from tests.clients.scene import Scene

_HEARTBEAT_SECONDS = 0.5  # librdkafka's own clock ticks twice a second


@pytest.mark.parametrize("family", ["kafka-python", "confluent", "java"])
def test_a_rebalance_ends_when_a_member_comes_and_goes(
    endpoint: Endpoint, clients: Clients, family: str, request: pytest.FixtureRequest
) -> None:
    rounds = 25 if request.config.getoption("--control", default=False) else 1  # many where both servers are measured
    seconds = []
    chance = random.Random(1)
    scene = Scene(clients)
    try:
        stays = scene.join(family)
        until("the first to hold all", lambda: stays.held == set(range(scene.partitions)), stays)
        for _ in range(rounds):
            time.sleep(chance.uniform(0, _HEARTBEAT_SECONDS))  # it comes at any time between two heartbeats
            comes = scene.join(family)
            seconds.append(until_shared([stays, comes], scene.partitions) - comes.joined_at)
            comes.leave()
            until("the first to hold all again", lambda: stays.held == set(range(scene.partitions)), stays)
    finally:
        scene.close()
    request.node.user_properties.append(("rebalance", (family, endpoint.name, statistics.median(seconds))))
