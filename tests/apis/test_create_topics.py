"""CreateTopics: topics with configs, which become policies in Pulsar."""

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from bridge.apis import (
    describe_configs,
)
from bridge.errors import KafkaError as Refusal
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.topics.configs import COMPACTION_THRESHOLD, Operation
from bridge.storage.topics.resources import ResourceType
from tests.apis.configs import alter, create, policy, values
from tests.apis.wire import ask
from tests.support.bridges import BridgeThread
from tests.support.pulsar import PrivatePulsar, PulsarAddress


def test_a_topic_created_with_configs_has_pulsar_s_policies(bridge: BridgeThread, pulsar: PulsarAddress) -> None:
    asked: dict[str, str | None] = {
        "retention.ms": "90000",
        "retention.bytes": "1",
        "cleanup.policy": "compact,delete",
        "segment.bytes": "52428800",
    }
    topic, answer = create(bridge, asked)
    assert answer.error_code == ErrorCode.NONE
    assert {config.name: config.value for config in answer.configs}.items() >= asked.items()
    assert values(bridge, topic).items() >= asked.items()
    retention = {"retentionTimeInMinutes": 2, "retentionSizeInMB": 1}
    assert policy(bridge, pulsar, topic, "retention") == retention
    assert policy(bridge, pulsar, topic, "compactionThreshold") == COMPACTION_THRESHOLD


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_topic_is_not_created_with_unsupported_configs(bridge: BridgeThread, validate_only: bool) -> None:
    topic, answer = create(bridge, {"retention.ms": "1000", "compression.type": "brotli"}, validate_only=validate_only)
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert "compression.type" in answer.error_message
    resource = describe_configs.RequestResource(
        resource_type=ResourceType.TOPIC, resource_name=topic, configuration_keys=None
    )
    result = ask(bridge, describe_configs.API, describe_configs.Request(resources=[resource])).results[0]
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_records_of_compacted_topics_have_keys(bridge: BridgeThread) -> None:
    topic, _ = create(bridge, {"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": bridge.kafka, "linger.ms": 0})
    failed: list[KafkaError | None] = []
    for key in (b"key", None, b""):
        producer.produce(topic, b"value", key, on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(30) == 0
    assert [error and error.code() for error in failed] == [None, KafkaError.INVALID_RECORD, None]


def test_without_topic_policies_configs_are_refused_with_the_reason(
    private_pulsar: Callable[..., PrivatePulsar], bridge_with: Callable[..., BridgeThread]
) -> None:
    pulsar = private_pulsar({"topicLevelPoliciesEnabled": "false"})
    bridge = bridge_with(pulsar, pulsar.create_namespace())
    topic, answer = create(bridge, {"retention.ms": "60000"})
    assert (answer.error_code, "topicLevelPoliciesEnabled" in answer.error_message) == (ErrorCode.INVALID_CONFIG, True)
    topic, answer = create(bridge, {"segment.bytes": "1000000", "max.message.bytes": "1000"})
    assert answer.error_code == ErrorCode.NONE  # these need none
    assert values(bridge, topic, "segment.bytes", "retention.ms") == {"segment.bytes": "1000000", "retention.ms": "-1"}
    refused = alter(
        bridge, topic, ("retention.ms", Operation.SET, "60000"), ("max.message.bytes", Operation.SET, "2000")
    )
    assert (refused.error_code, "topicLevelPoliciesEnabled" in refused.error_message) == (
        ErrorCode.INVALID_CONFIG,
        True,
    )
    unchanged = {"retention.ms": "-1", "max.message.bytes": "1000"}
    assert values(bridge, topic, *unchanged) == unchanged


def test_a_topic_whose_policies_fail_stays_with_what_others_have_written_meanwhile(
    bridge: BridgeThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other clients find it as soon as Pulsar has it, and what they were acknowledged is theirs."""
    written: list[str] = []

    def write(topic: str) -> None:
        producer = Producer({"bootstrap.servers": bridge.kafka})
        producer.produce(topic, b"value")
        assert producer.flush(30) == 0
        written.append(topic)

    async def fails(name: str, *_: object) -> None:
        await asyncio.to_thread(write, name)
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR)

    monkeypatch.setattr(bridge.server.topics.administration, "set_policies", fails)
    topic, answer = create(bridge, {"retention.ms": "90000"})
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert written == [topic]
    consumer = Consumer({"bootstrap.servers": bridge.kafka, "group.id": "unused", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == b"value"
    finally:
        consumer.close()
