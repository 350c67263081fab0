"""IncrementalAlterConfigs: single configs are changed, and apply at once."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from bridge.kafka.error_codes import ErrorCode
from bridge.storage.topics.configs import COMPACTION_THRESHOLD, Operation
from bridge.storage.topics.resources import ResourceType
from tests.apis.configs import alter, create, policy, values
from tests.apis.wire import unique
from tests.support.bridges import BridgeThread
from tests.support.java import run_tool
from tests.support.pulsar import PulsarAddress

CONFIGS = "kafka.admin.ConfigCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"


def test_single_changes(bridge: BridgeThread, pulsar: PulsarAddress) -> None:
    topic, _ = create(bridge, {"retention.ms": "60000"})
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


def test_validate_only_and_errors_change_nothing(bridge: BridgeThread) -> None:
    topic, _ = create(bridge)
    before = values(bridge, topic)
    assert alter(bridge, topic, ("retention.ms", Operation.SET, "1"), validate_only=True).error_code == ErrorCode.NONE
    answer = alter(bridge, topic, ("retention.ms", Operation.SET, "1"), ("preallocate", Operation.SET, "maybe"))
    assert (answer.error_code, "preallocate" in answer.error_message) == (ErrorCode.INVALID_CONFIG, True)
    twice = alter(bridge, topic, ("retention.ms", Operation.SET, "1"), ("retention.ms", Operation.SET, "2"))
    assert twice.error_code == ErrorCode.INVALID_REQUEST
    assert values(bridge, topic) == before


def test_max_message_bytes_holds_at_once(bridge: BridgeThread) -> None:
    topic, _ = create(bridge)
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
    topic, _ = create(bridge, {"entry.format": entry_format})
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


def test_confluent_kafka(bridge: BridgeThread) -> None:
    admin, topic = AdminClient({"bootstrap.servers": bridge.kafka}), unique("configs")
    admin.create_topics([NewTopic(topic, 1, config={"retention.ms": "61000"})])[topic].result(30)
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    wanted = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    next(iter(admin.incremental_alter_configs([wanted]).values())).result(30)
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = next(iter(admin.describe_configs([asked]).values())).result(30)
    assert (found["retention.ms"].value, found["cleanup.policy"].value) == ("61000", "delete,compact")
    assert not found["min.insync.replicas"].is_read_only


def test_a_groups_configs_hold_for_it_at_once_and_go_with_what_deletes_them(bridge: BridgeThread) -> None:
    group, other, name = unique("group"), unique("group"), "consumer.session.timeout.ms"
    before = values(bridge, group, name, resource_type=ResourceType.GROUP)

    def changed(*changes: tuple[str, int, str | None], validate_only: bool = False) -> Any:
        return alter(bridge, group, *changes, resource_type=ResourceType.GROUP, validate_only=validate_only)

    assert changed((name, Operation.SET, "46000"), validate_only=True).error_code == ErrorCode.NONE
    assert values(bridge, group, name, resource_type=ResourceType.GROUP) == before
    lock = "share.record.lock.duration.ms"
    assert changed((name, Operation.SET, "46000"), (lock, Operation.SET, "20000")).error_code == ErrorCode.NONE
    shown = values(bridge, group, name, lock, resource_type=ResourceType.GROUP)
    assert shown == {name: "46000", lock: "20000"}
    assert values(bridge, other, name, resource_type=ResourceType.GROUP) == before
    refused = changed((name, Operation.SET, "1"), (lock, Operation.DELETE, None))
    assert (refused.error_code, name in refused.error_message) == (ErrorCode.INVALID_CONFIG, True)
    assert changed((lock, Operation.APPEND, "1")).error_code == ErrorCode.INVALID_CONFIG
    assert values(bridge, group, name, lock, resource_type=ResourceType.GROUP) == shown
    assert changed((name, Operation.DELETE, None)).error_code == ErrorCode.NONE
    assert values(bridge, group, name, resource_type=ResourceType.GROUP) == before


def test_kafka_configs_changes_a_groups_configs(bridge: BridgeThread) -> None:
    entity = ("--entity-type", "groups", "--entity-name", unique("group"))
    tool(bridge, CONFIGS, "--alter", *entity, "--add-config", "share.auto.offset.reset=earliest")
    shown = "\n".join(tool(bridge, CONFIGS, "--describe", *entity))
    assert "share.auto.offset.reset=earliest" in shown
    assert "GROUP_CONFIG:share.auto.offset.reset=earliest" in shown
    assert entity[-1] in "\n".join(tool(bridge, CONFIGS, "--describe", *entity[:2]))  # of all groups
    every = "\n".join(tool(bridge, CONFIGS, "--describe", "--all", *entity))
    assert "share.record.lock.duration.ms=30000" in every and "streams.num.standby.replicas=0" in every
    with pytest.raises(AssertionError, match=r"share\.record\.lock\.duration\.ms"):
        tool(bridge, CONFIGS, "--alter", *entity, "--add-config", "share.record.lock.duration.ms=1")
    tool(bridge, CONFIGS, "--alter", *entity, "--delete-config", "share.auto.offset.reset")
    assert "earliest" not in "\n".join(tool(bridge, CONFIGS, "--describe", *entity))


def test_a_broker_config_that_is_not_set_can_be_deleted(bridge: BridgeThread) -> None:
    # kafka-reassign-partitions --verify does so with its throttles
    node, throttle = str(bridge.node_id), "leader.replication.throttled.rate"
    assert (
        alter(bridge, node, (throttle, Operation.DELETE, None), resource_type=ResourceType.BROKER).error_code
        == ErrorCode.NONE
    )
    refused = alter(bridge, node, (throttle, Operation.SET, "1"), resource_type=ResourceType.BROKER)
    assert refused.error_code == ErrorCode.INVALID_REQUEST


def tool(bridge: BridgeThread, name: str, *arguments: str) -> list[str]:
    return run_tool(name, "--bootstrap-server", bridge.kafka, *arguments).splitlines()


def test_kafka_configs(bridge: BridgeThread) -> None:
    topic = unique("tool")
    tool(bridge, TOPICS, "--create", "--topic", topic, "--partitions", "1")
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tool(bridge, CONFIGS, "--alter", *entity, "--add-config", "cleanup.policy=[compact,delete],retention.ms=1")
    shown = tool(bridge, CONFIGS, "--describe", *entity)
    assert [line.split()[0] for line in shown[1:]] == ["cleanup.policy=compact,delete", "retention.ms=1"]
    tool(bridge, CONFIGS, "--alter", *entity, "--delete-config", "cleanup.policy,retention.ms")
    assert tool(bridge, CONFIGS, "--describe", *entity)[1:] == []
    brokers = tool(bridge, CONFIGS, "--describe", "--all", "--entity-type", "brokers", "--entity-name", "0")
    assert any(line.strip().startswith("num.partitions=1 ") for line in brokers)
    with pytest.raises(AssertionError, match=r"message\.timestamp\.type is CreateTime here and cannot be"):
        tool(bridge, CONFIGS, "--alter", *entity, "--add-config", "message.timestamp.type=LogAppendTime")
