"""An address with the wrong scheme or of another server: the start names what answers, and what may be meant."""

import pytest

from bridge.errors import StartupError
from tests.support.bridges import BridgeThread, settings_for
from tests.support.pulsar import PulsarAddress

NO_TLS = "it does not speak TLS: a plain port, 6650 as a rule, is for pulsar://"
NO_BROKER = "it closed the connection without an answer: it may want TLS"
ADMIN = "set pulsar.admin_url to a broker's web address, as a rule http://host:8080 or https://host:8443"


def said(pulsar: PulsarAddress, **wrong: str) -> str:
    """What a start says with this in place of the right setting."""
    settings = settings_for(pulsar, "public/default").with_values(pulsar={**wrong, "connect_timeout_seconds": 5.0})
    with pytest.raises(StartupError) as failed:
        BridgeThread(settings).start()
    return str(failed.value)


def place(url: str) -> str:
    """Host and port."""
    return url.partition("://")[2]


def test_tls_to_a_plain_port_of_a_broker(pulsar: PulsarAddress) -> None:
    assert NO_TLS in said(pulsar, service_url=f"pulsar+ssl://{place(pulsar.service_url)}")


def test_the_admin_port_as_service_url(pulsar: PulsarAddress) -> None:
    told = said(pulsar, service_url=f"pulsar://{place(pulsar.admin_url)}")
    assert "it speaks HTTP: this is the port of pulsar.admin_url, or of a website" in told
    assert NO_TLS in said(pulsar, service_url=f"pulsar+ssl://{place(pulsar.admin_url)}")


def test_a_bridge_s_port_as_service_url(pulsar: PulsarAddress, bridge: BridgeThread) -> None:
    assert NO_BROKER in said(pulsar, service_url=f"pulsar://{bridge.kafka}")


def test_tls_to_a_plain_admin_port(pulsar: PulsarAddress) -> None:
    told = said(pulsar, admin_url=f"https://{place(pulsar.admin_url)}")
    assert "it does not speak TLS: http:// may be meant" in told
    assert told.endswith(ADMIN)


def test_a_broker_s_port_as_admin_url(pulsar: PulsarAddress) -> None:
    assert said(pulsar, admin_url=f"http://{place(pulsar.service_url)}").endswith(ADMIN)


def test_a_namespace_whose_tenant_is_not_there(pulsar: PulsarAddress) -> None:
    told = said(pulsar, tenant="nobody")
    assert "nobody/default does not exist; run: pulsar-admin tenants create nobody, unless it is there, then " in told
