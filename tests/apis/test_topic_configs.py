"""Configs of topics and brokers, by real clients, down to the policies that Pulsar goes by."""

from collections.abc import Callable
from typing import Any

import aiokafka.admin
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from kafka import KafkaAdminClient

from bridge.apis import alter_configs, create_topics, describe_configs, incremental_alter_configs
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.topics.configs import COMPACTION_THRESHOLD, ConfigSource, Operation
from bridge.storage.topics.resources import ResourceType
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread
from tests.support.pulsar import PrivatePulsar, PulsarAddress


def make(bridge: BridgeThread, configs: dict[str, str | None] | None = None, **request: Any) -> Any:
    """A new topic's name and CreateTopics' answer."""
    topic = create_topics.RequestTopic(
        name=unique("configs"),
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[create_topics.RequestConfig(name=name, value=value) for name, value in (configs or {}).items()],
    )
    return topic.name, ask(bridge, create_topics.API, create_topics.Request(topics=[topic], **request)).topics[0]


def described(bridge: BridgeThread, topic: str, *names: str, kind: int = ResourceType.TOPIC) -> dict[str, Any]:
    resource = describe_configs.RequestResource(
        resource_type=kind, resource_name=topic, configuration_keys=list(names) or None
    )
    request = describe_configs.Request(resources=[resource], include_synonyms=True, include_documentation=True)
    result = ask(bridge, describe_configs.API, request).results[0]
    assert result.error_code == ErrorCode.NONE, result.error_message
    return {config.name: config for config in result.configs}


def values(bridge: BridgeThread, topic: str, *names: str) -> dict[str, str]:
    return {name: config.value for name, config in described(bridge, topic, *names).items()}


def alter(bridge: BridgeThread, topic: str, *changes: tuple[str, int, str | None], validate_only: bool = False) -> Any:
    configs = [
        incremental_alter_configs.Config(name=name, config_operation=operation, value=value)
        for name, operation, value in changes
    ]
    kind = ResourceType.TOPIC
    resource = incremental_alter_configs.Resource(resource_type=kind, resource_name=topic, configs=configs)
    request = incremental_alter_configs.Request(resources=[resource], validate_only=validate_only)
    return ask(bridge, incremental_alter_configs.API, request).responses[0]


def policy(bridge: BridgeThread, pulsar: PulsarAddress, topic: str, name: str) -> Any:
    return pulsar.admin("GET", f"persistent/{bridge.namespace}/{topic}/{name}")


def test_a_topic_made_with_configs_has_pulsar_s_policies(bridge: BridgeThread, pulsar: PulsarAddress) -> None:
    asked: dict[str, str | None] = {
        "retention.ms": "90000",
        "retention.bytes": "1",
        "cleanup.policy": "compact,delete",
        "segment.bytes": "52428800",
    }
    topic, answer = make(bridge, asked)
    assert answer.error_code == ErrorCode.NONE
    assert {config.name: config.value for config in answer.configs}.items() >= asked.items()
    assert values(bridge, topic).items() >= asked.items()
    retention = {"retentionTimeInMinutes": 2, "retentionSizeInMB": 1}
    assert policy(bridge, pulsar, topic, "retention") == retention
    assert policy(bridge, pulsar, topic, "compactionThreshold") == COMPACTION_THRESHOLD


def test_a_topic_without_configs_has_no_policies(bridge: BridgeThread, pulsar: PulsarAddress) -> None:
    topic, _ = make(bridge)
    assert policy(bridge, pulsar, topic, "retention") is None
    configs = described(bridge, topic)
    assert len(configs) > 10
    assert all(config.config_source == ConfigSource.DEFAULT for config in configs.values())
    assert configs["retention.ms"].value == "-1"  # the namespace's
    assert configs["segment.bytes"].value == str(2 << 30)  # managedLedgerMaxSizePerLedgerMbytes
    assert all(config.documentation for config in configs.values())


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_topic_is_not_made_with_configs_that_cannot_be_had(bridge: BridgeThread, validate_only: bool) -> None:
    topic, answer = make(bridge, {"retention.ms": "1000", "compression.type": "brotli"}, validate_only=validate_only)
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert "compression.type" in answer.error_message
    resource = describe_configs.RequestResource(
        resource_type=ResourceType.TOPIC, resource_name=topic, configuration_keys=None
    )
    result = ask(bridge, describe_configs.API, describe_configs.Request(resources=[resource])).results[0]
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_filter_and_synonyms(bridge: BridgeThread) -> None:
    topic, _ = make(bridge, {"retention.ms": "60000"})
    configs = described(bridge, topic, "retention.ms", "no.such.config")
    assert list(configs) == ["retention.ms"]
    assert [(one.name, one.value, one.source) for one in configs["retention.ms"].synonyms] == [
        ("retention.ms", "60000", ConfigSource.TOPIC),
        ("log.retention.ms", "-1", ConfigSource.DEFAULT),
    ]


def test_single_changes(bridge: BridgeThread, pulsar: PulsarAddress) -> None:
    topic, _ = make(bridge, {"retention.ms": "60000"})
    answer = alter(
        bridge, topic, ("cleanup.policy", Operation.APPEND, "compact"), ("max.message.bytes", Operation.SET, "2000")
    )
    assert answer.error_code == ErrorCode.NONE
    assert values(bridge, topic, "cleanup.policy", "max.message.bytes", "retention.ms") == {
        "cleanup.policy": "delete,compact",
        "max.message.bytes": "2000",
        "retention.ms": "60000",
    }
    assert policy(bridge, pulsar, topic, "compactionThreshold") == COMPACTION_THRESHOLD
    alter(bridge, topic, ("cleanup.policy", Operation.SUBTRACT, "delete"), ("retention.ms", Operation.DELETE, None))
    assert values(bridge, topic, "cleanup.policy") == {"cleanup.policy": "compact"}
    assert policy(bridge, pulsar, topic, "retention") == {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    alter(bridge, topic, ("cleanup.policy", Operation.DELETE, None))
    assert policy(bridge, pulsar, topic, "retention") is None
    assert policy(bridge, pulsar, topic, "compactionThreshold") is None


def test_trying_changes_nothing_and_neither_does_an_error(bridge: BridgeThread) -> None:
    topic, _ = make(bridge)
    before = values(bridge, topic)
    assert alter(bridge, topic, ("retention.ms", Operation.SET, "1"), validate_only=True).error_code == ErrorCode.NONE
    answer = alter(bridge, topic, ("retention.ms", Operation.SET, "1"), ("preallocate", Operation.SET, "maybe"))
    assert (answer.error_code, "preallocate" in answer.error_message) == (ErrorCode.INVALID_CONFIG, True)
    twice = alter(bridge, topic, ("retention.ms", Operation.SET, "1"), ("retention.ms", Operation.SET, "2"))
    assert twice.error_code == ErrorCode.INVALID_REQUEST
    assert values(bridge, topic) == before


def test_all_at_once_replaces_what_is_not_named(bridge: BridgeThread, pulsar: PulsarAddress) -> None:
    topic, _ = make(bridge, {"retention.ms": "60000", "segment.ms": "5"})
    config = alter_configs.Config(name="segment.ms", value="6")
    resource = alter_configs.Resource(resource_type=ResourceType.TOPIC, resource_name=topic, configs=[config])
    for validate_only, segment_ms in ((True, "5"), (False, "6")):
        request = alter_configs.Request(resources=[resource], validate_only=validate_only)
        assert ask(bridge, alter_configs.API, request).responses[0].error_code == ErrorCode.NONE
        assert values(bridge, topic, "segment.ms") == {"segment.ms": segment_ms}
    assert values(bridge, topic, "retention.ms") == {"retention.ms": "-1"}
    assert policy(bridge, pulsar, topic, "retention") is None


def test_what_pulsar_s_operator_sets_is_shown(bridge: BridgeThread, pulsar: PulsarAddress) -> None:
    topic, _ = make(bridge, {"retention.ms": "60000"})
    path = f"persistent/{bridge.namespace}/{topic}/retention"
    pulsar.admin("POST", path, {"retentionTimeInMinutes": 5, "retentionSizeInMB": 3})
    shown = values(bridge, topic, "retention.ms", "retention.bytes")
    assert shown == {"retention.ms": "300000", "retention.bytes": str(3 << 20)}


def test_another_bridge_shows_the_same(
    bridge_with: Callable[..., BridgeThread],
) -> None:
    first = bridge_with()
    topic, _ = make(first, {"retention.ms": "1234567", "max.message.bytes": "3000"})
    assert values(bridge_with(), topic) == values(first, topic)


def test_max_message_bytes_holds_at_once(bridge: BridgeThread) -> None:
    topic, _ = make(bridge)
    producer = Producer({"bootstrap.servers": bridge.kafka, "linger.ms": 0})

    def send(size: int) -> KafkaError | None:
        failed: list[KafkaError | None] = []
        producer.produce(topic, bytes(size), on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(30) == 0
        return failed[0]

    assert send(2000) is None
    alter(bridge, topic, ("max.message.bytes", Operation.SET, "1000"))
    error = send(2000)
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert send(500) is None


@pytest.mark.parametrize("entry_format", ["pulsar", "kafka"])
def test_how_far_timestamps_may_be_from_the_present_holds_at_once(bridge: BridgeThread, entry_format: str) -> None:
    before, after = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
    topic, _ = make(bridge, {"entry.format": entry_format})
    producer = Producer({"bootstrap.servers": bridge.kafka, "linger.ms": 0})
    past, future = 1_000_000_000_000, 9_000_000_000_000

    def send(timestamp: int) -> int:
        failed: list[KafkaError | None] = []
        done = lambda error, _: failed.append(error)  # noqa: E731
        producer.produce(topic, b"value", timestamp=timestamp, on_delivery=done)
        assert producer.flush(30) == 0
        return 0 if failed[0] is None else failed[0].code()

    assert (send(past), send(future)) == (0, ErrorCode.INVALID_TIMESTAMP)
    alter(bridge, topic, (before, Operation.SET, "3600000"), (after, Operation.SET, str(2**63 - 1)))
    assert values(bridge, topic, before, after) == {before: "3600000", after: str(2**63 - 1)}
    assert (send(past), send(future)) == (ErrorCode.INVALID_TIMESTAMP, 0)
    alter(bridge, topic, (before, Operation.DELETE, None), (after, Operation.DELETE, None))
    assert values(bridge, topic, before, after) == {before: str(2**63 - 1), after: "3600000"}
    assert (send(past), send(future)) == (0, ErrorCode.INVALID_TIMESTAMP)


def test_records_of_compacted_topics_have_keys(bridge: BridgeThread) -> None:
    topic, _ = make(bridge, {"cleanup.policy": "compact"})
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
    topic, answer = make(bridge, {"retention.ms": "60000"})
    assert (answer.error_code, "topicLevelPoliciesEnabled" in answer.error_message) == (ErrorCode.INVALID_CONFIG, True)
    topic, answer = make(bridge, {"segment.bytes": "1000000", "max.message.bytes": "1000"})
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


def test_a_broker_tells_its_own_settings_and_takes_none(bridge: BridgeThread) -> None:
    node = str(bridge.settings.kafka.node_id)
    configs = described(bridge, node, kind=ResourceType.BROKER)
    assert len(configs) > 10
    assert all(config.read_only for config in configs.values())
    assert configs["num.partitions"].value == str(bridge.settings.kafka.default_partitions)
    assert configs["log.retention.ms"].value == "-1"
    assert described(bridge, "", kind=ResourceType.BROKER) == {}
    for kind, name, code in (
        (ResourceType.BROKER, "77", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "77", ErrorCode.INVALID_REQUEST),
        (ResourceType.TOPIC, "no-such-topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.TOPIC, "no/topic", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ):
        resource = describe_configs.RequestResource(resource_type=kind, resource_name=name, configuration_keys=None)
        result = ask(bridge, describe_configs.API, describe_configs.Request(resources=[resource])).results[0]
        assert result.error_code == code, name
    admin = AdminClient({"bootstrap.servers": bridge.kafka})
    entry = ConfigEntry("num.partitions", "3", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, node, incremental_configs=[entry])
    with pytest.raises(KafkaException, match=r"Cannot update these configs dynamically: Set\(num.partitions\)"):
        next(iter(admin.incremental_alter_configs([resource]).values())).result(30)


def test_confluent_kafka(bridge: BridgeThread) -> None:
    admin, topic = AdminClient({"bootstrap.servers": bridge.kafka}), unique("configs")
    admin.create_topics([NewTopic(topic, 1, config={"retention.ms": "61000"})])[topic].result(30)
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    wanted = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    next(iter(admin.incremental_alter_configs([wanted]).values())).result(30)
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = next(iter(admin.describe_configs([asked]).values())).result(30)
    assert (found["retention.ms"].value, found["cleanup.policy"].value) == ("61000", "delete,compact")
    assert found["min.insync.replicas"].is_read_only


def test_kafka_python(bridge: BridgeThread) -> None:
    from kafka.admin import ConfigResource as Resource
    from kafka.admin import ConfigResourceType

    topic, _ = make(bridge)
    admin = KafkaAdminClient(bootstrap_servers=bridge.kafka)
    try:
        admin.alter_configs([Resource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "62000"})])
        admin.describe_configs([Resource(ConfigResourceType.TOPIC, topic)])
    finally:
        admin.close()
    assert values(bridge, topic, "retention.ms") == {"retention.ms": "62000"}


async def test_aiokafka(bridge: BridgeThread) -> None:
    from aiokafka.admin.config_resource import ConfigResource as Resource
    from aiokafka.admin.config_resource import ConfigResourceType

    topic, _ = make(bridge)
    admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bridge.kafka)
    await admin.start()
    try:
        await admin.alter_configs([Resource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "63000"})])
        found = await admin.describe_configs([Resource(ConfigResourceType.TOPIC, topic)])
    finally:
        await admin.close()
    shown = {entry[0]: entry[1] for entry in found[0].resources[0][4]}
    assert shown["retention.ms"] == "63000"
