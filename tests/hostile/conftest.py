"""A bridge under attack, for the tests that say what attacks may cost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bridge.node.orphans import Guard
from tests.hostile.measure import Arena
from tests.support.bridges import BridgeChild, settings_for
from tests.support.pulsar import PulsarAddress


@pytest.fixture(scope="package")
def arena(pulsar: PulsarAddress, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """The bridge, its attacker and its well-behaved client."""
    settings = settings_for(pulsar, pulsar.create_namespace())
    with (
        BridgeChild(settings, tmp_path_factory.mktemp("bridge"), guard) as child,
        Arena(child, getattr(pulsar, "pid", None)) as made,
    ):
        yield made
