"""The new consumer protocol (KIP-848) request by request: epochs, assignments and errors are Kafka's."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from bridge.apis import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    leave_group,
    list_groups,
    metadata,
    offset_delete,
)
from bridge.kafka.error_codes import ErrorCode
from tests.clients.endpoint import Clients, Endpoint, unique
from tests.clients.raw_members import PARTITIONS, Group


def make(endpoint: Endpoint, clients: Clients, number: int = 1) -> Group:
    """A group, and topics that its coordinator has seen: Kafka's sees them some time after they are made."""
    topics = [unique("raw") for _ in range(number)]
    for topic in topics:
        clients["confluent"].create_topic(topic, PARTITIONS)
    probe = Group(endpoint.kafka, topics)
    probe.join("probe")
    probe.settle(lambda: probe.shared("probe"))
    return Group(endpoint.kafka, topics)


@pytest.fixture
def group(endpoint: Endpoint, clients: Clients) -> Group:
    return make(endpoint, clients)


def test_a_member_joins_stays_and_leaves(group: Group) -> None:
    joined = group.join("m")
    assert (joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == ("m", 1, 200)
    assert group.held["m"] == {group.topics[0]: [0, 1, 2, 3]}
    stays = group.silent("m")
    assert (stays.member_id, stays.member_epoch, stays.assignment) == ("m", 1, None)
    left = group.send("m", -1)
    assert (left.error_code, left.member_id, left.member_epoch, left.heartbeat_interval_ms) == (0, "m", -1, 0)
    assert left.assignment is None
    described = group.describe()
    assert (described.group_state, described.group_epoch, described.members) == ("Empty", 2, [])


def test_a_rebalance_step_by_step(group: Group) -> None:
    group.join("m")
    joined = group.join("n")
    assert (joined.member_epoch, joined.assignment.topic_partitions) == (2, [])
    assert group.describe().group_state == "Reconciling"
    revoke = group.silent("m")
    assert (revoke.member_epoch, len(group.held["m"][group.topics[0]])) == (1, 2)
    waits = group.silent("n")
    assert (waits.member_epoch, waits.assignment) == (2, None)
    assert group.silent("m").member_epoch == 1
    done = group.beat("m")
    assert (done.member_epoch, done.assignment is None) == (2, True)
    gets = group.silent("n")
    assert (gets.member_epoch, group.shared("m", "n")) == (2, True)
    described = group.describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 2, 2)
    assert described.assignor_name == "uniform"


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("epoch", "fields", "error"),
    [
        (0, {"group_id": ""}, ErrorCode.INVALID_REQUEST),
        (0, {"instance_id": " "}, ErrorCode.INVALID_REQUEST),
        (0, {"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        (0, {"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        (0, {"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        (0, {"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        (0, {"server_assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        (1, {"member": ""}, ErrorCode.INVALID_REQUEST),
        (-2, {}, ErrorCode.INVALID_REQUEST),
        (-3, {}, ErrorCode.INVALID_REQUEST),
        (1, {}, ErrorCode.GROUP_ID_NOT_FOUND),
        (-1, {}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_what_is_refused(group: Group, version: int, epoch: int, fields: dict[str, Any], error: ErrorCode) -> None:
    values = dict(fields)
    answer = group.send(values.pop("member", "m"), epoch, version, **group.joining(**values))
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (error, None, 0)
    assert answer.error_message


def test_version_0_gives_out_ids_and_version_1_does_not(group: Group) -> None:
    given = group.send("", 0, 0, **group.joining())
    assert (given.error_code, given.member_epoch) == (0, 1)
    assert given.member_id
    assert group.send("", 0, 1, **group.joining()).error_code == ErrorCode.INVALID_REQUEST


def test_epochs_fence(group: Group) -> None:
    group.join("m")
    assert group.send("m", 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert group.send("n", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.send("n", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    group.join("n")
    everything = group.owned("m")
    group.silent("m")
    group.beat("m")
    assert group.epochs["m"] == 2
    assert group.send("m", 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert group.send("m", 1, topic_partitions=everything).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert group.send("m", 1, topic_partitions=group.owned("m")).member_epoch == 2


def test_commits_and_fetches_name_the_epoch(group: Group) -> None:
    assert group.commit("m", 1) == ErrorCode.GROUP_ID_NOT_FOUND
    assert group.commit("m", 1, 8) == ErrorCode.ILLEGAL_GENERATION
    group.join("m")
    assert group.commit("m", 1) == 0
    assert group.commit("m", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.commit("m", 1, 8) == ErrorCode.UNSUPPORTED_VERSION
    assert group.commit("n", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.fetch("m", 1) == (0, [5])
    assert group.fetch(None, -1) == (0, [5])
    assert group.fetch("m", 2) == (ErrorCode.STALE_MEMBER_EPOCH, [])
    assert group.fetch("n", 1) == (ErrorCode.UNKNOWN_MEMBER_ID, [])
    group.send("m", -1)
    assert group.commit("", -1, offset=6) == 0
    assert group.fetch(None, -1) == (0, [6])


def test_a_static_member_comes_back_to_its_partitions(group: Group) -> None:
    group.join("m", instance_id="i")
    group.join("n", instance_id="j")
    group.settle(lambda: group.shared("m", "n"))
    taken = group.send("x", 0, **group.joining(instance_id="i"))
    assert taken.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    left = group.send("m", -2, instance_id="i")
    assert (left.error_code, left.member_id, left.member_epoch) == (0, "m", -2)
    epoch = group.describe().group_epoch
    back = group.join("m2", instance_id="i")
    assert (back.member_epoch, group.held["m2"], group.describe().group_epoch) == (2, group.held["m"], epoch)
    for sent in (2, -1, -2):
        assert group.send("m", sent, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert group.send("m", -1, instance_id="k").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.send("m2", -1, instance_id="i").error_code == 0
    group.settle(lambda: group.shared("n"), "n")


def test_range_gives_the_same_numbers_of_all_topics(endpoint: Endpoint, clients: Clients) -> None:
    group = make(endpoint, clients, 2)
    group.join("a", server_assignor="range")
    group.join("b", server_assignor="range")
    group.settle(lambda: group.shared("a", "b"))
    assert list(group.held["a"].values()) == [[0, 1], [0, 1]]
    assert list(group.held["b"].values()) == [[2, 3], [2, 3]]
    assert group.describe().assignor_name == "range"


def test_a_subscription_changes(endpoint: Endpoint, clients: Clients) -> None:
    group = make(endpoint, clients, 2)
    first, second = group.topics
    group.join("m", subscribed_topic_names=[first])
    group.beat("m", subscribed_topic_names=[first, second])
    assert (group.epochs["m"], sorted(group.held["m"])) == (2, sorted([first, second]))
    group.beat("m", subscribed_topic_names=[second])
    assert (group.epochs["m"], list(group.held["m"])) == (2, [second])
    group.beat("m")
    assert group.epochs["m"] == 3


def test_partitions_that_are_added_are_given_out(group: Group, clients: Clients) -> None:
    group.join("m")
    clients.admin("java").add_partitions(group.topics[0], 6)
    group.settle(lambda: group.shared("m", partitions=range(6)))
    assert group.epochs["m"] == 2


def test_a_pattern_finds_its_topics(endpoint: Endpoint, clients: Clients) -> None:
    group = make(endpoint, clients, 2)
    pattern = "|".join(group.topics)
    group.join("m", subscribed_topic_names=None, subscribed_topic_regex=pattern)
    group.settle(lambda: group.shared("m"))
    (member,) = group.describe().members
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == ([], pattern)
    wrong = group.send("n", 0, **group.joining(subscribed_topic_names=None, subscribed_topic_regex="("))
    assert wrong.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_group_is_described_in_full(group: Group) -> None:
    group.join("m", instance_id="i", rack_id="r")
    (member,) = group.describe().members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", "i", "r", 1)
    assert (member.client_id, member.client_host) == ("", "/127.0.0.1")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (group.topics, "")
    for assigned in (member.assignment, member.target_assignment):
        (one,) = assigned.topic_partitions
        assert (one.topic_id, one.topic_name) == (group.ids[group.topics[0]], group.topics[0])
        assert sorted(one.partitions) == [0, 1, 2, 3]
    assert member.member_type == 1
    (old,) = group.ask(describe_groups, describe_groups.Request(groups=[group.name]), 5).groups
    assert (old.error_code, old.group_state, old.members) == (0, "Dead", [])
    missing = Group(group.address, [])  # it is asked where it would be coordinated
    request = consumer_group_describe.Request(group_ids=[missing.name, ""], include_authorized_operations=False)
    errors = {one.group_id: one.error_code for one in missing.ask(consumer_group_describe, request).groups}
    assert errors == {missing.name: ErrorCode.GROUP_ID_NOT_FOUND, "": ErrorCode.INVALID_GROUP_ID}


def test_groups_are_listed_with_their_type(group: Group) -> None:
    def listed(**filters: list[str]) -> list[tuple[str, str, str]]:
        found = group.ask(list_groups, list_groups.Request(**filters), 5).groups
        return [(one.protocol_type, one.group_state, one.group_type) for one in found if one.group_id == group.name]

    group.join("m")
    assert listed() == [("consumer", "Stable", "consumer")]
    assert listed(types_filter=["Consumer"]) == listed()
    assert listed(types_filter=["classic"]) == []
    assert listed(states_filter=["stable"], types_filter=["classic", "consumer"]) == listed()
    assert listed(states_filter=["Empty"]) == []
    group.send("m", -1)
    assert listed(states_filter=["empty"]) == [("consumer", "Empty", "consumer")]


def test_offsets_and_groups_in_use_stay(group: Group) -> None:
    def delete() -> int:
        return int(group.ask(delete_groups, delete_groups.Request(groups_names=[group.name])).results[0].error_code)

    def forget() -> int:
        partitions = [offset_delete.RequestPartition(partition_index=0)]
        topics = [offset_delete.RequestTopic(name=group.topics[0], partitions=partitions)]
        answer = group.ask(offset_delete, offset_delete.Request(group_id=group.name, topics=topics))
        return int(answer.topics[0].partitions[0].error_code)

    group.join("m")
    assert group.commit("m", 1) == 0
    assert (delete(), forget()) == (ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
    group.send("m", -1)
    assert forget() == 0
    assert group.fetch(None, -1) == (0, [-1])
    assert delete() == 0
    assert group.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_administrator_removes_members(group: Group) -> None:
    group.join("m")
    group.join("n", instance_id="i")
    leaving = [
        leave_group.MemberIdentity(member_id="", group_instance_id="i"),
        leave_group.MemberIdentity(member_id="m"),
        leave_group.MemberIdentity(member_id="x"),
    ]
    answer = group.ask(leave_group, leave_group.Request(group_id=group.name, members=leaving))
    assert [one.error_code for one in answer.members] == [0, 0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.describe().group_state == "Empty"


def test_an_empty_group_becomes_of_the_other_kind_and_keeps_its_offsets(group: Group) -> None:
    joined = group.classic_join()
    assert (joined.error_code, joined.generation_id) == (0, 1)
    assert group.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    group.ask(leave_group, leave_group.Request(group_id=group.name, member_id=joined.member_id), 1)
    assert group.commit("", -1) == 0
    group.join("m")
    assert group.describe().group_state == "Stable"
    assert group.fetch("m", 1) == (0, [5])
    group.send("m", -1)
    assert group.classic_join().error_code == 0
    assert group.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert group.fetch(None, -1) == (0, [5])


@pytest.mark.parametrize("name", [None, ""])
def test_members_find_their_topics_by_id(group: Group, name: str | None) -> None:
    topic_id = group.ids[group.topics[0]]
    asked = [metadata.RequestTopic(name=name, topic_id=one) for one in (topic_id, UUID(int=7))]
    answers = group.ask(metadata, metadata.Request(topics=asked), 12).topics
    assert {(one.error_code, one.name, one.topic_id) for one in answers} == {
        (0, group.topics[0], topic_id),
        (ErrorCode.UNKNOWN_TOPIC_ID, None, UUID(int=7)),
    }
