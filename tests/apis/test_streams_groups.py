"""Streams groups by their raw requests, on a real Pulsar: internal topics, statuses, refusals, offsets, restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridge.apis import (
    api_versions,
    create_topics,
    delete_groups,
    describe_configs,
    describe_groups,
    list_groups,
    offset_commit,
    offset_fetch,
    streams_group_describe,
    streams_group_heartbeat,
)
from bridge.groups.streams.topology import StatusCode
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.streams_messages import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from tests.apis.wire import ask_at, unique
from tests.clients.model import attempts
from tests.support.bridges import BridgeThread
from tests.support.group_slots import wait_until_shared

TOPIC_CONFIG = 2


class Streams:
    """One streams group and its source, at a bridge."""

    def __init__(self, address: str, partitions: int = 2) -> None:
        self.address = address
        self.group, self.source = unique("streams"), unique("source")
        if partitions:
            self.create(self.source, partitions)

    def create(self, topic: str, partitions: int) -> None:
        wanted = create_topics.RequestTopic(
            name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        (made,) = ask_at(self.address, create_topics.API, create_topics.Request(topics=[wanted])).topics
        assert made.error_code == ErrorCode.NONE, made

    @property
    def log(self) -> str:
        return f"{self.group}-store-changelog"

    @property
    def by_key(self) -> str:
        return f"{self.group}-by-key-repartition"

    def topology(self, epoch: int = 0, **of_log: Any) -> streams_group_heartbeat.Topology:
        """Reads the source, repartitions, and keeps a state."""
        compacted = [KeyValue(key="cleanup.policy", value="compact")]
        log = {"name": self.log, "partitions": 0, "replication_factor": 1, "topic_configs": compacted, **of_log}
        by_key = TopicInfo(name=self.by_key, partitions=0, replication_factor=1, topic_configs=[])
        nothing: dict[str, Any] = {"source_topic_regex": [], "copartition_groups": []}
        first = streams_group_heartbeat.Subtopology(
            subtopology_id="0", source_topics=[self.source], repartition_sink_topics=[self.by_key],
            state_changelog_topics=[], repartition_source_topics=[], **nothing,
        )  # fmt: skip
        second = streams_group_heartbeat.Subtopology(
            subtopology_id="1", source_topics=[], repartition_sink_topics=[], state_changelog_topics=[TopicInfo(**log)],
            repartition_source_topics=[by_key], **nothing,
        )  # fmt: skip
        return streams_group_heartbeat.Topology(epoch=epoch, subtopologies=[first, second])

    def beat(self, member: str, epoch: int, **fields: Any) -> Any:
        said = {"group_id": self.group, "endpoint_information_epoch": 0, **fields}
        request = streams_group_heartbeat.Request(member_id=member, member_epoch=epoch, **said)
        return ask_at(self.address, streams_group_heartbeat.API, request)

    def join(self, member: str = "m", **fields: Any) -> Any:
        said = {
            "rebalance_timeout_ms": 60_000, "process_id": f"of-{member}", "topology": self.topology(),
            "active_tasks": [], "standby_tasks": [], "warmup_tasks": [],
        }  # fmt: skip
        return self.beat(member, 0, **{**said, **fields})

    def until_given(self, member: str = "m") -> Any:
        """Join, and send heartbeats until there are tasks."""
        answer = self.join(member)
        for _ in attempts("tasks"):
            assert answer.error_code == ErrorCode.NONE, answer
            if answer.active_tasks:
                return answer
            answer = self.beat(member, answer.member_epoch)
        raise AssertionError("not reached")

    def describe(self) -> Any:
        request = streams_group_describe.Request(group_ids=[self.group], include_authorized_operations=True)
        return ask_at(self.address, streams_group_describe.API, request).groups[0]

    def listed(self, *states: str) -> list[tuple[str, str, str]]:
        request = list_groups.Request(states_filter=list(states), types_filter=["Streams"])
        groups = ask_at(self.address, list_groups.API, request).groups
        return [(one.protocol_type, one.group_state, one.group_type) for one in groups if one.group_id == self.group]

    def commit(self, member: str, epoch: int) -> int:
        part = offset_commit.RequestPartition(
            partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=None
        )
        request = offset_commit.Request(
            group_id=self.group, member_id=member, generation_id_or_member_epoch=epoch,
            topics=[offset_commit.RequestTopic(name=self.source, partitions=[part])],
        )  # fmt: skip
        (topic,) = ask_at(self.address, offset_commit.API, request, 9).topics
        return int(topic.partitions[0].error_code)


def statuses(answer: Any) -> list[int]:
    assert answer.error_code == ErrorCode.NONE, answer
    return [one.status_code for one in answer.status]


@pytest.fixture
def streams(bridge_with: Callable[..., BridgeThread]) -> Streams:
    bridge = bridge_with(groups={"consumer_heartbeat_interval_ms": 200})
    wait_until_shared(bridge)
    return Streams(bridge.kafka)


def test_internal_topics_are_made_and_tasks_are_given(streams: Streams) -> None:
    answer = streams.join()
    assert statuses(answer) == [StatusCode.ASSIGNMENT_DELAYED, StatusCode.MISSING_INTERNAL_TOPICS]
    assert (answer.member_id, answer.active_tasks, answer.heartbeat_interval_ms) == ("m", [], 200)
    answer = streams.until_given()
    assert [(one.subtopology_id, one.partitions) for one in answer.active_tasks] == [("0", [0, 1]), ("1", [0, 1])]
    resource = describe_configs.RequestResource(
        resource_type=TOPIC_CONFIG, resource_name=streams.log, configuration_keys=["cleanup.policy"]
    )
    (described,) = ask_at(streams.address, describe_configs.API, describe_configs.Request(resources=[resource])).results
    assert [(one.name, one.value) for one in described.configs] == [("cleanup.policy", "compact")]
    group = streams.describe()
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == (
        "Stable",
        answer.member_epoch,
        answer.member_epoch,
    )
    infos = [
        (one.name, one.partitions)
        for part in group.topology.subtopologies
        for one in (*part.state_changelog_topics, *part.repartition_source_topics)
    ]
    assert infos == [(streams.log, 2), (streams.by_key, 2)]
    assert group.authorized_operations != -(2**31)
    (member,) = group.members
    assert [one.partitions for one in member.assignment.active_tasks] == [[0, 1], [0, 1]]
    assert member.assignment == member.target_assignment
    assert streams.listed() == [("streams", "Stable", "streams")]
    assert streams.listed("empty") == []


def test_offsets_are_the_members_and_the_group_is_deleted_when_it_has_none(streams: Streams) -> None:
    epoch = streams.until_given().member_epoch
    assert streams.commit("m", epoch) == ErrorCode.NONE
    assert streams.commit("m", epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert streams.commit("x", epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    asked = offset_fetch.RequestGroup(group_id=streams.group, member_id="m", member_epoch=epoch, topics=None)
    (group,) = ask_at(streams.address, offset_fetch.API, offset_fetch.Request(groups=[asked]), 9).groups
    assert [(one.name, one.partitions[0].committed_offset) for one in group.topics] == [(streams.source, 1)]
    delete = delete_groups.Request(groups_names=[streams.group])

    def deleted() -> int:
        return int(ask_at(streams.address, delete_groups.API, delete).results[0].error_code)

    assert deleted() == ErrorCode.NON_EMPTY_GROUP
    described = ask_at(streams.address, describe_groups.API, describe_groups.Request(groups=[streams.group])).groups[0]
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    left = streams.beat("m", -1)
    assert (left.error_code, left.member_epoch, left.status) == (ErrorCode.NONE, -1, [])
    assert streams.listed("Empty") == [("streams", "Empty", "streams")]
    assert deleted() == ErrorCode.NONE
    assert streams.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("partitions", "made", "status"),
    [
        (0, {}, StatusCode.MISSING_SOURCE_TOPICS),
        (2, {"log": 3}, StatusCode.INCORRECTLY_PARTITIONED_TOPICS),
    ],
)
def test_topics_that_do_not_fit_are_told(
    bridge: BridgeThread, partitions: int, made: dict[str, int], status: StatusCode
) -> None:
    streams = Streams(bridge.kafka, partitions)
    for name, count in made.items():
        streams.create(getattr(streams, name), count)
    answer = streams.join()
    assert statuses(answer) == [StatusCode.ASSIGNMENT_DELAYED, status]
    assert streams.describe().group_state == "NotReady"
    assert streams.listed("not_ready") == streams.listed("NotReady") == [("streams", "NotReady", "streams")]


def test_an_internal_topic_that_cannot_be_made_is_told_by_the_next_status(
    bridge_with: Callable[..., BridgeThread],
) -> None:
    bridge = bridge_with(kafka={"max_partitions_per_topic": 2})
    wait_until_shared(bridge)
    streams = Streams(bridge.kafka)
    topology = streams.topology()
    topology.subtopologies[1].repartition_source_topics[0].partitions = 3
    answer = streams.join(topology=topology)
    for _ in attempts("what failed"):
        (told,) = [one for one in answer.status if one.status_code == StatusCode.MISSING_INTERNAL_TOPICS]
        if "Creation failed" in told.status_detail:
            break
        answer = streams.beat("m", answer.member_epoch)
    assert streams.by_key in told.status_detail
    assert "max_partitions_per_topic" in told.status_detail


NO_TASKS: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"instance_id": "i"}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"task_offsets": [TaskOffset(subtopology_id="0", partition=0, offset=1)]}, ErrorCode.INVALID_REQUEST),
        ({"task_end_offsets": []}, ErrorCode.INVALID_REQUEST),
        ({"warmup_tasks": [TaskIds(subtopology_id="0", partitions=[0])]}, ErrorCode.INVALID_REQUEST),
        ({"active_tasks": [TaskIds(subtopology_id="0", partitions=[0])]}, ErrorCode.INVALID_REQUEST),
        ({"standby_tasks": None}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topology": None}, ErrorCode.INVALID_REQUEST),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 5}, ErrorCode.INVALID_REQUEST),  # with a topology
        ({"member_epoch": 5, "topology": None}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1, "topology": None}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
    ids=str,
)
def test_what_is_no_heartbeat_is_refused(bridge: BridgeThread, fields: dict[str, Any], code: ErrorCode) -> None:
    streams = Streams(bridge.kafka, 0)
    said = {"group_id": streams.group, "member_id": "m", "member_epoch": 0, "topology": streams.topology()}
    more = {"rebalance_timeout_ms": 1, "process_id": "p", "endpoint_information_epoch": 0}
    request = streams_group_heartbeat.Request(**{**said, **more, **NO_TASKS, **fields})
    answer = ask_at(streams.address, streams_group_heartbeat.API, request)
    assert answer.error_code == code, answer
    assert answer.error_message


def test_topologies_that_cannot_be_are_refused(bridge: BridgeThread) -> None:
    streams = Streams(bridge.kafka, 0)
    for wrong in ({"partitions": 3}, {"name": "not legal!"}, {"name": "__consumer_offsets"}):
        assert streams.join(topology=streams.topology(**wrong)).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    regular = streams.topology()
    regular.subtopologies[0].source_topic_regex = ["a.*"]
    assert streams.join(topology=regular).error_code == ErrorCode.INVALID_REQUEST
    assert streams.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_endpoints_are_told_to_all(streams: Streams) -> None:
    streams.until_given()
    answer = streams.join("n", user_endpoint=Endpoint(host="host", port=65_535))
    (told,) = answer.partitions_by_user_endpoint
    assert (told.user_endpoint.host, told.user_endpoint.port, told.active_partitions) == ("host", 65_535, [])
    told_again = streams.beat("n", answer.member_epoch, endpoint_information_epoch=answer.endpoint_information_epoch)
    assert told_again.partitions_by_user_endpoint is None


def test_a_group_outlives_its_bridge(bridge_with: Callable[..., BridgeThread]) -> None:
    first = bridge_with()
    wait_until_shared(first)
    streams = Streams(first.kafka)
    given = streams.until_given()
    first.stop()
    streams.address = bridge_with().kafka
    for _ in attempts("the next coordinator"):
        answer = streams.beat("m", given.member_epoch)
        if not ErrorCode(answer.error_code).retriable:
            break
    assert (answer.error_code, answer.member_epoch, answer.active_tasks) == (ErrorCode.NONE, given.member_epoch, None)
    assert streams.join().active_tasks == given.active_tasks


def test_clients_are_told_of_streams_groups(bridge: BridgeThread) -> None:
    answer = ask_at(bridge.kafka, api_versions.API, api_versions.Request(), 4)
    assert {88, 89}.issubset({one.api_key for one in answer.api_keys})
    assert "streams.version" in {one.name for one in answer.finalized_features}
