"""What administrators see with Kafka's own tools, and the small APIs behind them."""

import json

import pytest
from confluent_kafka import Producer

from bridge.apis import describe_acls, describe_log_dirs, list_partition_reassignments, offset_for_leader_epoch
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread
from tests.support.java import run_tool
from tests.support.pulsar import PulsarAddress

CONFIGS = "kafka.admin.ConfigCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"


def tool(bridge: BridgeThread, name: str, *arguments: str) -> list[str]:
    return run_tool(name, "--bootstrap-server", bridge.kafka, *arguments).splitlines()


def write(bridge: BridgeThread, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bridge.kafka})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(30) == 0


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


def test_kafka_log_dirs(bridge: BridgeThread, pulsar: PulsarAddress) -> None:
    topic, plain = unique("tool"), unique("tool")
    tool(bridge, TOPICS, "--create", "--topic", topic, "--partitions", "2")
    write(bridge, topic, 10)
    pulsar.admin("PUT", f"persistent/{bridge.namespace}/{plain}")
    write(bridge, plain, 10)
    told = json.loads(tool(bridge, LOG_DIRS, "--describe", "--topic-list", f"{topic},{plain},no-such-topic")[-1])
    (directory,) = told["brokers"][0]["logDirs"]
    sizes = {one["partition"]: one["size"] for one in directory["partitions"]}
    assert directory["logDir"] == f"persistent://{bridge.namespace}"
    assert sizes.keys() == {f"{topic}-0", f"{topic}-1", f"{plain}-0"}
    stats = pulsar.admin("GET", f"persistent/{bridge.namespace}/{topic}-partition-0/internalStats")
    assert isinstance(stats, dict)
    assert sizes[f"{topic}-0"] == stats["totalSize"] > 0
    assert sizes[f"{topic}-1"] == 0
    assert sizes[f"{plain}-0"] > 0


def test_all_log_dirs(bridge: BridgeThread) -> None:
    topic = unique("tool")
    tool(bridge, TOPICS, "--create", "--topic", topic, "--partitions", "1")
    answer = ask(bridge, describe_log_dirs.API, describe_log_dirs.Request(topics=None))
    assert answer.error_code == ErrorCode.NONE
    assert topic in {found.name for found in answer.results[0].topics}


def test_the_only_epoch_ends_where_the_log_does(bridge: BridgeThread) -> None:
    topic = unique("tool")
    tool(bridge, TOPICS, "--create", "--topic", topic, "--partitions", "1")
    write(bridge, topic, 5)

    def end(epoch: int, current: int = -1, partition: int = 0) -> tuple[int, int, int]:
        wanted = offset_for_leader_epoch.RequestPartition(
            partition=partition, current_leader_epoch=current, leader_epoch=epoch
        )
        request = offset_for_leader_epoch.Request(
            topics=[offset_for_leader_epoch.RequestTopic(topic=topic, partitions=[wanted])]
        )
        found = ask(bridge, offset_for_leader_epoch.API, request).topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    assert end(0) == (ErrorCode.NONE, 0, 5)
    assert end(0, current=0) == (ErrorCode.NONE, 0, 5)
    assert end(1) == end(-1) == (ErrorCode.NONE, -1, -1)
    assert end(0, current=1) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert end(0, partition=1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


def test_nothing_moves_and_nothing_is_forbidden(bridge: BridgeThread) -> None:
    moving = ask(bridge, list_partition_reassignments.API, list_partition_reassignments.Request())
    assert (moving.error_code, moving.topics) == (ErrorCode.NONE, [])
    acls = describe_acls.Request(
        resource_type_filter=1,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    assert ask(bridge, describe_acls.API, acls).error_code == ErrorCode.SECURITY_DISABLED
