"""Groups of the new consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from bridge.apis import consumer_group_describe, consumer_group_heartbeat
from tests.clients.refusals.case import Case

NOWHERE = UUID(int=12345)


def beat(group: str, member: str = "m", epoch: int = 0, **fields: Any) -> Any:
    """A ConsumerGroupHeartbeat; of a member that joins, if not said otherwise."""
    joining = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    values = {**(joining if epoch == 0 else {}), **fields}
    return consumer_group_heartbeat.Request(group_id=group, member_id=member, member_epoch=epoch, **values)


def owns(topic_id: UUID, *partitions: int) -> dict[str, Any]:
    """What a member says to own."""
    return {
        "topic_partitions": [consumer_group_heartbeat.TopicPartitions(topic_id=topic_id, partitions=list(partitions))]
    }


def describe(*groups: str) -> Any:
    """A ConsumerGroupDescribe."""
    return consumer_group_describe.Request(group_ids=list(groups), include_authorized_operations=False)


BEAT, DESCRIBE = consumer_group_heartbeat.API, consumer_group_describe.API

CASES = [
    Case("no group", BEAT, lambda w: beat(""), "INVALID_REQUEST: GroupId can't be empty."),
    Case("group of blanks", BEAT, lambda w: beat("  "), "INVALID_REQUEST: GroupId can't be empty."),
    Case("no member", BEAT, lambda w: beat("g", ""), "INVALID_REQUEST: MemberId can't be empty."),
    Case("no member, v0, not joining", BEAT, lambda w: beat("g", "", 1), "INVALID_REQUEST: MemberId can't be empty.",
         version=0),
    Case("empty instance", BEAT, lambda w: beat("g", instance_id=""), "INVALID_REQUEST: InstanceId can't be empty."),
    Case("empty rack", BEAT, lambda w: beat("g", rack_id=""), "INVALID_REQUEST: RackId can't be empty."),
    Case("no rebalance timeout", BEAT, lambda w: beat("g", rebalance_timeout_ms=-1),
         "INVALID_REQUEST: RebalanceTimeoutMs must be provided in first request."),
    Case("owns something while joining", BEAT, lambda w: beat("g", **owns(NOWHERE, 0)),
         "INVALID_REQUEST: TopicPartitions must be empty when (re-)joining."),
    Case("does not say what it owns while joining", BEAT, lambda w: beat("g", topic_partitions=None),
         "INVALID_REQUEST: TopicPartitions must be empty when (re-)joining."),
    Case("subscribes to nothing", BEAT, lambda w: beat("g", subscribed_topic_names=None),
         "INVALID_REQUEST: Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."),
    Case("subscribes to nothing, v0", BEAT, lambda w: beat("g", subscribed_topic_names=None),
         "INVALID_REQUEST: Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
         version=0),
    Case("leaves as static without an instance", BEAT, lambda w: beat("g", epoch=-2),
         "INVALID_REQUEST: InstanceId can't be null."),
    Case("epoch -3", BEAT, lambda w: beat("g", epoch=-3), "INVALID_REQUEST: MemberEpoch is invalid."),
    Case("unknown assignor", BEAT, lambda w: beat("g", server_assignor="elsewhere"),
         "UNSUPPORTED_ASSIGNOR: ServerAssignor elsewhere is not supported. Supported assignors: uniform, range."),
    Case("bad pattern", BEAT, lambda w: beat("g", subscribed_topic_names=None, subscribed_topic_regex="("),
         "INVALID_REGULAR_EXPRESSION: SubscribedTopicRegex `(` is not a valid regular expression: missing closing "
         ")."),
    Case("unknown group", BEAT, lambda w: beat(w.missing, epoch=5),
         "GROUP_ID_NOT_FOUND: Consumer group {missing} not found."),
    Case("unknown group, leaving", BEAT, lambda w: beat(w.missing, epoch=-1),
         "GROUP_ID_NOT_FOUND: Group {missing} not found."),
    Case("unknown member", BEAT, lambda w: beat(w.consumers, "unknown", 5),
         "UNKNOWN_MEMBER_ID: Member unknown is not a member of group {consumers}."),
    Case("unknown member, leaving", BEAT, lambda w: beat(w.consumers, "unknown", -1),
         "UNKNOWN_MEMBER_ID: Member unknown is not a member of group {consumers}."),
    Case("epoch of the future", BEAT, lambda w: beat(w.consumers, w.consumer, 99),
         "FENCED_MEMBER_EPOCH: The consumer group member has a greater member epoch (99) than the one known by the "
         "group coordinator (1). The member must abandon all its partitions and rejoin."),
    Case("unknown static member", BEAT, lambda w: beat(w.consumers, "unknown", 5, instance_id="unheard-of"),
         "UNKNOWN_MEMBER_ID: Instance id unheard-of is unknown."),
    Case("classic group with members", BEAT, lambda w: beat(w.group),
         "GROUP_ID_NOT_FOUND: Cannot upgrade classic group {group} to consumer group because the embedded consumer "
         "protocol is malformed."),
    Case("classic group, not joining", BEAT, lambda w: beat(w.group, "unknown", 5),
         "GROUP_ID_NOT_FOUND: Group {group} is not a consumer group.",
         ours="UNKNOWN_MEMBER_ID: Member unknown has to join again.",
         why="by Kafka's answer the last member of a group that was downgraded while it was away ends"),
    #
    Case("no group", DESCRIBE, lambda w: describe(""), "INVALID_GROUP_ID"),
    Case("unknown group", DESCRIBE, lambda w: describe(w.missing), "GROUP_ID_NOT_FOUND: Group {missing} not found."),
    Case("classic group", DESCRIBE, lambda w: describe(w.group),
         "GROUP_ID_NOT_FOUND: Group {group} is not a consumer group."),
    Case("named twice", DESCRIBE, lambda w: describe(w.missing, w.missing),
         "GROUP_ID_NOT_FOUND: Group {missing} not found. | GROUP_ID_NOT_FOUND: Group {missing} not found."),
]  # fmt: skip
