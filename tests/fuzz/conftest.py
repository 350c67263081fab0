"""One bridge, as a process of its own, for all hostile clients."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from bridge.node.orphans import Guard
from tests.fuzz.canary import GROWTH, Canary, watched
from tests.support.bridges import BridgeChild, settings_for
from tests.support.pulsar import PulsarAddress


@pytest.fixture(scope="session")
def target(pulsar: PulsarAddress, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeChild]:
    """The bridge under attack; it must outlive all of it."""
    with BridgeChild(
        settings_for(pulsar, pulsar.create_namespace()), tmp_path_factory.mktemp("bridge"), guard
    ) as child:
        yield child


@pytest.fixture
def canary(request: pytest.FixtureRequest, target: BridgeChild) -> Iterator[Canary]:
    """A healthy client beside the test, and a limit on the bridge's memory (a parameter, where it is another)."""
    growth = int(getattr(request, "param", GROWTH))
    with watched(target.kafka, target.pid, f"canary-{secrets.token_hex(3)}", growth) as running:
        yield running
