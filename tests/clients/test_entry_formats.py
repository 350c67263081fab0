"""Every client reads every field of what every client wrote into topics of format `kafka`, as in those of `pulsar`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bridge.node.orphans import Guard
from tests.clients import drafts
from tests.clients.assertions import assert_deliveries_dense, assert_read
from tests.clients.endpoint import FAMILIES, Clients, Endpoint
from tests.clients.model import CODECS
from tests.support.bridges import BridgeChild, settings_for
from tests.support.pulsar import PulsarAddress


@pytest.fixture(scope="module")
def verbatim(pulsar: PulsarAddress, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """The clients, bound to a bridge that stores batches as they come."""
    settings = settings_for(pulsar, pulsar.create_namespace(), {"storage": {"entry_format": "kafka"}})
    bridge = BridgeChild(settings, tmp_path_factory.mktemp("bridge"), guard)
    bridge.start()
    families = Clients(Endpoint("bridge", (bridge.kafka,)), tmp_path_factory.mktemp("clients"))
    try:
        yield families
        bridge.stop()
    finally:
        families.close()
        bridge.kill()


@pytest.mark.parametrize("reader", FAMILIES)
@pytest.mark.parametrize("writer", FAMILIES)
def test_all_fields(verbatim: Clients, writer: str, reader: str) -> None:
    written = verbatim.all_fields(writer)
    assert_deliveries_dense(written)
    assert_read(written, verbatim[reader].read(written.topic, dict.fromkeys(range(drafts.PARTITIONS), "beginning")))


@pytest.mark.parametrize("reader", FAMILIES)
@pytest.mark.parametrize("writer", FAMILIES)
def test_compressed(verbatim: Clients, writer: str, reader: str) -> None:
    written = verbatim.compressed(writer)
    assert_deliveries_dense(written)
    assert_read(written, verbatim[reader].read(written.topic, dict.fromkeys(range(len(CODECS)), "beginning")))
