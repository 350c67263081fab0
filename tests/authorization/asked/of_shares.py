"""Share groups, their members, offsets and records."""

from __future__ import annotations

from typing import Any

from bridge.apis import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
)
from tests.authorization.asked.row import Row
from tests.authorization.world import GROUPS, MISSING, SHARES, TOPICS, World

NO_GROUPS = ("mine-no-group", "other-no-group")
BEAT, DESCRIBE = share_group_heartbeat.API, share_group_describe.API
OFFSETS, ALTER, FORGET = describe_share_group_offsets.API, alter_share_group_offsets.API, delete_share_group_offsets.API
OFFSETS_OF_4_1, RECORDS_OF_4_1 = 0, 1
"""The newest versions of the real Kafka."""
MEMBER = "AAAAAAAAAAAAAAAAAAAAEg"
"""As Kafka reads members' ids in a ShareFetch."""


def _beat(group: str, *topics: str) -> Any:
    """Of a member that the group does not have, so that nothing changes."""
    return share_group_heartbeat.Request(
        group_id=group, member_id="unknown", member_epoch=5, subscribed_topic_names=list(topics)
    )


def _describe(world: World) -> Any:
    return share_group_describe.Request(group_ids=[*SHARES, *NO_GROUPS, *GROUPS], include_authorized_operations=True)


def _offsets(everything: bool) -> Any:
    topics = [describe_share_group_offsets.Topic(topic_name=name, partitions=[0]) for name in (*TOPICS, *MISSING)]
    groups = [
        describe_share_group_offsets.RequestGroup(group_id=name, topics=None if everything else topics)
        for name in SHARES
    ]
    return describe_share_group_offsets.Request(groups=groups)


def _alter(world: World) -> Any:
    partition = alter_share_group_offsets.RequestPartition(partition_index=0, start_offset=0)
    topic = alter_share_group_offsets.RequestTopic(topic_name=TOPICS[0], partitions=[partition])
    return alter_share_group_offsets.Request(group_id=SHARES[0], topics=[topic])


def _forget(group: str) -> Any:
    topics = [delete_share_group_offsets.RequestTopic(topic_name=name) for name in MISSING]
    return delete_share_group_offsets.Request(group_id=group, topics=topics)


def _fetch(world: World) -> Any:
    return share_fetch.Request(
        group_id=SHARES[0], member_id=MEMBER, share_session_epoch=5, max_wait_ms=0, min_bytes=0, max_bytes=1000,
        max_records=10, batch_size=10, topics=[], forgotten_topics_data=[],
    )  # fmt: skip


def _acknowledge(world: World) -> Any:
    return share_acknowledge.Request(group_id=SHARES[0], member_id=MEMBER, share_session_epoch=5, topics=[])


ROWS = [
    Row(BEAT, "a topic that it may see", lambda w: _beat(SHARES[0], TOPICS[0])),
    Row(BEAT, "one that it may not see", lambda w: _beat(SHARES[0], *TOPICS)),
    Row(BEAT, "topics that are not there", lambda w: _beat(SHARES[0], *MISSING)),
    Row(BEAT, "unknown group", lambda w: _beat(NO_GROUPS[0], TOPICS[0])),
    Row(DESCRIBE, "with operations", _describe),
    Row(OFFSETS, "by name", lambda w: _offsets(everything=False), version=OFFSETS_OF_4_1),
    Row(OFFSETS, "everything", lambda w: _offsets(everything=True), version=OFFSETS_OF_4_1),
    Row(ALTER, "to the beginning", _alter),
    Row(FORGET, "topics that are not there", lambda w: _forget(SHARES[0])),
    Row(FORGET, "unknown group", lambda w: _forget(NO_GROUPS[0])),
    Row(share_fetch.API, "unknown session", _fetch, version=RECORDS_OF_4_1),
    Row(share_acknowledge.API, "unknown session", _acknowledge, version=RECORDS_OF_4_1),
]
