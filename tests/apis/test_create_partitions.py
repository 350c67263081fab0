"""CreatePartitions: new partitions can be used when the answer comes, and present clients find them."""

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from bridge.apis import create_partitions
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread
from tests.support.pulsar import PulsarAddress


def make(bridge: BridgeThread, partitions: int = 1) -> str:
    topic = unique("grow")
    admin = AdminClient({"bootstrap.servers": bridge.kafka})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(30)
    return topic


def grow(
    bridge: BridgeThread,
    topic: str,
    count: int,
    assignments: list[list[int]] | None = None,
    *,
    validate_only: bool = False,
    times: int = 1,
) -> int:
    """The error code."""
    brokers = None
    if assignments is not None:
        brokers = [create_partitions.Assignment(broker_ids=ids) for ids in assignments]
    wanted = create_partitions.RequestTopic(name=topic, count=count, assignments=brokers)
    request = create_partitions.Request(topics=[wanted] * times, timeout_ms=30_000, validate_only=validate_only)
    answer = ask(bridge, create_partitions.API, request).results[0]
    # as in Kafka, an unknown topic has no text
    unknown = answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert bool(answer.error_message) == (bool(answer.error_code) and not unknown)
    return int(answer.error_code)


def count_of(bridge: BridgeThread, topic: str) -> int:
    metadata = AdminClient({"bootstrap.servers": bridge.kafka}).list_topics(topic, 30)
    return len(metadata.topics[topic].partitions)


def test_new_partitions_can_be_used_at_once(bridge: BridgeThread) -> None:
    topic = make(bridge)
    settings = {"bootstrap.servers": bridge.kafka, "topic.metadata.refresh.interval.ms": 200}
    producer = Producer(settings)
    producer.produce(topic, b"old", partition=0)
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": bridge.kafka})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    assert count_of(bridge, topic) == 3
    late = Producer(settings)
    late.produce(topic, b"new", partition=2)
    assert late.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bridge.kafka, "group.id": "none"})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
        found = {(message.partition(), message.value()) for message in consumer.consume(2, 30)}
    finally:
        consumer.close()
    assert found == {(0, b"old"), (2, b"new")}


def test_wrong_numbers_are_refused(bridge: BridgeThread) -> None:
    topic = make(bridge, 3)
    assert grow(bridge, topic, 3) == ErrorCode.INVALID_PARTITIONS
    assert grow(bridge, topic, 2) == ErrorCode.INVALID_PARTITIONS
    assert grow(bridge, topic, -1) == ErrorCode.INVALID_PARTITIONS
    assert grow(bridge, "no-such-topic", 2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert grow(bridge, topic, 4, times=2) == ErrorCode.INVALID_REQUEST
    assert count_of(bridge, topic) == 3


def test_assignments_must_fit(bridge: BridgeThread) -> None:
    topic, node = make(bridge), bridge.node_id
    assert grow(bridge, topic, 3, [[node]]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(bridge, topic, 3, []) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(bridge, topic, 2, [[node + 1]]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(bridge, topic, 2, [[]]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(bridge, topic, 2, [[node]]) == ErrorCode.NONE
    assert count_of(bridge, topic) == 2


def test_validate_only_creates_nothing(bridge: BridgeThread) -> None:
    topic = make(bridge)
    assert grow(bridge, topic, 2, validate_only=True) == ErrorCode.NONE
    assert grow(bridge, topic, 1, validate_only=True) == ErrorCode.INVALID_PARTITIONS
    assert count_of(bridge, topic) == 1


def test_a_topic_without_partitions_gets_none(bridge: BridgeThread, pulsar: PulsarAddress) -> None:
    topic = unique("grow")
    pulsar.admin("PUT", f"persistent/{bridge.namespace}/{topic}")
    assert grow(bridge, topic, 2) == ErrorCode.INVALID_PARTITIONS
    assert count_of(bridge, topic) == 1
