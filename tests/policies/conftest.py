"""Sites: bridges on the session's Pulsar, each in a namespace of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pulsar as native
import pytest

from tests.clients.endpoint import Clients, Endpoint
from tests.policies.site import Site
from tests.support.bridges import BridgeThread, settings_for
from tests.support.pulsar import PulsarAddress


@pytest.fixture(scope="session")
def new_site(pulsar: PulsarAddress) -> Iterator[Callable[[], Site]]:
    """Start another one: policies of a namespace stay with it."""
    with ExitStack() as running:

        def start() -> Site:
            bridge = BridgeThread(settings_for(pulsar, pulsar.create_namespace()))
            bridge.start()
            running.callback(bridge.stop)
            return Site(bridge, pulsar)

        yield start


@pytest.fixture
def site(new_site: Callable[[], Site]) -> Site:
    """One for a test that changes its namespace."""
    return new_site()


@pytest.fixture(scope="session")
def shared(new_site: Callable[[], Site]) -> Site:
    """One for the tests that change their topics alone, or leave the namespace as it was."""
    return new_site()


@pytest.fixture(scope="session")
def clients(shared: Site, pulsar: PulsarAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """Real clients of `shared`."""
    endpoint = Endpoint("bridge", (shared.bridge.kafka,), pulsar.service_url, pulsar.admin_url, shared.namespace)
    families = Clients(endpoint, tmp_path_factory.mktemp("clients"))
    yield families
    families.close()


@pytest.fixture(scope="session")
def native_client(pulsar: PulsarAddress) -> Iterator[native.Client]:
    """A client of Pulsar's own."""
    client = native.Client(pulsar.service_url, logger=native.ConsoleLogger(native.LoggerLevel.Error))
    yield client
    client.close()
