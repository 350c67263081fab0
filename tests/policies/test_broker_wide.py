"""Limits that are no policy of a topic or a namespace: those of resource groups, and of whole brokers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from bridge.apis import produce
from bridge.codec import NO_PRODUCER
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import Connection, unique
from tests.policies.conftest import started
from tests.policies.site import Site, eventually, produce_request
from tests.support.pulsar import NewPulsar, PrivatePulsar

_CONNECTIONS = 8
_BATCH = [b"v"] * 20


@pytest.fixture(scope="module")
def broker(new_pulsar: NewPulsar) -> Iterator[PrivatePulsar]:
    """One whose own limits are changed."""
    made = new_pulsar({"brokerMaxConnectionsPerIp": str(_CONNECTIONS)})
    made.start()
    yield made
    made.kill()


def refused_connections(site: Site) -> float:
    return site.bridge.server.client.metrics.connections_refused.value


@pytest.fixture
def limited(broker: PrivatePulsar) -> Iterator[Site]:
    with started(broker) as site:
        yield site


def throttled(site: Site, topic: str) -> None:
    """Write until Pulsar takes no more for now."""
    with Connection(site.bridge.kafka, seconds=2.0) as noisy, pytest.raises(TimeoutError):
        while True:  # until the limit, which is told to the broker in the background, is in force
            noisy.ask(produce.API, produce_request(topic, _BATCH * 10, NO_PRODUCER), 10)


def test_a_resource_group_slows_the_namespaces_in_it_alone(site: Site, shared: Site) -> None:
    noisy, other = site.topic(), shared.topic()
    group = unique("group")
    site.admin("PUT", f"resourcegroups/{group}", {"publishRateInMsgs": 1, "publishRateInBytes": 1_000_000})
    site.set(f"resourcegroup/{group}", None)
    throttled(site, noisy)
    assert [shared.produce(other) for _ in range(3)] == [(ErrorCode.NONE, str(number)) for number in range(3)]
    code, end = site.bound(noisy)
    assert code == ErrorCode.NONE
    assert end > 0
    assert site.has_records(noisy)
    assert site.create(unique("t")) == (ErrorCode.NONE, None)


@pytest.mark.parametrize("limit", ["brokerPublisherThrottlingMaxMessageRate", "maxPublishRatePerTopicInMessages"])
def test_publish_rates_of_a_broker_slow_writers_and_lose_nothing(
    limited: Site, broker: PrivatePulsar, limit: str
) -> None:
    topics = [limited.topic(), limited.topic()]
    broker.admin("POST", f"brokers/configuration/{limit}/100")
    with ThreadPoolExecutor(len(topics)) as pool:
        for found in pool.map(lambda topic: [limited.produce(topic, *_BATCH) for _ in range(10)], topics):
            assert found == [(ErrorCode.NONE, str(20 * number)) for number in range(10)]
    broker.admin("DELETE", f"brokers/configuration/{limit}")
    assert [limited.bound(topic) for topic in topics] == [(ErrorCode.NONE, 200)] * 2


def test_a_dispatch_rate_of_a_broker_slows_readers(limited: Site, broker: PrivatePulsar) -> None:
    broker.admin("POST", "brokers/configuration/dispatchThrottlingRateInMsg/100")
    topic = limited.topic()
    for _ in range(10):
        assert limited.produce(topic, *_BATCH)[0] == ErrorCode.NONE
    offset = 0
    while offset < 200:
        code, size = limited.fetch(topic, offset)
        assert code == ErrorCode.NONE
        offset += 20 if size else 0
    broker.admin("DELETE", "brokers/configuration/dispatchThrottlingRateInMsg")


def test_look_ups_above_what_a_broker_takes_at_once_are_asked_again(limited: Site, broker: PrivatePulsar) -> None:
    broker.admin("POST", "brokers/configuration/maxConcurrentLookupRequest/1")
    topics = [limited.topic() for _ in range(20)]
    with ThreadPoolExecutor(len(topics)) as pool:
        assert list(pool.map(limited.produce, topics)) == [(ErrorCode.NONE, "0")] * len(topics)
        assert list(pool.map(limited.bound, topics)) == [(ErrorCode.NONE, 1)] * len(topics)
    broker.admin("DELETE", "brokers/configuration/maxConcurrentLookupRequest")


def test_topics_share_the_connections_that_a_broker_takes(limited: Site) -> None:
    topics = [limited.topic() for _ in range(2 * _CONNECTIONS)]
    assert [limited.produce(topic) for topic in topics] == [(ErrorCode.NONE, "0")] * len(topics)
    assert [limited.bound(topic) for topic in topics] == [(ErrorCode.NONE, 1)] * len(topics)
    eventually(lambda: refused_connections(limited) > 0)
