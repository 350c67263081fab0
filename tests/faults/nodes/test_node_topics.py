"""Topics and groups are created, grown and deleted through any node while clients of others write, read and list."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.faults.nodes.answers import cluster_at, latest_at
from tests.faults.nodes.load import nodes_load
from tests.faults.topics import WAIT, consumer, create, produce, value_of, wait_for
from tests.support.nodes import Nodes

GROWN = 4


def listed_by_all(nodes: Nodes, topic: str, partitions: int) -> bool:
    """Whether each node tells of so many partitions of a topic, all with leaders; 0: of no such topic."""
    for node in nodes.all:
        told = cluster_at(node.kafka, [topic])
        led = [leader for (name, _), (leader, _) in told.leaders.items() if name == topic and leader >= 0]
        if len(led) != partitions or (topic in told.listed) != bool(partitions):
            return False
    return True


def read_from_start(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """The first records of partition 0."""
    reader = consumer(bootstrap, "earliest")
    try:
        reader.assign([TopicPartition(topic, 0, 0)])
        return [value_of(message) for message in reader.consume(count, WAIT)]
    finally:
        reader.close()


def one_life(nodes: Nodes, topic: str, life: int) -> None:
    """A topic is created, written, read, grown and deleted, each through a random node."""
    create(nodes.any().kafka, topic, 2)
    wait_for(partial(listed_by_all, nodes, topic, 2), f"{topic} is not listed by all")
    values = [b"%d/%d" % (life, number) for number in range(20)]
    assert produce(nodes.any().kafka, topic, values) == list(range(20)), "a record of an earlier life"
    assert read_from_start(nodes.any().kafka, topic, 20) == values
    growing = AdminClient({"bootstrap.servers": nodes.any().kafka})
    growing.create_partitions([NewPartitions(topic, GROWN)])[topic].result(WAIT)
    wait_for(partial(listed_by_all, nodes, topic, GROWN), f"{topic} is not grown at all nodes")
    write_to_last(nodes, topic)
    deleting = AdminClient({"bootstrap.servers": nodes.any().kafka})
    deleting.delete_topics([topic])[topic].result(WAIT)
    wait_for(partial(listed_by_all, nodes, topic, 0), f"{topic} is still listed")
    assert not any(latest_at(node.kafka, topic, 1) for node in nodes.all), "a deleted topic has an end"


def write_to_last(nodes: Nodes, topic: str) -> None:
    """Write to the newest partition, through a client that bootstraps at a random node."""
    producer = Producer({"bootstrap.servers": nodes.any().kafka, "enable.idempotence": True, "log_level": 0})
    errors: list[object] = []
    producer.produce(topic, b"new", partition=GROWN - 1, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT) == 0
    assert errors == [None]


def lives(nodes: Nodes, topic: str, count: int) -> None:
    """The same name again and again."""
    for life in range(count):
        one_life(nodes, topic, life)


def groups_come_and_go(nodes: Nodes, topic: str, count: int) -> None:
    """Groups commit through one node, are listed by another, and are deleted through a third."""
    for number in range(count):
        group = f"{topic}-group-{number}"
        member = consumer(nodes.any().kafka, "earliest", group=group)
        try:
            member.subscribe([topic])
            assert member.consume(1, WAIT), f"{group} reads nothing"
            committed = member.commit(asynchronous=False)
            assert committed and committed[0].error is None
        finally:
            member.close()
        asking = AdminClient({"bootstrap.servers": nodes.any().kafka})
        listing = asking.list_consumer_groups(request_timeout=WAIT).result()
        assert not listing.errors, listing.errors
        assert group in {one.group_id for one in listing.valid}
        deleting = AdminClient({"bootstrap.servers": nodes.any().kafka})
        deleting.delete_consumer_groups([group], request_timeout=WAIT)[group].result(WAIT)
        wait_for(partial(_is_gone, nodes, group), f"{group} is still listed")


def _is_gone(nodes: Nodes, group: str) -> bool:
    asking = AdminClient({"bootstrap.servers": nodes.any().kafka})
    return group not in {one.group_id for one in asking.list_consumer_groups(request_timeout=WAIT).result().valid}


def at_once(*works: Callable[[], None]) -> None:
    """Do several things at a time; what one of them raises is raised here."""
    raised: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - raised below
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


@pytest.mark.soak
def test_topics_and_groups_come_and_go_through_any_node(start_nodes: Callable[..., Nodes], topic: str) -> None:
    nodes = start_nodes(3)
    with nodes_load(nodes, topic) as running:
        at_once(
            partial(lives, nodes, f"{topic}-a", 2),
            partial(lives, nodes, f"{topic}-b", 2),
            partial(groups_come_and_go, nodes, topic, 2),
        )
        running.judged(pauses_only=True)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_many_topics_and_groups_come_and_go(start_nodes: Callable[..., Nodes], topic: str) -> None:
    nodes = start_nodes(3)
    with nodes_load(nodes, topic) as running:
        at_once(
            *(partial(lives, nodes, f"{topic}-{name}", 20) for name in "abcd"),
            partial(groups_come_and_go, nodes, topic, 20),
        )
        running.judged(pauses_only=True)


@pytest.mark.soak
def test_a_topic_is_created_by_two_nodes_at_once(start_nodes: Callable[..., Nodes], topic: str) -> None:
    nodes = start_nodes(3)
    outcomes: list[str] = []

    def create_one(address: str) -> None:
        admin = AdminClient({"bootstrap.servers": address})
        try:
            admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(WAIT)
            outcomes.append("created")
        except KafkaException as error:
            outcomes.append(str(error.args[0].name()))

    at_once(*(partial(create_one, node.kafka) for node in nodes.all))
    assert outcomes.count("created") >= 1, outcomes
    assert set(outcomes) <= {"created", "TOPIC_ALREADY_EXISTS"}, outcomes
    wait_for(partial(listed_by_all, nodes, topic, 3), "the topic is not listed by all")
