"""A bridge with a relay on either side: before it for its clients, and between it and Pulsar."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.nodes import Node


@pytest.fixture
def relayed(start_relayed: Callable[..., Node]) -> Node:
    """One with the defaults."""
    return start_relayed()


@pytest.fixture(params=["clients", "pulsar"])
def side(request: pytest.FixtureRequest) -> str:
    """Between the bridge and whom something happens."""
    return str(request.param)
