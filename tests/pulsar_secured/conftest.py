"""A Pulsar with authentication and authorization for the tests of this folder, and bridges that log in to it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.bridges import BridgeThread, settings_for
from tests.support.certificates import Authority
from tests.support.pulsar import NewPulsar, PulsarAddress
from tests.support.secured_pulsar import SecuredPulsar

ROLE = "bridge"
SHA = "SCRAM-SHA-256"
Start = Callable[..., BridgeThread]


@pytest.fixture(scope="package")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Of the certificates of brokers, proxies, bridges and their clients."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="package")  # it ends with the last of them: one that idles takes of the tests that come later
def secured(new_pulsar: NewPulsar, authority: Authority) -> Iterator[SecuredPulsar]:
    """One for all tests, with and without TLS: each makes a tenant of its own."""
    with SecuredPulsar(new_pulsar, None, authority) as started:
        yield started


@pytest.fixture
def tenant_namespace(secured: SecuredPulsar) -> str:
    """`tenant/namespace`, of a tenant whose administrator is the bridge's role."""
    return secured.create_tenant(ROLE)


@pytest.fixture
def start_bridge(secured: SecuredPulsar, tenant_namespace: str) -> Iterator[Start]:
    """Start a bridge: `start_bridge(pulsar={"token": …}, kafka={…})`."""
    address = PulsarAddress(secured.service_url, secured.admin_url)
    with ExitStack() as started:

        def start(**sections: Any) -> BridgeThread:
            sections["pulsar"] = {"trust_state_namespace": False, **sections.get("pulsar", {})}
            running = BridgeThread(settings_for(address, tenant_namespace, sections))
            running.start()
            started.callback(running.stop)
            return running

        yield start


def sections(secured: SecuredPulsar, **pulsar: object) -> dict[str, dict[str, object]]:
    """The settings of a bridge whose clients log in, at this Pulsar; `pulsar`: more of that section."""
    return {
        "kafka": {
            "listen": "127.0.0.1:9092", "listeners": "SASL_PLAINTEXT://127.0.0.1:0", "authorizer": "kafka",
            "super_users": "User:admin", "sasl_enabled_mechanisms": SHA,
        },
        "pulsar": {"token": secured.token(ROLE), **pulsar},
    }  # fmt: skip
