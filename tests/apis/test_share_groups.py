"""Share groups by their raw requests, on a real Pulsar: members, states of partitions, offsets, restarts."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from bridge.apis import (
    alter_share_group_offsets,
    consumer_group_describe,
    create_topics,
    delete_groups,
    delete_share_group_offsets,
    describe_groups,
    describe_share_group_offsets,
    list_groups,
    share_group_describe,
    share_group_heartbeat,
)
from bridge.kafka.error_codes import ErrorCode
from tests.apis.configs import configure_group
from tests.apis.wire import ask_at, unique
from tests.support.bridges import BridgeThread
from tests.support.group_slots import wait_until_shared

NOT_THERE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Shares:
    """One share group and one topic of two partitions, at a bridge."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.group, self.topic = unique("shares"), unique("shared")
        wanted = create_topics.RequestTopic(
            name=self.topic, num_partitions=2, replication_factor=1, assignments=[], configs=[]
        )
        (made,) = ask_at(address, create_topics.API, create_topics.Request(topics=[wanted])).topics
        self.topic_id: uuid.UUID = made.topic_id
        self.assign_each(0)

    def assign_each(self, milliseconds: int) -> None:
        """Nothing is assigned twice within this time."""
        configure_group(self.address, self.group, {"share.assignment.interval.ms": str(milliseconds)})

    def beat(self, member: str, epoch: int, *topics: str, **fields: Any) -> Any:
        values = {"group_id": self.group, "subscribed_topic_names": list(topics) or None, **fields}
        request = share_group_heartbeat.Request(member_id=member, member_epoch=epoch, **values)
        return ask_at(self.address, share_group_heartbeat.API, request)

    def join(self, member: str) -> dict[uuid.UUID, list[int]]:
        answer = self.beat(member, 0, self.topic)
        assert answer.error_code == 0, answer
        return {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}

    def describe(self) -> Any:
        request = share_group_describe.Request(group_ids=[self.group], include_authorized_operations=False)
        return ask_at(self.address, share_group_describe.API, request).groups[0]

    def listed(self, *states: str) -> list[tuple[str, str, str, str]]:
        request = list_groups.Request(states_filter=list(states), types_filter=["Share"])
        groups = ask_at(self.address, list_groups.API, request).groups
        shown = [(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in groups]
        return [one for one in shown if one[0] == self.group]

    def starts(self, *partitions: int) -> dict[int, int]:
        """Where partitions begin; of all where none is named."""
        topics = [describe_share_group_offsets.Topic(topic_name=self.topic, partitions=list(partitions))]
        asked = describe_share_group_offsets.RequestGroup(group_id=self.group, topics=topics if partitions else None)
        request = describe_share_group_offsets.Request(groups=[asked])
        (group,) = ask_at(self.address, describe_share_group_offsets.API, request).groups
        assert group.error_code == 0, group
        assert [(one.topic_name, one.topic_id) for one in group.topics] in ([], [(self.topic, self.topic_id)])
        return {one.partition_index: one.start_offset for topic in group.topics for one in topic.partitions}

    def alter(self, start: int, *partitions: int, topic: str = "") -> Any:
        wanted = [alter_share_group_offsets.RequestPartition(partition_index=one, start_offset=start)
                  for one in partitions]  # fmt: skip
        topics = [alter_share_group_offsets.RequestTopic(topic_name=topic or self.topic, partitions=wanted)]
        request = alter_share_group_offsets.Request(group_id=self.group, topics=topics)
        return ask_at(self.address, alter_share_group_offsets.API, request)

    def forget(self, *topics: str) -> Any:
        wanted = [delete_share_group_offsets.RequestTopic(topic_name=one) for one in topics]
        request = delete_share_group_offsets.Request(group_id=self.group, topics=wanted)
        return ask_at(self.address, delete_share_group_offsets.API, request)

    def delete(self) -> int:
        request = delete_groups.Request(groups_names=[self.group])
        return int(ask_at(self.address, delete_groups.API, request).results[0].error_code)


@pytest.fixture
def shares(bridge: BridgeThread) -> Shares:
    return Shares(bridge.kafka)


def test_members_share_the_partitions_of_a_topic(shares: Shares) -> None:
    assert shares.join("m") == {shares.topic_id: [0, 1]}
    assert shares.starts() == {0: -1, 1: -1}
    (second,) = shares.join("n").values()
    beat = shares.beat("m", 1)
    assert (beat.member_epoch, beat.heartbeat_interval_ms) == (2, 5000)
    (first,) = (one.partitions for one in beat.assignment.topic_partitions)
    assert sorted(first + second) == [0, 1]
    shares.join("o")
    group = shares.describe()
    assert (group.group_state, group.group_epoch, group.assignor_name) == ("Stable", 3, "simple")
    assert [(one.member_id, one.subscribed_topic_names) for one in group.members] == [
        (name, [shares.topic]) for name in "mno"
    ]
    assert shares.listed("stable") == [(shares.group, "share", "Stable", "share")]
    assert shares.listed("empty") == []


def test_who_joins_within_the_assignment_interval_waits_for_its_end(shares: Shares) -> None:
    shares.assign_each(15_000)
    assert shares.join("m") == {shares.topic_id: [0, 1]}
    assert shares.join("n") == {}
    assert shares.beat("n", 1).assignment is None
    shares.assign_each(0)
    (given,) = shares.beat("n", 1).assignment.topic_partitions
    assert (given.topic_id, len(given.partitions)) == (shares.topic_id, 1)


@pytest.mark.parametrize(
    ("member", "epoch", "fields", "error", "text"),
    [
        ("", 0, {}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        ("m", 0, {"group_id": " "}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        ("m", 0, {"rack_id": ""}, ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
        ("m", 0, {"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST,
         "SubscribedTopicNames must be set in first request."),
        ("m", 0, {"subscribed_topic_names": []}, ErrorCode.INVALID_REQUEST,
         "SubscribedTopicNames must be set in first request."),
        ("m", -2, {}, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
        ("m", 1, {"group_id": "nobody"}, ErrorCode.GROUP_ID_NOT_FOUND, "Share group nobody not found."),
        ("m", -1, {"group_id": "nobody"}, ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found."),
    ],
)  # fmt: skip
def test_a_bad_heartbeat_is_told_what_kafka_says(
    shares: Shares, member: str, epoch: int, fields: dict[str, Any], error: ErrorCode, text: str
) -> None:
    answer = shares.beat(member, epoch, shares.topic, **fields)
    assert (answer.error_code, answer.error_message) == (error, text)
    assert (answer.member_id, answer.member_epoch, answer.assignment) == (None, 0, None)


def test_offsets_are_altered_and_forgotten_when_nobody_is_a_member(shares: Shares) -> None:
    assert shares.alter(7, 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    shares.join("m")
    for answer in (shares.alter(7, 0), shares.forget(shares.topic)):
        assert (answer.error_code, answer.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    assert shares.delete() == ErrorCode.NON_EMPTY_GROUP
    shares.beat("m", -1)
    assert shares.listed("EMPTY") == [(shares.group, "share", "Empty", "share")]
    (altered,) = shares.alter(7, 1, 9).responses
    assert altered.topic_id == shares.topic_id
    assert [(one.partition_index, one.error_code) for one in altered.partitions] == [(1, 0), (9, NOT_THERE)]
    (altered,) = shares.alter(-5, 0).responses
    assert altered.partitions[0].error_code == ErrorCode.INVALID_REQUEST
    (altered,) = shares.alter(7, 0, topic="nowhere").responses
    assert altered.partitions[0].error_code == NOT_THERE
    assert shares.starts() == {0: -1, 1: 7}
    assert shares.starts(1, 9) == {1: 7, 9: -1}
    assert [one.error_code for one in shares.forget(shares.topic, "nowhere").responses] == [0, NOT_THERE]
    (again,) = shares.forget(shares.topic).responses
    assert (again.error_code, again.error_message) == (NOT_THERE, "There is no offset information to delete.")
    assert shares.starts() == {}


def test_a_deleted_group_begins_anew(shares: Shares) -> None:
    shares.join("m")
    shares.beat("m", -1)
    shares.alter(7, 0, 1)
    assert shares.delete() == ErrorCode.NONE
    assert shares.delete() == ErrorCode.GROUP_ID_NOT_FOUND
    assert (shares.describe().error_code, shares.listed(), shares.starts()) == (ErrorCode.GROUP_ID_NOT_FOUND, [], {})
    shares.join("m")
    assert shares.starts() == {0: -1, 1: -1}


def test_other_descriptions_say_that_it_is_of_another_type(shares: Shares) -> None:
    shares.join("m")
    asked = describe_groups.Request(groups=[shares.group])
    (classic,) = ask_at(shares.address, describe_groups.API, asked).groups
    assert (classic.error_code, classic.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {shares.group} is not a classic group.",
    )
    request = consumer_group_describe.Request(group_ids=[shares.group], include_authorized_operations=False)
    (consumer,) = ask_at(shares.address, consumer_group_describe.API, request).groups
    assert consumer.error_message == f"Group {shares.group} is not a consumer group."


def test_members_and_offsets_are_there_after_a_restart(
    bridge_with: Callable[..., BridgeThread], namespace: str
) -> None:
    first = bridge_with()
    wait_until_shared(first)
    shares = Shares(first.kafka)
    shares.join("m")
    shares.beat("m", -1)
    shares.alter(7, 0)
    assigned = shares.join("n")
    before = shares.describe()
    first.stop()
    second = bridge_with()
    wait_until_shared(second)
    shares.address = second.kafka
    beat = shares.beat("n", before.group_epoch, shares.topic)
    assert (beat.error_code, beat.member_epoch) == (0, before.group_epoch)
    assert {one.topic_id: one.partitions for one in beat.assignment.topic_partitions} == assigned
    assert shares.describe() == before
    assert shares.starts() == {0: 7, 1: -1}
