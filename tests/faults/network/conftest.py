"""A bridge with a relay on either side: before it for its clients, and between it and Pulsar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridge.node.orphans import Guard
from tests.support.bridges import Overrides
from tests.support.nodes import Node, Nodes
from tests.support.pulsar import PrivatePulsar


@pytest.fixture
def start_relayed(
    broker: PrivatePulsar, broker_namespace: str, relay_ports: list[int], guard: Guard, tmp_path: Path
) -> Iterator[Callable[..., Node]]:
    """Start one, with these settings over the defaults."""
    made: list[Nodes] = []

    def start(**overrides: Overrides) -> Node:
        nodes = Nodes(broker, broker_namespace, guard, tmp_path, 1, relays=relay_ports, overrides=overrides)
        made.append(nodes)
        nodes.start()
        return nodes.all[0]

    yield start
    for nodes in made:
        nodes.close()


@pytest.fixture
def relayed(start_relayed: Callable[..., Node]) -> Node:
    """One with the defaults."""
    return start_relayed()


@pytest.fixture(params=["clients", "pulsar"])
def side(request: pytest.FixtureRequest) -> str:
    """Between the bridge and whom something happens."""
    return str(request.param)
