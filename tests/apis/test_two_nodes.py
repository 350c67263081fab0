"""Two nodes of one cluster: what a node answers of groups that the other one coordinates, in every version."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient

from bridge.apis import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread, settings_for
from tests.support.group_slots import wait_until_shared
from tests.support.pulsar import PulsarAddress


class Pair(NamedTuple):
    """The nodes, and a group that each of them coordinates."""

    here: BridgeThread
    there: BridgeThread
    own: str
    others: str


def group_of(bridge: BridgeThread) -> str:
    """The name of a group that this node coordinates."""
    return next(name for name in iter(lambda: unique("g"), "") if bridge.server.store.coordinates(name))


@pytest.fixture(scope="module")
def nodes(pulsar: PulsarAddress) -> Iterator[tuple[BridgeThread, BridgeThread]]:
    namespace = pulsar.create_namespace()
    with ExitStack() as running:
        bridges = BridgeThread(settings_for(pulsar, namespace)), BridgeThread(settings_for(pulsar, namespace))
        for bridge in bridges:
            bridge.start()
            running.callback(bridge.stop)
        admin = AdminClient({"bootstrap.servers": bridges[0].kafka})
        admin.create_topics([NewTopic("t", 2, 1)])["t"].result(30)
        wait_until_shared(*bridges)
        yield bridges


@pytest.fixture
def pair(nodes: tuple[BridgeThread, BridgeThread]) -> Pair:
    here, there = nodes
    return Pair(here, there, group_of(here), group_of(there))


def versions(*apis: Api) -> list[Any]:
    return [
        pytest.param(api, version, id=f"{api.name}-v{version}")
        for api in apis
        for version in range(api.min_version, api.max_version + 1)
    ]


def topics_of_commit(version: int, topic_id: Any) -> list[offset_commit.RequestTopic]:
    partitions = [offset_commit.RequestPartition(partition_index=index, committed_offset=1) for index in (0, 1)]
    by_id = version >= offset_commit.BY_ID
    return [offset_commit.RequestTopic(partitions=partitions, **({"topic_id": topic_id} if by_id else {"name": "t"}))]


TOP_LEVEL: dict[str, Callable[[str], Any]] = {
    "JoinGroup": lambda group: join_group.Request(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[join_group.Protocol(name="range", metadata=b"")],
    ),
    "SyncGroup": lambda group: sync_group.Request(
        group_id=group,
        generation_id=1,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[],
    ),
    "Heartbeat": lambda group: heartbeat.Request(group_id=group, generation_id=1, member_id="m"),
    "LeaveGroup": lambda group: leave_group.Request(
        group_id=group, member_id="m", members=[leave_group.MemberIdentity(member_id="m")]
    ),
    "OffsetDelete": lambda group: offset_delete.Request(
        group_id=group,
        topics=[offset_delete.RequestTopic(name="t", partitions=[offset_delete.RequestPartition(partition_index=0)])],
    ),
    "ConsumerGroupHeartbeat": lambda group: consumer_group_heartbeat.Request(
        group_id=group,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    ),
}
APIS = (
    join_group.API,
    sync_group.API,
    heartbeat.API,
    leave_group.API,
    offset_delete.API,
    consumer_group_heartbeat.API,
)


@pytest.mark.parametrize(("api", "version"), versions(*APIS))
def test_the_request_as_a_whole_is_refused(pair: Pair, api: Api, version: int) -> None:
    answer = ask(pair.here, api, TOP_LEVEL[api.name](pair.others), version)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    # as Kafka, nothing is said of the members and topics that were asked for
    assert not getattr(answer, "members", []) and not getattr(answer, "topics", [])
    assert ask(pair.there, api, TOP_LEVEL[api.name](pair.others), version).error_code != ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(("api", "version"), versions(offset_commit.API))
def test_a_commit_is_refused_for_each_partition(pair: Pair, api: Api, version: int) -> None:
    topic = pair.here.call(pair.here.server.topics.get("t"))
    assert topic is not None

    def committed(bridge: BridgeThread, group: str) -> list[int]:
        request = offset_commit.Request(group_id=group, topics=topics_of_commit(version, topic.id))
        (answer,) = ask(bridge, api, request, version).topics
        return [one.error_code for one in answer.partitions]

    assert committed(pair.here, pair.others) == [ErrorCode.NOT_COORDINATOR] * 2
    assert committed(pair.here, pair.own) == committed(pair.there, pair.others) == [ErrorCode.NONE] * 2


@pytest.mark.parametrize("version", range(offset_fetch.API.min_version, 8))
def test_offsets_of_one_group_are_refused(pair: Pair, version: int) -> None:
    request = offset_fetch.Request(
        group_id=pair.others, topics=[offset_fetch.Topic(name="t", partition_indexes=[0, 1])]
    )
    answer = ask(pair.here, offset_fetch.API, request, version)
    if version < 2:  # there is no other place for it
        assert [one.error_code for one in answer.topics[0].partitions] == [ErrorCode.NOT_COORDINATOR] * 2
    else:
        assert (answer.error_code, answer.topics) == (ErrorCode.NOT_COORDINATOR, [])
    assert ask(pair.there, offset_fetch.API, request, version).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(8, offset_fetch.API.max_version + 1))
def test_of_several_groups_only_those_of_others_are_refused(pair: Pair, version: int) -> None:
    groups = [offset_fetch.RequestGroup(group_id=one, topics=None) for one in (pair.own, pair.others)]
    answer = ask(pair.here, offset_fetch.API, offset_fetch.Request(groups=groups), version)
    found = {one.group_id: (one.error_code, one.topics) for one in answer.groups}
    assert found == {pair.own: (ErrorCode.NONE, []), pair.others: (ErrorCode.NOT_COORDINATOR, [])}


@pytest.mark.parametrize(("api", "version"), versions(describe_groups.API))
def test_groups_of_others_are_not_described(pair: Pair, api: Api, version: int) -> None:
    answer = ask(pair.here, api, describe_groups.Request(groups=[pair.own, pair.others]), version)
    own, others = answer.groups
    assert own.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= describe_groups.TELLS else ErrorCode.NONE)
    assert (others.group_id, others.error_code, others.group_state, others.members) == (
        pair.others,
        ErrorCode.NOT_COORDINATOR,
        "",
        [],
    )


@pytest.mark.parametrize(("api", "version"), versions(consumer_group_describe.API))
def test_consumer_groups_of_others_are_not_described(pair: Pair, api: Api, version: int) -> None:
    request = consumer_group_describe.Request(group_ids=[pair.own, pair.others], include_authorized_operations=False)
    answer = ask(pair.here, api, request, version)
    assert {one.group_id: one.error_code for one in answer.groups} == {
        pair.own: ErrorCode.GROUP_ID_NOT_FOUND,
        pair.others: ErrorCode.NOT_COORDINATOR,
    }


@pytest.mark.parametrize(("api", "version"), versions(delete_groups.API))
def test_groups_of_others_are_not_deleted(pair: Pair, api: Api, version: int) -> None:
    commit = offset_commit.Request(group_id=pair.others, topics=topics_of_commit(9, None))
    assert ask(pair.there, offset_commit.API, commit, 9).topics[0].partitions[0].error_code == ErrorCode.NONE
    request = delete_groups.Request(groups_names=[pair.own, pair.others])
    found = {one.group_id: one.error_code for one in ask(pair.here, api, request, version).results}
    assert found == {pair.own: ErrorCode.GROUP_ID_NOT_FOUND, pair.others: ErrorCode.NOT_COORDINATOR}
    request = delete_groups.Request(groups_names=[pair.others])
    assert ask(pair.there, api, request, version).results[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize(("api", "version"), versions(list_groups.API))
def test_each_node_lists_its_own_groups(pair: Pair, api: Api, version: int) -> None:
    for bridge, group in ((pair.here, pair.own), (pair.there, pair.others)):
        commit = offset_commit.Request(group_id=group, topics=topics_of_commit(9, None))
        assert ask(bridge, offset_commit.API, commit, 9).topics[0].partitions[0].error_code == ErrorCode.NONE
    listed = [
        {one.group_id for one in ask(bridge, api, list_groups.Request(), version).groups}
        for bridge in (pair.here, pair.there)
    ]
    assert pair.own in listed[0] and pair.others in listed[1]
    assert not listed[0] & listed[1]


# ---- administrators' clients, which find the coordinators by themselves ----------------------------------------------


def read_all(address: str, group: str, count: int) -> None:
    """Read so many records as a member of the group, and commit."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    read = 0
    while read < count:
        read += sum(1 for message in consumer.consume(count, 1.0) if message.error() is None)
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.fixture
def groups(pair: Pair) -> list[str]:
    """Groups of both nodes that have read the topic through the node that is not theirs."""
    producer = Producer({"bootstrap.servers": pair.here.kafka})
    for index in (0, 1):
        producer.produce("t", b"1", partition=index)
    assert producer.flush(30) == 0
    ends = Consumer({"bootstrap.servers": pair.here.kafka, "group.id": "ends"})
    total = sum(ends.get_watermark_offsets(TopicPartition("t", index), 30)[1] for index in (0, 1))
    ends.close()
    read_all(pair.there.kafka, pair.own, total)
    read_all(pair.here.kafka, pair.others, total)
    return [pair.own, pair.others]


def test_librdkafkas_administration(pair: Pair, groups: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": pair.here.kafka})
    listed = admin.list_consumer_groups(request_timeout=30).result(30)
    assert not listed.errors and set(groups) <= {one.group_id for one in listed.valid}
    described = {name: one.result(30) for name, one in admin.describe_consumer_groups(groups).items()}
    coordinators = {name: f"{one.coordinator.host}:{one.coordinator.port}" for name, one in described.items()}
    assert coordinators == {pair.own: pair.here.kafka, pair.others: pair.there.kafka}
    for group in groups:
        where = ConsumerGroupTopicPartitions(group, [TopicPartition("t", 0, 0)])
        admin.alter_consumer_group_offsets([where])[group].result(30)
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition("t", 0)])
        (found,) = admin.list_consumer_group_offsets([asked])[group].result(30).topic_partitions
        assert found.offset == 0
    for one in admin.delete_consumer_groups(groups, request_timeout=30).values():
        one.result(30)
    assert not set(groups) & {one.group_id for one in admin.list_consumer_groups().result(30).valid}


def test_kafka_pythons_administration(pair: Pair, groups: list[str]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=[pair.there.kafka])
    try:
        assert set(groups) <= {one["group_id"] for one in admin.list_groups()}
        described = admin.describe_groups(groups)
        assert set(described) == set(groups)
        for group in groups:
            offsets = admin.list_group_offsets({group: None})[group]
            assert len(offsets) == 2
        admin.delete_groups(groups)
        assert not set(groups) & {one["group_id"] for one in admin.list_groups()}
    finally:
        admin.close()
