"""Sites: bridges on the session's Pulsar, each in a namespace of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pulsar as native
import pytest

from tests.clients.endpoint import Clients, Endpoint
from tests.policies.site import Site
from tests.support.bridges import BridgeThread, settings_for
from tests.support.pulsar import PulsarAddress


@contextmanager
def started(pulsar: PulsarAddress) -> Iterator[Site]:
    """One while inside: a bridge that lives on would disturb the tests of other packages."""
    bridge = BridgeThread(settings_for(pulsar, pulsar.create_namespace()))
    bridge.start()
    site = Site(bridge, pulsar)
    try:
        yield site
    finally:
        site.bridge.stop()


@pytest.fixture
def site(pulsar: PulsarAddress) -> Iterator[Site]:
    """One for a test that changes its namespace."""
    with started(pulsar) as made:
        yield made


@pytest.fixture(scope="module")
def bare(pulsar: PulsarAddress) -> Iterator[Site]:
    """One that gets one policy of the namespace after the other, and keeps them."""
    with started(pulsar) as made:
        yield made


@pytest.fixture(scope="package")
def shared(pulsar: PulsarAddress) -> Iterator[Site]:
    """One for the tests that change their topics alone, or leave the namespace as it was."""
    with started(pulsar) as made:
        yield made


@pytest.fixture(scope="package")
def clients(shared: Site, pulsar: PulsarAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """Real clients of `shared`."""
    endpoint = Endpoint("bridge", (shared.bridge.kafka,), pulsar.service_url, pulsar.admin_url, shared.namespace)
    families = Clients(endpoint, tmp_path_factory.mktemp("clients"))
    yield families
    families.close()


@pytest.fixture(scope="package")
def native_client(pulsar: PulsarAddress) -> Iterator[native.Client]:
    """A client of Pulsar's own."""
    client = native.Client(pulsar.service_url, logger=native.ConsoleLogger(native.LoggerLevel.Error))
    yield client
    client.close()
