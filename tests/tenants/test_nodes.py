"""Tenants on two nodes: with an address for each, and behind one address, where nodes pass requests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.apis import describe_groups, find_coordinator, list_groups, metadata, offset_commit, offset_fetch
from bridge.kafka import envelope, message
from bridge.kafka.error_codes import ErrorCode
from bridge.security.principal import ANONYMOUS, NODE
from bridge.standalone.ports import HOST, any_free
from tests.apis.wire import unique
from tests.support.group_slots import wait_until_shared
from tests.support.pulsar import PulsarAddress
from tests.tenants.world import LISTENERS, World, world_of

TOPIC = "orders"


@pytest.fixture(scope="module")
def pair(pulsar: PulsarAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_of(pulsar, tmp_path_factory.mktemp("pair"), [{}, {}]) as made:
        wait_until_shared(*made.nodes)
        yield made


@pytest.fixture(scope="module")
def single(pulsar: PulsarAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Clients that are told one address, and here come to each of the nodes on purpose."""
    directory = tmp_path_factory.mktemp("single")
    secret = directory / "secret"
    secret.write_text("a secret of all nodes, long enough")
    told = ",".join(f"{name}://{HOST}:{any_free()}" for name in LISTENERS)
    nodes: list[dict[str, dict[str, Any]]] = [
        {
            "cluster": {
                "name": f"node-{number}", "addressing": "single", "internal_listen": f"{HOST}:{any_free()}",
                "internal_secret_file": str(secret),
            },
            "kafka": {"advertised_listeners": told},
        }
        for number in range(2)
    ]  # fmt: skip
    with world_of(pulsar, directory, nodes) as made:
        wait_until_shared(*made.nodes)
        yield made


def _commit(world: World, user: str, node: int, group: str, offset: int) -> int:
    partition = offset_commit.RequestPartition(partition_index=0, committed_offset=offset, committed_metadata=user)
    wanted = message.with_defaults(offset_commit.RequestTopic, name=TOPIC, partitions=[partition])
    request = message.with_defaults(
        offset_commit.Request, group_id=group, generation_id_or_member_epoch=-1, topics=[wanted]
    )
    with world.connect(user, node) as connection:
        connection.ask(metadata.API, metadata.Request(topics=[metadata.RequestTopic(name=TOPIC)]))
        answer = connection.ask(offset_commit.API, request, 8)
    return int(answer.topics[0].partitions[0].error_code)


def _fetched(world: World, user: str, node: int, group: str) -> Any:
    asked = message.with_defaults(offset_fetch.RequestGroup, group_id=group, topics=None)
    request = message.with_defaults(offset_fetch.Request, groups=[asked])
    with world.connect(user, node) as connection:
        (found,) = connection.ask(offset_fetch.API, request, 9).groups
    if found.error_code:
        return ErrorCode(found.error_code)
    return {
        (topic.name, one.partition_index): (one.committed_offset, one.metadata)
        for topic in found.topics
        for one in topic.partitions
    }


def test_behind_one_address_each_request_comes_to_the_namespace_of_its_client(single: World) -> None:
    """Half of the groups are the other node's: it is told in which namespace."""
    groups = [unique("g") for _ in range(8)]
    for number, group in enumerate(groups):
        assert _commit(single, "acme-1", number % 2, group, 10 + number) == ErrorCode.NONE
        assert _commit(single, "beta-1", number % 2, group, 20 + number) == ErrorCode.NONE
    for number, group in enumerate(groups):
        for node in range(2):
            assert _fetched(single, "acme-2", node, group) == {(TOPIC, 0): (10 + number, "acme-1")}
            assert _fetched(single, "beta-1", node, group) == {(TOPIC, 0): (20 + number, "beta-1")}
            assert _fetched(single, "admin", node, group) == {}
    for node in range(2):
        with single.connect("admin", node) as connection:
            assert connection.ask(list_groups.API, list_groups.Request()).groups == []
        with single.connect("beta-1", node) as connection:
            listed = {group.group_id for group in connection.ask(list_groups.API, list_groups.Request()).groups}
            assert listed >= set(groups)
            told = connection.ask(describe_groups.API, describe_groups.Request(groups=groups))
            assert [group.error_code for group in told.groups] == [ErrorCode.NONE] * len(groups)


async def test_a_namespace_that_no_rule_leads_to_is_not_taken_from_another_node(single: World) -> None:
    """The other node is trusted to say whose client it is, and no further than the own rules go."""
    node = single.nodes[0].server
    links = node._links
    assert links is not None and links._listener is not None
    listener = links._listener
    for namespace in (single.pulsar.create_namespace(), "pulsar/system", "../x", f"{single.beta}/x"):
        for principal in (ANONYMOUS, NODE):
            with pytest.raises(Exception, match="no rule of this node leads to"):
                single.nodes[0].call(listener.broker_for(principal, namespace))
    assert envelope.OF_A_NAMESPACE > envelope.VERSION


def test_with_an_address_each_clients_are_sent_to_the_node_that_has_their_group(pair: World) -> None:
    groups = [unique("g") for _ in range(8)]
    here = {node.node_id: number for number, node in enumerate(pair.nodes)}
    for user, first in (("acme-1", 10), ("beta-1", 20)):
        for number, group in enumerate(groups):
            with pair.connect(user, 0) as connection:
                request = message.with_defaults(find_coordinator.Request, key=group, key_type=0)
                owner = here[connection.ask(find_coordinator.API, request, 3).node_id]
            assert _commit(pair, user, owner, group, first + number) == ErrorCode.NONE
            assert _fetched(pair, user, owner, group) == {(TOPIC, 0): (first + number, user)}
            assert _fetched(pair, user, 1 - owner, group) is ErrorCode.NOT_COORDINATOR


def _produced(words: dict[str, Any], value: str, partitions: int) -> list[Any]:
    errors: list[Any] = []
    producer = Producer(words | {"enable.idempotence": True})
    for partition in range(partitions):
        producer.produce("spread", value, partition=partition, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    return errors


def test_real_clients_find_their_own_on_any_node(pair: World) -> None:
    admins = [AdminClient(pair.kafka(user, node)) for user, node in (("acme-1", 0), ("beta-1", 1))]
    for admin, partitions in zip(admins, (6, 4), strict=True):
        admin.create_topics([NewTopic("spread", partitions, 1)])["spread"].result(30)
    for user, partitions in (("acme-1", 6), ("beta-1", 4)):
        for node in range(2):
            told = AdminClient(pair.kafka(user, node)).list_topics("spread", timeout=30).topics["spread"]
            assert len(told.partitions) == partitions
            assert len({partition.leader for partition in told.partitions.values()}) == 2
            assert _produced(pair.kafka(user, node), user, partitions) == [None] * partitions
        consumer = Consumer(pair.kafka(user, 1) | {"group.id": "spread", "auto.offset.reset": "earliest"})
        consumer.subscribe(["spread"])
        found: list[Any] = []
        while len(found) < 2 * partitions:
            record = consumer.poll(30)
            assert record is not None and record.error() is None
            found.append(record.value())
        assert set(found) == {user.encode()}
        consumer.close()


def test_a_topic_that_is_made_again_on_another_node_is_known_at_once(pair: World) -> None:
    """Nodes tell each other of changes with the namespace that they are in."""
    users = [AdminClient(pair.kafka("beta-1", node)) for node in range(2)]
    other = AdminClient(pair.kafka("acme-1", 0))
    other.create_topics([NewTopic("again", 5, 1)])["again"].result(30)
    for partitions in (1, 3):
        users[0].create_topics([NewTopic("again", partitions, 1)])["again"].result(30)
        assert len(users[1].list_topics("again", timeout=30).topics["again"].partitions) == partitions
        consumer = Consumer(pair.kafka("beta-1", 1) | {"group.id": "again"})
        assert consumer.get_watermark_offsets(TopicPartition("again", 0), timeout=30) == (0, 0)
        consumer.close()
        users[1].delete_topics(["again"])["again"].result(30)
    assert len(other.list_topics("again", timeout=30).topics["again"].partitions) == 5
