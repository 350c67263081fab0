"""Share groups behind one address: the coordinator leads their partitions, whichever node a member is connected to."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from bridge.apis import (
    alter_share_group_offsets,
    api_versions,
    create_topics,
    describe_share_group_offsets,
    incremental_alter_configs,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.share_messages import AcknowledgementBatch
from bridge.node.orphans import Guard
from bridge.requests.share import SHARE_APIS
from bridge.shares.state import ACCEPT
from tests.apis.wire import Connection, ask_at, unique
from tests.clients.model import attempts
from tests.relay.envelopes import ask, peer_at
from tests.support.one_address import OneAddress
from tests.support.pulsar import PulsarAddress

NODES = range(3)
RECORDS = 10
_LOOKS = 10
"""So many requests of a second each: a lock holds for 30, so what comes sooner was given back."""
Said = tuple[int, int]
"""Offsets, both within, that are accepted."""
Taken = list[tuple[int, int, int]]
"""First and last offsets that were acquired, and the how many-th delivery it is."""
Connect = Callable[[int], Connection]


def coordinator_of(one_address: OneAddress, group: str) -> int:
    """The number of the node that coordinates a group."""

    async def code(address: str) -> int:
        wanted = share_group_describe.Request(group_ids=[group], include_authorized_operations=False)
        peer = await peer_at(address)
        try:
            return int((await ask(peer, share_group_describe.API, wanted, 1)).groups[0].error_code)
        finally:
            peer.close()

    for _ in attempts("a coordinator"):  # slots move while nodes start
        codes = [asyncio.run(code(address)) for address in one_address.internal]
        for number, found in enumerate(codes):
            if found in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
                return number
    raise AssertionError(codes)


class Group:
    """A group that begins at the beginning of a topic with one partition and ten records."""

    def __init__(self, one_address: OneAddress, coordinator: int | None = None) -> None:
        """`coordinator`: that it is to have; None: any."""
        self.topic, self.any = unique("shared"), one_address.direct[-1]
        names = (unique("share") for _ in count())
        self.name = next(
            name for name in names if coordinator is None or coordinator_of(one_address, name) == coordinator
        )
        wanted = create_topics.RequestTopic(
            name=self.topic, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        (made,) = ask_at(self.any, create_topics.API, create_topics.Request(topics=[wanted])).topics
        self.topic_id: uuid.UUID = made.topic_id
        alter = incremental_alter_configs
        begin = alter.Config(name="share.auto.offset.reset", config_operation=0, value="earliest")
        resource = alter.Resource(resource_type=32, resource_name=self.name, configs=[begin])
        ask_at(self.any, alter.API, alter.Request(resources=[resource], validate_only=False))
        # one batch: `flush` does not wait for more
        producer = Producer({"bootstrap.servers": one_address.kafka, "linger.ms": 10_000})
        for number in range(RECORDS):
            producer.produce(self.topic, str(number))
        assert producer.flush(30) == 0

    def beat(self, epoch: int, member: str = "m") -> None:
        request = share_group_heartbeat.Request(
            group_id=self.name, member_id=member, member_epoch=epoch,
            subscribed_topic_names=None if epoch else [self.topic],
        )  # fmt: skip
        assert ask_at(self.any, share_group_heartbeat.API, request).error_code == 0

    def ask(self, connection: Connection, epoch: int, *said: Said, member: str = "m", wait_ms: int = 1000) -> Any:
        batches = [AcknowledgementBatch(first_offset=one, last_offset=last, acknowledge_types=[ACCEPT])
                   for one, last in said]  # fmt: skip
        part = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=batches)
        request = share_fetch.Request(
            group_id=self.name, member_id=member, share_session_epoch=epoch, max_wait_ms=wait_ms, min_bytes=1,
            max_records=500, batch_size=500, topics=[share_fetch.FetchTopic(topic_id=self.topic_id, partitions=[part])],
            forgotten_topics_data=[],
        )  # fmt: skip
        return connection.ask(share_fetch.API, request, 1)

    def fetch(self, connection: Connection, epoch: int, *said: Said, wait_ms: int = 20_000) -> Taken:
        """Of a request without errors."""
        answer = self.ask(connection, epoch, *said, wait_ms=wait_ms)
        parts = [part for topic in answer.responses for part in topic.partitions]
        assert (answer.error_code, answer.node_endpoints) == (0, [])
        assert {(one.error_code, one.acknowledge_error_code) for one in parts} <= {(0, 0)}
        assert {(one.current_leader.leader_id, one.current_leader.leader_epoch) for one in parts} <= {(-1, -1)}
        return _acquired(answer)

    def first(self, connection: Connection, member: str = "m") -> Taken:
        """What the first request of a session brings that brings any; a session that is not there is opened again."""
        epoch = 0
        for _ in range(_LOOKS):
            answer = self.ask(connection, epoch, member=member)
            if answer.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND:
                epoch = 0
                continue
            assert answer.error_code == 0
            epoch += 1
            if found := _acquired(answer):
                return found
        return []

    def start_and_lag(self) -> tuple[int, int]:
        described = describe_share_group_offsets
        asked = described.Request(groups=[described.RequestGroup(group_id=self.name, topics=None)])
        (found,) = ask_at(self.any, described.API, asked).groups
        (part,) = found.topics[0].partitions
        return part.start_offset, part.lag


def _acquired(answer: Any) -> Taken:
    parts = [part for topic in answer.responses for part in topic.partitions]
    return [(one.first_offset, one.last_offset, one.delivery_count) for part in parts for one in part.acquired_records]


@pytest.fixture
def connect(one_address: OneAddress) -> Iterator[Connect]:
    with ExitStack() as made:
        yield lambda node: made.enter_context(Connection(one_address.direct[node]))


def test_clients_are_told_of_share_groups(one_address: OneAddress) -> None:
    for address in one_address.direct:
        request = api_versions.Request(client_software_name="test", client_software_version="1")
        answer = ask_at(address, api_versions.API, request)
        assert {told.api_key for told in answer.api_keys} >= SHARE_APIS
        assert "share.version" in {told.name for told in answer.finalized_features}


@pytest.mark.parametrize("coordinator", NODES)
def test_it_does_not_matter_which_node_is_asked(one_address: OneAddress, connect: Connect, coordinator: int) -> None:
    group = Group(one_address, coordinator)
    group.beat(0)
    for node in NODES:
        connection, first = connect(node), 3 * node
        assert group.fetch(connection, 0)[0][:2] == (first, RECORDS - 1)
        group.fetch(connection, 1, (first, first + 2), wait_ms=0)
        said = AcknowledgementBatch(first_offset=first + 3, last_offset=RECORDS - 1, acknowledge_types=[2])  # release
        part = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=[said])
        topic = share_acknowledge.AcknowledgeTopic(topic_id=group.topic_id, partitions=[part])
        request = share_acknowledge.Request(group_id=group.name, member_id="m", share_session_epoch=2, topics=[topic])
        answer = connection.ask(share_acknowledge.API, request, 1)
        assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)
        assert group.start_and_lag() == (first + 3, RECORDS - first - 3)


@pytest.mark.parametrize("coordinator", NODES)
def test_what_a_member_had_goes_to_others_when_its_connection_is_lost(
    one_address: OneAddress, connect: Connect, coordinator: int
) -> None:
    """To whichever node that was; and it counts as delivered."""
    group = Group(one_address, coordinator)
    for member in ("m", "n"):
        group.beat(0, member)
    for node, member in zip(NODES, "mnm", strict=True):
        connection = connect(node)
        assert group.first(connection, member) == [(0, RECORDS - 1, 1 + node)]
        connection.reset()
    assert group.first(connect(0), "n") == [(0, 4, 4)]  # half of it: what was delivered often comes in parts


def test_a_connection_that_is_lost_while_its_request_waits_leaves_nothing(
    one_address: OneAddress, connect: Connect
) -> None:
    for coordinator in NODES:
        group = Group(one_address, coordinator)
        for member in ("m", "n"):
            group.beat(0, member)
        holder, waiting = connect(0), connect(1)
        assert group.first(holder) == [(0, RECORDS - 1, 1)]
        part = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=[])
        topic = share_fetch.FetchTopic(topic_id=group.topic_id, partitions=[part])
        request = share_fetch.Request(
            group_id=group.name, member_id="n", share_session_epoch=0, max_wait_ms=60_000, min_bytes=1,
            max_records=500, batch_size=500, topics=[topic], forgotten_topics_data=[],
        )  # fmt: skip
        waiting.send(share_fetch.API, request, 1)
        waiting.reset()
        holder.reset()
        assert group.first(connect(2)) != []


def test_offsets_that_are_altered_are_known_to_who_joins_then(one_address: OneAddress, connect: Connect) -> None:
    alter = alter_share_group_offsets
    for coordinator in NODES:
        group = Group(one_address, coordinator)
        group.beat(0)
        connection = connect(0)
        assert group.fetch(connection, 0) == [(0, RECORDS - 1, 1)]
        group.fetch(connection, 1, (0, RECORDS - 1), wait_ms=0)
        group.beat(-1)
        topic = alter.RequestTopic(
            topic_name=group.topic, partitions=[alter.RequestPartition(partition_index=0, start_offset=4)]
        )
        altered = ask_at(one_address.direct[1], alter.API, alter.Request(group_id=group.name, topics=[topic]))
        assert altered.responses[0].partitions[0].error_code == 0
        group.beat(0, "n")
        assert group.first(connect(2), "n") == [(4, RECORDS - 1, 1)]


def test_without_a_session_a_member_is_told_so(one_address: OneAddress, connect: Connect) -> None:
    for coordinator in NODES:
        group = Group(one_address, coordinator)
        assert group.ask(connect(0), 5).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.fixture
def own_nodes(pulsar: PulsarAddress, namespace: str, guard: Guard, tmp_path: Path) -> Iterator[OneAddress]:
    """Nodes that may be killed."""
    made = OneAddress(pulsar, namespace, guard, tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_a_node_that_is_killed_takes_nothing_along(own_nodes: OneAddress) -> None:
    """Groups whose members are connected to it, and groups that it coordinates."""
    by_it, at_it = Group(own_nodes, 1), Group(own_nodes, 2)
    for group in (by_it, at_it):
        for member in ("m", "n"):
            group.beat(0, member)
    with ExitStack() as connections:
        there = connections.enter_context(Connection(own_nodes.direct[1]))
        assert at_it.first(there) == [(0, RECORDS - 1, 1)]
        assert at_it.fetch(there, 1, (0, 1), wait_ms=0) == []
        elsewhere = connections.enter_context(Connection(own_nodes.direct[0]))
        assert by_it.first(elsewhere) == [(0, RECORDS - 1, 1)]
        assert by_it.fetch(elsewhere, 1, (0, 1), (5, 5), wait_ms=0) == []
        own_nodes.nodes[1].kill()
        again = connections.enter_context(Connection(own_nodes.direct[0]))
        assert at_it.first(again, "n") == [(2, RECORDS - 1, 2)]
        found: Taken = []
        for _ in range(_LOOKS):  # until another node coordinates it
            found = by_it.first(connections.enter_context(Connection(own_nodes.direct[2])), "n")
            if found:
                break
        assert [taken[:2] for taken in found] == [(2, 4), (6, RECORDS - 1)]
