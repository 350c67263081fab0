"""Three nodes behind one address, for the tests that change nothing about them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bridge.node.orphans import Guard
from tests.support.one_address import OneAddress
from tests.support.pulsar import PulsarAddress


@pytest.fixture(scope="package")
def one_address(pulsar: PulsarAddress, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneAddress]:
    """Three nodes and a balancer."""
    made = OneAddress(pulsar, pulsar.create_namespace(), guard, tmp_path_factory.mktemp("one-address"))
    try:
        made.start()
        yield made
    finally:
        made.close()
