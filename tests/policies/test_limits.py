"""Limits of producers, consumers, subscriptions and topics: who is refused is told so at once, and why."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pulsar as native
import pytest
from confluent_kafka import Consumer, TopicPartition

from bridge.kafka.error_codes import ErrorCode
from tests.clients.endpoint import Clients
from tests.policies.site import Site, eventually
from tests.policies.writers import WRITERS


def full_of_producers(site: Site, topic: str) -> None:
    """No other producer is let in from now on."""

    def refused() -> bool:
        with site.producer() as another:
            return another.produce(topic)[0] == ErrorCode.KAFKA_STORAGE_ERROR

    eventually(refused)


def test_a_producer_above_the_limit_is_told_at_once_and_gets_in_when_another_leaves(shared: Site) -> None:
    topic = shared.topic()
    with shared.producer() as second:
        with shared.producer() as first:
            assert first.produce(topic)[0] == ErrorCode.NONE
            shared.of_topic(topic, "maxProducers", 2)  # this node is one, of all producers that are not idempotent
            full_of_producers(shared, topic)
            code, text = second.produce(topic)
            assert code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "reached max producers limit" in text
            assert shared.produce(topic)[0] == ErrorCode.NONE
            assert first.produce(topic)[0] == ErrorCode.NONE
        eventually(lambda: second.produce(topic)[0] == ErrorCode.NONE)


@pytest.mark.parametrize("client", WRITERS)
def test_clients_wait_for_their_place(shared: Site, clients: Clients, client: str) -> None:
    topic = shared.topic()
    with ThreadPoolExecutor(1) as pool:
        with shared.producer() as first:
            first.produce(topic)
            shared.of_topic(topic, "maxProducers", 2)
            full_of_producers(shared, topic)
            _, end = shared.bound(topic)  # some of them got in before the policy was in force
            before = shared.refused_produces()
            writing = pool.submit(WRITERS[client], clients, topic, [b"v"])
            eventually(lambda: shared.refused_produces() > before)
        assert writing.result(60) == [end]


@pytest.mark.parametrize("policy", ["maxConsumersPerTopic", "maxSubscriptionsPerTopic"])
def test_a_consumer_above_the_limit_is_told_and_reads_when_another_leaves(
    site: Site, native_client: native.Client, policy: str
) -> None:
    topic = site.topic()
    site.produce(topic)
    other = native_client.subscribe(f"persistent://{site.namespace}/{topic}-partition-0", "native")
    site.set(policy, 1)
    eventually(lambda: site.bound(topic) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1))
    assert site.fetch(topic) == (ErrorCode.UNKNOWN_SERVER_ERROR, 0)
    assert site.bound(topic, -2) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)
    assert site.produce(topic)[0] == ErrorCode.NONE
    other.unsubscribe()
    other.close()
    eventually(lambda: site.fetch(topic)[1] > 0)
    assert site.bound(topic) == (ErrorCode.NONE, 2)


def test_consumers_read_on_as_soon_as_they_may(shared: Site, clients: Clients, native_client: native.Client) -> None:
    topic = shared.topic()
    shared.produce(topic)
    other = native_client.subscribe(f"persistent://{shared.namespace}/{topic}-partition-0", "native")
    shared.of_topic(topic, "maxConsumers", 1)
    eventually(lambda: shared.fetch(topic) == (ErrorCode.UNKNOWN_SERVER_ERROR, 0))
    consumer = Consumer({"bootstrap.servers": shared.bridge.kafka, "group.id": "librdkafka", "fetch.wait.max.ms": 50})
    consumer.assign([TopicPartition(topic, 0, 0)])
    told = consumer.poll(20)
    assert told is not None
    assert told.error().code() == ErrorCode.UNKNOWN_SERVER_ERROR
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(clients["java"].read, topic, {0: 0})
        other.unsubscribe()
        other.close()
        assert [record.offset for record in reading.result(60)] == [0]
    while (told := consumer.poll(20)) is not None and told.error() is not None:
        pass
    assert told is not None
    assert told.offset() == 0
    consumer.close()


def test_a_topic_above_the_limit_is_refused(site: Site) -> None:
    topic = site.topic()
    site.set("maxTopicsPerNamespace", 3)
    code, text = site.create("another", 3)
    assert (code, text) == (ErrorCode.POLICY_VIOLATION, "Exceed maximum number of topics in namespace.")
    assert site.produce(topic)[0] == ErrorCode.NONE
