"""Policies for which Pulsar refuses what Kafka clients send or ask for: each has a code that they act on rightly."""

from __future__ import annotations

import pulsar as native
import pytest
from confluent_kafka import Producer

from bridge.apis import create_partitions
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask, unique
from tests.clients.endpoint import Clients
from tests.policies.site import Site, eventually
from tests.policies.writers import WRITERS

PLAIN = {"type": "STRING", "schema": "", "properties": {}}


def test_where_encryption_is_required_producers_stop(site: Site) -> None:
    topic = site.topic()
    site.produce(topic)
    site.set("encryptionRequired", True)
    eventually(lambda: site.produce(topic)[0] == ErrorCode.POLICY_VIOLATION)
    assert "Encryption is required" in site.produce(topic)[1]
    with site.producer() as idempotent:
        assert idempotent.produce(topic)[0] == ErrorCode.POLICY_VIOLATION
    producer = Producer({"bootstrap.servers": site.bridge.kafka})
    told: list[int] = []
    producer.produce(topic, b"v", on_delivery=lambda error, _: told.append(0 if error is None else error.code()))
    assert producer.flush(30) == 0
    assert told == [ErrorCode.POLICY_VIOLATION]
    site.set("encryptionRequired", False)
    eventually(lambda: site.produce(topic)[0] == ErrorCode.NONE)


def test_a_topic_with_a_schema_is_refused_where_schemas_are_enforced(site: Site) -> None:
    topic = site.topic()
    site.admin("POST", f"schemas/{site.namespace}/{topic}/schema", PLAIN)
    with site.producer() as producer:
        assert producer.produce(topic)[0] == ErrorCode.NONE
    site.set("schemaValidationEnforced", True)

    def refused() -> bool:
        with site.producer() as producer:
            code, text = producer.produce(topic)
        return code == ErrorCode.POLICY_VIOLATION and "without a schema" in text

    eventually(refused)
    assert site.fetch(topic)[0] == ErrorCode.NONE


def test_a_terminated_topic_takes_no_more_and_is_read(shared: Site) -> None:
    topic = shared.topic()
    shared.produce(topic)
    shared.of_topic(f"{topic}-partition-0", "terminate")
    for _ in range(2):
        assert shared.produce(topic)[0] == ErrorCode.POLICY_VIOLATION
    assert shared.has_records(topic)


def too_large(site: Site, topic: str, size: int) -> bool:
    return site.produce(topic, bytes(size))[0] == ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_above_the_topic_s_own_message_size_ends_and_smaller_ones_are_stored(
    shared: Site, clients: Clients
) -> None:
    topic = shared.topic()
    shared.of_topic(topic, "maxMessageSize", 2000)
    eventually(lambda: too_large(shared, topic, 3000))
    start = shared.bound(topic)[1]
    several = {name: write(clients, topic, [b"x" * 500] * 8) for name, write in WRITERS.items()}
    assert several == {
        "java": ErrorCode.RECORD_LIST_TOO_LARGE,
        "librdkafka": ErrorCode.RECORD_LIST_TOO_LARGE,
        "kafka-python": list(range(start, start + 8)),  # it halves a batch until it fits
    }
    one = {name: write(clients, topic, [b"x" * 3000]) for name, write in WRITERS.items()}
    assert one == dict.fromkeys(WRITERS, ErrorCode.MESSAGE_TOO_LARGE)
    assert too_large(shared, topic, 8 << 20), "in chunks, each of which is above the limit"
    assert shared.bound(topic)[1] == start + 8
    end = shared.bound(topic)[1]
    smaller = {name: write(clients, topic, [b"x" * 500]) for name, write in WRITERS.items()}
    assert list(smaller.values()) == [[end], [end + 1], [end + 2]]


@pytest.mark.parametrize("action", ["producer_exception", "producer_request_hold"])
def test_producers_wait_while_a_backlog_is_above_its_quota(site: Site, action: str) -> None:
    topic, quota = site.topic(), "backlogQuota?backlogQuotaType=destination_storage"
    site.produce(topic, bytes(5000))
    site.set(quota, {"limitSize": 1000, "limitTime": -1, "policy": action})
    refused = []

    def is_refused() -> bool:
        with site.producer() as another:
            refused.append(another.produce(topic))
        return refused[-1][0] == ErrorCode.KAFKA_STORAGE_ERROR

    eventually(is_refused)
    assert "ProducerBlockedQuotaExceeded" in refused[-1][1]
    assert site.fetch(topic)[0] == ErrorCode.NONE
    site.set(quota, None, "DELETE")
    with site.producer() as waiting:
        eventually(lambda: waiting.produce(topic)[0] == ErrorCode.NONE)


def test_producers_wait_while_a_subscription_is_later_than_its_quota(site: Site, native_client: native.Client) -> None:
    """Pulsar knows the age of what is in closed ledgers."""
    topic, quota = site.topic(), "backlogQuota?backlogQuotaType=message_age"
    name = f"persistent://{site.namespace}/{topic}-partition-0"
    late = native_client.subscribe(name, "late", initial_position=native.InitialPosition.Earliest)
    site.produce(topic)
    site.of_topic(f"{topic}-partition-0", "unload", method="PUT")
    site.produce(topic)
    site.set(quota, {"limitSize": -1, "limitTime": 1, "policy": "producer_exception"})

    def is_refused() -> bool:
        with site.producer() as another:
            return another.produce(topic)[0] == ErrorCode.KAFKA_STORAGE_ERROR

    eventually(is_refused)
    assert site.fetch(topic)[0] == ErrorCode.NONE
    late.unsubscribe()
    site.set(quota, None, "DELETE")  # the cursor of deduplication is late as well, until its next snapshot
    with site.producer() as waiting:
        eventually(lambda: waiting.produce(topic)[0] == ErrorCode.NONE)


def test_more_partitions_than_a_topic_may_have_are_refused(site: Site) -> None:
    limit = "brokers/configuration/maxNumPartitionsPerPartitionedTopic"
    site.admin("POST", f"{limit}/3")
    try:
        eventually(lambda: site.create(unique("t"), 4)[0] == ErrorCode.INVALID_PARTITIONS)
        topic = site.topic(3)
        wanted = create_partitions.RequestTopic(name=topic, count=4, assignments=None)
        request = create_partitions.Request(topics=[wanted], timeout_ms=30_000, validate_only=False)
        (found,) = ask(site.bridge, create_partitions.API, request).results
        assert found.error_code == ErrorCode.INVALID_PARTITIONS
    finally:
        site.admin("DELETE", limit)
        eventually(lambda: site.create(unique("t"), 4)[0] == ErrorCode.NONE)  # of all tests that use this Pulsar


def test_without_exclusive_subscriptions_consumers_are_told(site: Site) -> None:
    topic = site.topic()
    site.produce(topic)
    site.set("subscriptionTypesEnabled", ["Shared"])
    eventually(lambda: site.bound(topic) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1))
    assert site.fetch(topic)[0] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert site.produce(topic)[0] == ErrorCode.NONE
