"""DescribeLogDirs: the stored bytes of each partition, as Pulsar counts them."""

import json

from confluent_kafka import Producer

from bridge.apis import describe_log_dirs
from bridge.cluster import Cluster
from bridge.cluster.membership.effects import Serving
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask, unique
from tests.schedules.views import first_view, node
from tests.support.bridges import BridgeThread
from tests.support.java import run_tool
from tests.support.pulsar import PulsarAddress

LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"


def tool(bridge: BridgeThread, name: str, *arguments: str) -> list[str]:
    return run_tool(name, "--bootstrap-server", bridge.kafka, *arguments).splitlines()


def write(bridge: BridgeThread, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bridge.kafka})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(30) == 0


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


def test_a_node_lists_what_it_leads() -> None:
    def listed(node_id: int) -> dict[str, list[int]]:
        cluster = Cluster("c")
        cluster.update(first_view((node(3), node(5)), lambda slot: (3, 5)[slot % 2]), node_id, Serving.SERVE)
        partitions = [describe_log_dirs.Partition(partition_index=index, partition_size=1) for index in range(4)]
        topics = [
            describe_log_dirs.Topic(name="of-both", partitions=partitions),
            describe_log_dirs.Topic(name="of-one", partitions=partitions[:1]),
        ]
        found = describe_log_dirs.led(topics, cluster)
        return {topic.name: [one.partition_index for one in topic.partitions] for topic in found}

    one, two = listed(3), listed(5)
    assert sorted(one["of-both"] + two["of-both"]) == [0, 1, 2, 3]
    assert len(one["of-both"]) == 2
    assert one.get("of-one", []) + two.get("of-one", []) == [0]
