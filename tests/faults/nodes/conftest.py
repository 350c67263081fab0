"""Clusters of several bridges before the fault tests' Pulsar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridge.node.orphans import Guard
from tests.support.nodes import Nodes
from tests.support.pulsar import PrivatePulsar


@pytest.fixture
def go(request: pytest.FixtureRequest) -> bool:
    """Whether franz-go is one of the clients."""
    return bool(request.config.getoption("--go"))


@pytest.fixture
def start_nodes(
    broker: PrivatePulsar, broker_namespace: str, relay_ports: list[int], guard: Guard, tmp_path: Path
) -> Iterator[Callable[..., Nodes]]:
    """Start a cluster: `start_nodes(3)`; with `relayed` it can be cut off from Pulsar and from its clients.

    `linked`: the nodes can ask each other; `launched`: it is not waited for.
    """
    made: list[Nodes] = []

    def start(
        count: int = 3, *, relayed: bool = False, linked: bool = True, seed: int = 0, launched: bool = False
    ) -> Nodes:
        relays = relay_ports if relayed else ()
        nodes = Nodes(broker, broker_namespace, guard, tmp_path, count, relays=relays, linked=linked, seed=seed)
        made.append(nodes)
        if launched:
            for node in nodes.all:
                node.process.launch()
        else:
            nodes.start()
        return nodes

    yield start
    for nodes in made:
        nodes.close()
