"""A namespace that is not of this Pulsar cluster: nothing of it is served. What else is on that Pulsar suffers, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from bridge.kafka.error_codes import ErrorCode
from tests.policies.site import Site, eventually
from tests.support.bridges import BridgeThread, settings_for
from tests.support.pulsar import PrivatePulsar


@pytest.fixture
def alone(private_pulsar: Callable[..., PrivatePulsar]) -> Iterator[Site]:
    """A site on a Pulsar of its own."""
    pulsar = private_pulsar()
    bridge = BridgeThread(settings_for(pulsar, pulsar.create_namespace()))
    bridge.start()
    yield Site(bridge, pulsar)
    bridge.stop()


def test_a_namespace_of_another_cluster_is_told(alone: Site) -> None:
    topic = alone.topic()
    alone.produce(topic)
    url = {"serviceUrl": "http://127.0.0.1:1", "brokerServiceUrl": "pulsar://127.0.0.1:1"}
    alone.admin("PUT", "clusters/elsewhere", url)
    alone.admin("POST", "tenants/public", {"adminRoles": [], "allowedClusters": ["standalone", "elsewhere"]})
    alone.set("replication", ["elsewhere"])
    eventually(lambda: alone.produce(topic)[0] == ErrorCode.KAFKA_STORAGE_ERROR)
    assert "missing local cluster" in alone.produce(topic)[1]
    eventually(lambda: alone.fetch(topic)[0] == ErrorCode.UNKNOWN_SERVER_ERROR)
    assert alone.create("another")[0] == ErrorCode.POLICY_VIOLATION
