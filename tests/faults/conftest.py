"""What the fault tests share: a Pulsar that may be killed and rolls its ledgers over fast, with a bridge before it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridge.node.orphans import Guard
from tests.faults import figures
from tests.support.bridges import BridgeChild, Overrides, started_children
from tests.support.nodes import Node, Nodes, listeners, stable_ports
from tests.support.pulsar import NewPulsar, PrivatePulsar

ENTRIES_PER_LEDGER = 50
RELAYS = 6


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--group-kills", type=int, default=2, help="how often the bridge or Pulsar is killed under groups")
    parser.addoption("--figures", type=Path, help="append the figures of the fault tests to a table in this file")


def pytest_configure(config: pytest.Config) -> None:
    figures.collect(config.getoption("--figures", default=None))


@pytest.fixture(scope="session")
def relay_ports() -> list[int]:
    """Where the relays of up to six bridges to the fault tests' Pulsar are."""
    return stable_ports(RELAYS)


@pytest.fixture(scope="package")  # it ends with the last of them: one that idles takes of the tests that come later
def shared_broker(new_pulsar: NewPulsar, relay_ports: list[int]) -> Iterator[PrivatePulsar]:
    """One Pulsar for all fault tests; ledgers of 50 entries, so that every fault meets a roll-over."""
    settings = {
        "managedLedgerMaxEntriesPerLedger": str(ENTRIES_PER_LEDGER),
        "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    }
    started = new_pulsar(settings, of_port=lambda port: listeners(port, relay_ports))
    started.start()
    yield started
    started.kill()


@pytest.fixture
def broker(shared_broker: PrivatePulsar) -> PrivatePulsar:
    """It runs when a test begins: one that ended while it was killed fails alone, not all that come later as well."""
    if not shared_broker.is_running:
        shared_broker.start()
    return shared_broker


@pytest.fixture
def broker_namespace(broker: PrivatePulsar) -> str:
    """A namespace of the test's own."""
    return broker.create_namespace()


@pytest.fixture
def start_bridge(
    broker: PrivatePulsar, broker_namespace: str, guard: Guard, tmp_path: Path
) -> Iterator[Callable[..., BridgeChild]]:
    """Start bridges on the test's namespace; more than one is a bridge with nothing in memory."""
    yield from started_children(broker, broker_namespace, guard, tmp_path)


@pytest.fixture
def bridge_child(start_bridge: Callable[..., BridgeChild]) -> BridgeChild:
    """The bridge under load."""
    return start_bridge()


@pytest.fixture
def start_relayed(
    broker: PrivatePulsar, broker_namespace: str, relay_ports: list[int], guard: Guard, tmp_path: Path
) -> Iterator[Callable[..., Node]]:
    """Start one with a relay before it and one between it and Pulsar; these settings over the defaults."""
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
def topic() -> str:
    """A fresh name."""
    return f"faults-{secrets.token_hex(3)}"
