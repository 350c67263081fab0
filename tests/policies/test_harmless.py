"""Policies that leave Kafka clients alone: all records come, in their order, at their offsets."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pulsar as native
import pytest

from bridge.kafka.error_codes import ErrorCode
from tests.clients.endpoint import Clients
from tests.policies.site import Site, eventually

HOUR = 3600
OF_NAMESPACES: dict[str, Any] = {
    "messageTTL": 1,
    "subscriptionExpirationTime": 1,
    "maxConsumersPerSubscription": 1,
    "subscribeRate": {"subscribeThrottlingRatePerConsumer": 1, "ratePeriodInSecond": HOUR},
    "autoSubscriptionCreation": {"allowAutoSubscriptionCreation": False},
    "autoTopicCreation": {"allowAutoTopicCreation": False},
    "maxUnackedMessagesPerConsumer": 1,
    "maxUnackedMessagesPerSubscription": 1,
    "offloadThreshold": 1,
    "delayedDelivery": {"active": True, "tickTime": 1000},
    "inactiveTopicPolicies": {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": HOUR,
        "deleteWhileInactive": True,
    },
    "retention": {"retentionTimeInMinutes": 60, "retentionSizeInMB": 1000},
    "persistence": {
        "bookkeeperEnsemble": 1,
        "bookkeeperWriteQuorum": 1,
        "bookkeeperAckQuorum": 1,
        "managedLedgerMaxMarkDeleteRate": 0.1,
    },
    "schemaCompatibilityStrategy": "ALWAYS_INCOMPATIBLE",
    "isAllowAutoUpdateSchema": False,
    "publishRate": {"publishThrottlingRateInMsg": HOUR, "publishThrottlingRateInByte": -1},
    "backlogQuota?backlogQuotaType=message_age": {"limitTime": 1, "policy": "consumer_backlog_eviction"},
}
PUT = {"offloadThreshold", "schemaCompatibilityStrategy"}


@pytest.mark.parametrize("policy", OF_NAMESPACES)
def test_a_policy_of_the_namespace_changes_nothing(bare: Site, policy: str) -> None:
    bare.set(policy, OF_NAMESPACES[policy], "PUT" if policy in PUT else "POST")
    topic = bare.topic(2)
    with bare.producer() as producer:
        for number in range(3):
            assert producer.produce(topic, b"v") == (ErrorCode.NONE, str(number))
    assert bare.bound(topic) == (ErrorCode.NONE, 3)
    assert all(bare.has_records(topic, offset) for offset in range(3))


def test_readers_of_a_compacted_topic_see_all_unless_kafka_compacts_it(
    shared: Site, clients: Clients, native_client: native.Client
) -> None:
    topic = shared.topic()
    shared.of_topic(topic, "compactionThreshold", 100)
    partition = f"{topic}-partition-0"
    producer = native_client.create_producer(f"persistent://{shared.namespace}/{partition}")
    for number in range(5):
        producer.send(b"%d" % number, partition_key="k")
    producer.close()
    shared.of_topic(partition, "compaction", method="PUT")
    eventually(lambda: shared.of_topic(partition, "compaction", method="GET")["status"] == "SUCCESS")
    assert [record.offset for record in clients["confluent"].read(topic, {0: "beginning"})] == [0, 1, 2, 3, 4]


def test_consumers_get_delayed_messages_at_once(shared: Site, clients: Clients, native_client: native.Client) -> None:
    topic = shared.topic()
    producer = native_client.create_producer(f"persistent://{shared.namespace}/{topic}-partition-0")
    producer.send(b"late", deliver_after=timedelta(hours=1))
    producer.close()
    assert [record.value for record in clients["confluent"].read(topic, {0: "beginning"})] == [b"late"]


def test_a_throttled_topic_holds_up_itself_alone(shared: Site, clients: Clients) -> None:
    slow, free = shared.topic(), shared.topic()
    rate = {"dispatchThrottlingRateInMsg": 50, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}
    shared.of_topic(slow, "dispatchRate", {**rate, "relativeToPublishRate": False})
    for topic in (slow, free):
        for _ in range(10):
            shared.produce(topic, *[b"v"] * 20)
    assert len(clients["confluent"].read(free, {0: "beginning"})) == 200
    assert [one.offset for one in clients["confluent"].read(slow, {0: "beginning"})] == list(range(200))


def test_a_partition_that_was_removed_is_made_again(shared: Site) -> None:
    topic = shared.topic(2)
    shared.produce(topic)
    shared.admin("DELETE", f"persistent/{shared.namespace}/{topic}-partition-0?force=true")
    assert shared.produce(topic) == (ErrorCode.NONE, "0")
    assert shared.bound(topic) == (ErrorCode.NONE, 1)
