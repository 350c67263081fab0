"""Real clients on three nodes behind one address: they see one broker, and it does not matter which node they reach."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from bridge.node.orphans import Guard
from tests.faults.checker import Load, usual_writers
from tests.faults.nodes.writers import AioKafkaWriter, JavaWriter
from tests.support.one_address import OneAddress
from tests.support.pulsar import PulsarAddress

PARTITIONS = 4
RECORDS = 200


@pytest.fixture
def admin(one_address: OneAddress) -> AdminClient:
    return AdminClient({"bootstrap.servers": one_address.kafka})


@pytest.fixture
def topic(one_address: OneAddress, admin: AdminClient) -> str:
    """A topic with records in all partitions."""
    name = f"t-{secrets.token_hex(3)}"
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    producer = Producer({"bootstrap.servers": one_address.kafka, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(name, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    return name


def _read_as_group(one_address: OneAddress, group: str, topic: str, protocol: str) -> None:
    """A whole life of a group: join, read, commit, leave; through a connection that is cut in the middle."""
    consumer = Consumer(
        {
            "bootstrap.servers": one_address.kafka, "group.id": group, "auto.offset.reset": "earliest",
            "group.protocol": protocol,
        }
    )  # fmt: skip
    try:
        consumer.subscribe([topic])
        seen: set[bytes] = set()
        while len(seen) < RECORDS:
            message = consumer.poll(30)
            assert message is not None, f"{len(seen)} records"
            if message.error() is None:
                seen.add(message.value() or b"")
                if len(seen) == RECORDS // 2:
                    one_address.balancer.cut()
        consumer.commit(asynchronous=False)
        found = consumer.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], timeout=30)
        assert [one.offset for one in found] == [RECORDS // PARTITIONS] * PARTITIONS
    finally:
        consumer.close()


def test_clients_see_one_broker(one_address: OneAddress, admin: AdminClient, topic: str) -> None:
    told = admin.list_topics(timeout=30)
    assert [(one.id, f"{one.host}:{one.port}") for one in told.brokers.values()] == [(0, one_address.kafka)]
    assert {part.leader for part in told.topics[topic].partitions.values()} == {0}
    described = admin.describe_cluster().result(30)
    assert [node.id for node in described.nodes] == [0]
    assert described.controller.id == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_live_wherever_their_members_connect(one_address: OneAddress, topic: str, protocol: str) -> None:
    for _ in range(3):
        _read_as_group(one_address, f"g-{secrets.token_hex(3)}", topic, protocol)


def test_groups_of_several_nodes_are_listed_described_and_deleted(
    one_address: OneAddress, admin: AdminClient, topic: str
) -> None:
    groups = [f"many-{secrets.token_hex(3)}" for _ in range(8)]
    for group in groups:
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 7)])
        admin.alter_consumer_group_offsets([wanted])[group].result(30)
    listed = admin.list_consumer_groups().result(30)
    assert not listed.errors
    assert {one.group_id for one in listed.valid} >= set(groups)
    described = {name: future.result(30) for name, future in admin.describe_consumer_groups(groups).items()}
    assert {one.coordinator.id for one in described.values()} == {0}
    for group in groups:
        found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
        assert [(one.topic, one.partition, one.offset) for one in found.topic_partitions] == [(topic, 0, 7)]
    for future in admin.delete_consumer_groups(groups).values():
        future.result(30)
    assert not {one.group_id for one in admin.list_consumer_groups().result(30).valid} & set(groups)


def test_deleted_records_are_gone_at_every_node(one_address: OneAddress, admin: AdminClient, topic: str) -> None:
    wanted = [TopicPartition(topic, index, 10 + index) for index in range(PARTITIONS)]
    for one, future in admin.delete_records(wanted).items():
        assert future.result(30).low_watermark == one.offset


async def test_other_clients_groups(one_address: OneAddress, topic: str) -> None:
    options: dict[str, Any] = {"bootstrap_servers": one_address.kafka, "auto_offset_reset": "earliest"}
    reader = KafkaConsumer(topic, group_id=f"k-{topic}", consumer_timeout_ms=30_000, **options)
    try:
        assert len({next(reader).value for _ in range(RECORDS)}) == RECORDS
        reader.commit()
    finally:
        reader.close()
    consumer = AIOKafkaConsumer(topic, group_id=f"a-{topic}", **options)
    await consumer.start()
    try:
        assert len({(await consumer.getone()).value for _ in range(RECORDS)}) == RECORDS
        await consumer.commit()
    finally:
        await consumer.stop()


@pytest.fixture
def own_nodes(pulsar: PulsarAddress, namespace: str, guard: Guard, tmp_path: Path) -> Iterator[OneAddress]:
    """Nodes that may be killed."""
    made = OneAddress(pulsar, namespace, guard, tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_nothing_is_lost_doubled_or_out_of_order_while_connections_are_cut_and_a_node_dies(
    own_nodes: OneAddress, tmp_path: Path
) -> None:
    """Idempotent producers find themselves at another node after each cut, with batches under way at the one before."""
    load = Load(own_nodes.kafka, "one-address", PARTITIONS, usual_writers(own_nodes.kafka, idempotent=True))
    load.writers.append(AioKafkaWriter("a", own_nodes.kafka, load.topic, PARTITIONS, load.changed))
    load.writers.append(JavaWriter("j", own_nodes.kafka, load.topic, PARTITIONS, load.changed, tmp_path))
    try:
        load.start()
        load.more(30)
        for number in range(8):
            own_nodes.balancer.cut(0.5 if number % 3 else 1.0)
            victim = own_nodes.nodes[1]
            if number == 4:
                victim.kill()
            load.more(20)
            if number == 4:
                victim.start()
        assert own_nodes.balancer.cuts
        load.stop().check()
    finally:
        load.abandon()
