"""Share groups on two nodes: a coordinator that is not the leader, offsets that are altered, the wrong node asked."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Producer

from bridge.apis import alter_share_group_offsets as alter
from bridge.apis import (
    api_versions,
    create_topics,
    find_coordinator,
    metadata,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
)
from bridge.apis import describe_share_group_offsets as describe
from bridge.cluster.membership.planning import is_balanced
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.share_messages import AcknowledgementBatch
from bridge.requests.share import SHARE_APIS
from bridge.shares.state import ACCEPT
from bridge.standalone.ports import HOST
from tests.apis.configs import configure_group
from tests.apis.wire import Connection, ask_at, unique
from tests.support.bridges import BridgeThread, settings_for
from tests.support.group_slots import wait_until_shared
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import until

_MEMBER = "m"
Said = tuple[int, int]
"""Offsets, both within, that are accepted."""


@pytest.fixture(scope="module")
def nodes(pulsar: PulsarAddress) -> Iterator[list[BridgeThread]]:
    """Two that can ask each other, and lead what they lead for good."""
    namespace = pulsar.create_namespace()
    linked = {"cluster": {"internal_listen": f"{HOST}:0"}}
    with ExitStack() as running:
        made = [BridgeThread(settings_for(pulsar, namespace, linked)) for _ in range(2)]
        for one in made:
            one.start()
            running.callback(one.stop)
        wait_until_shared(*made)
        clusters = [one.server.cluster for one in made]
        made[0].call(until(lambda: all(one is not None and is_balanced(one.view) for one in clusters)))
        yield made


class Group:
    """A group of one member, which begins at the beginning of a topic with one partition and ten records."""

    def __init__(self, nodes: list[BridgeThread]) -> None:
        self.name, self.topic = unique("share"), unique("shared")
        any_node = nodes[0].kafka
        wanted = create_topics.RequestTopic(
            name=self.topic, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        (made,) = ask_at(any_node, create_topics.API, create_topics.Request(topics=[wanted])).topics
        self.topic_id: uuid.UUID = made.topic_id
        configure_group(any_node, self.name, {"share.auto.offset.reset": "earliest"})
        asked = find_coordinator.Request(coordinator_keys=[self.name])
        (found,) = ask_at(any_node, find_coordinator.API, asked).coordinators
        self.coordinator = f"{found.host}:{found.port}"
        request = metadata.Request(topics=[metadata.RequestTopic(name=self.topic)])
        answer = ask_at(any_node, metadata.API, request)
        self.leader_id = answer.topics[0].partitions[0].leader_id
        self.leader = next(f"{one.host}:{one.port}" for one in answer.brokers if one.node_id == self.leader_id)

    def begin(self) -> None:
        """A batch of records, and a member."""
        producer = Producer({"bootstrap.servers": self.leader, "linger.ms": 10_000})  # `flush` waits for no more
        for number in range(10):
            producer.produce(self.topic, str(number))
        assert producer.flush(30) == 0
        self.beat(0)

    def beat(self, epoch: int, member: str = _MEMBER) -> None:
        request = share_group_heartbeat.Request(
            group_id=self.name, member_id=member, member_epoch=epoch,
            subscribed_topic_names=None if epoch else [self.topic],
        )  # fmt: skip
        assert ask_at(self.coordinator, share_group_heartbeat.API, request).error_code == 0

    def alter(self, offset: int) -> None:
        place = alter.RequestPartition(partition_index=0, start_offset=offset)
        topic = alter.RequestTopic(topic_name=self.topic, partitions=[place])
        answer = ask_at(self.coordinator, alter.API, alter.Request(group_id=self.name, topics=[topic]))
        assert answer.error_code == answer.responses[0].partitions[0].error_code == 0

    def fetch(
        self, connection: Connection, epoch: int, *said: Said, member: str = _MEMBER, wait_ms: int = 20_000
    ) -> Any:
        batches = [AcknowledgementBatch(first_offset=one, last_offset=last, acknowledge_types=[ACCEPT])
                   for one, last in said]  # fmt: skip
        part = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=batches)
        request = share_fetch.Request(
            group_id=self.name, member_id=member, share_session_epoch=epoch, max_wait_ms=wait_ms, min_bytes=1,
            max_records=500, batch_size=500, topics=[share_fetch.FetchTopic(topic_id=self.topic_id, partitions=[part])],
            forgotten_topics_data=[],
        )  # fmt: skip
        answer = connection.ask(share_fetch.API, request, 1)
        assert answer.error_code == 0
        return answer

    def acknowledge(self, connection: Connection, epoch: int, *said: Said) -> None:
        """By a fetch that waits for nothing."""
        answer = self.fetch(connection, epoch, *said, wait_ms=0)
        assert [part.acknowledge_error_code for topic in answer.responses for part in topic.partitions] == [0]

    def acquired(self, connection: Connection, epoch: int) -> list[tuple[int, int, int]]:
        """Of a request without errors."""
        parts = [part for topic in self.fetch(connection, epoch).responses for part in topic.partitions]
        assert {(part.error_code, part.acknowledge_error_code) for part in parts} <= {(0, 0)}
        return [
            (one.first_offset, one.last_offset, one.delivery_count) for part in parts for one in part.acquired_records
        ]


@pytest.fixture(params=[True, False], ids=["coordinated elsewhere", "coordinated here"])
def group(nodes: list[BridgeThread], request: pytest.FixtureRequest) -> Group:
    """One whose coordinator is the partition's leader, or is not."""
    found = next(
        one for one in map(lambda _: Group(nodes), count()) if (one.coordinator != one.leader) == request.param
    )
    found.begin()
    return found


@pytest.fixture
def connect() -> Iterator[Callable[[str], Connection]]:
    with ExitStack() as made:
        yield lambda address: made.enter_context(Connection(address))


def test_what_is_accepted_is_stored_at_the_coordinator(group: Group, connect: Callable[[str], Connection]) -> None:
    connection = connect(group.leader)
    assert group.acquired(connection, 0) == [(0, 9, 1)]
    group.acknowledge(connection, 1, (2, 3), (7, 9))
    connection.close()
    assert group.acquired(connect(group.leader), 0) == [(0, 1, 2), (4, 6, 2)]


def test_how_many_records_are_not_done_is_told_whoever_leads(
    group: Group, connect: Callable[[str], Connection]
) -> None:
    connection = connect(group.leader)
    group.acquired(connection, 0)
    group.acknowledge(connection, 1, (0, 3), (8, 8))
    asked = describe.Request(groups=[describe.RequestGroup(group_id=group.name, topics=None)])
    (found,) = ask_at(group.coordinator, describe.API, asked).groups
    (part,) = found.topics[0].partitions
    assert (part.start_offset, part.lag) == (4, 5)


def test_who_asks_another_node_is_told_who_leads(
    group: Group, nodes: list[BridgeThread], connect: Callable[[str], Connection]
) -> None:
    wrong = next(one.kafka for one in nodes if one.kafka != group.leader)
    connection = connect(wrong)
    answer = group.fetch(connection, 0)
    (part,) = answer.responses[0].partitions
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert part.current_leader.leader_id == group.leader_id
    assert [f"{one.host}:{one.port}" for one in answer.node_endpoints] == [group.leader]
    said = share_acknowledge.AcknowledgePartition(
        partition_index=0,
        acknowledgement_batches=[AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[ACCEPT])],
    )
    topic = share_acknowledge.AcknowledgeTopic(topic_id=group.topic_id, partitions=[said])
    request = share_acknowledge.Request(group_id=group.name, member_id=_MEMBER, share_session_epoch=1, topics=[topic])
    answer = connection.ask(share_acknowledge.API, request, 1)
    (part,) = answer.responses[0].partitions
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert part.current_leader.leader_id == group.leader_id


def test_offsets_that_are_altered_are_known_to_who_joins_then(
    group: Group, connect: Callable[[str], Connection]
) -> None:
    connection = connect(group.leader)
    assert group.acquired(connection, 0) == [(0, 9, 1)]
    group.acknowledge(connection, 1, (0, 9))
    group.beat(-1)
    group.alter(4)
    group.beat(0, "n")  # the session of the one that has left keeps the leader's state, where others coordinate
    found = list[Any]()
    other = connect(group.leader)
    for epoch in range(2):  # the leader finds out at the first
        answer = group.fetch(other, epoch, member="n")
        found = [one for topic in answer.responses for part in topic.partitions for one in part.acquired_records]
        if found:
            break
    assert [(one.first_offset, one.last_offset, one.delivery_count) for one in found] == [(4, 9, 1)]


def test_clients_are_told_of_share_groups_where_nodes_can_ask_each_other(nodes: list[BridgeThread]) -> None:
    for one in nodes:
        request = api_versions.Request(client_software_name="test", client_software_version="1")
        answer = ask_at(one.kafka, api_versions.API, request)
        assert {told.api_key for told in answer.api_keys} >= SHARE_APIS
        assert "share.version" in {told.name for told in answer.finalized_features}
