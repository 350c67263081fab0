"""Committed offsets of topics that are named by their ids (OffsetCommit and OffsetFetch v10)."""

import uuid
from typing import Any

from bridge.apis import create_topics, delete_topics, offset_commit, offset_fetch
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread

NOWHERE = uuid.UUID(int=12345)


def created(bridge: BridgeThread, name: str) -> uuid.UUID:
    """A new topic's id."""
    topic = create_topics.RequestTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    (made,) = ask(bridge, create_topics.API, create_topics.Request(topics=[topic])).topics
    assert made.error_code == ErrorCode.NONE, made.error_message
    found: uuid.UUID = made.topic_id
    return found


def deleted(bridge: BridgeThread, topic_id: uuid.UUID) -> None:
    wanted = [delete_topics.RequestTopic(topic_id=topic_id)]
    (gone,) = ask(bridge, delete_topics.API, delete_topics.Request(topics=wanted, timeout_ms=30_000)).responses
    assert gone.error_code == ErrorCode.NONE


def commit(bridge: BridgeThread, group: str, *topics: tuple[uuid.UUID, int]) -> list[tuple[uuid.UUID, int]]:
    """Commit (topic id, offset); what each is told."""
    wanted = [
        offset_commit.RequestTopic(
            topic_id=topic_id,
            partitions=[offset_commit.RequestPartition(partition_index=0, committed_offset=offset)],
        )
        for topic_id, offset in topics
    ]
    answer = ask(bridge, offset_commit.API, offset_commit.Request(group_id=group, topics=wanted), 10)
    return [(topic.topic_id, topic.partitions[0].error_code) for topic in answer.topics]


def fetched(bridge: BridgeThread, group: str, *ids: uuid.UUID) -> list[tuple[uuid.UUID, int, int]]:
    """(topic id, offset, error) of these topics, or of all."""
    topics = [offset_fetch.Topic(topic_id=topic_id, partition_indexes=[0]) for topic_id in ids]
    asked = offset_fetch.RequestGroup(group_id=group, topics=topics or None)
    (found,) = ask(bridge, offset_fetch.API, offset_fetch.Request(groups=[asked]), 10).groups
    assert found.error_code == ErrorCode.NONE
    return [(one.topic_id, one.partitions[0].committed_offset, one.partitions[0].error_code) for one in found.topics]


def test_an_offset_is_committed_and_fetched_by_id(bridge: BridgeThread) -> None:
    group, topic_id = unique("ids"), created(bridge, unique("ids"))
    unknown: Any = ErrorCode.UNKNOWN_TOPIC_ID
    assert commit(bridge, group, (NOWHERE, 1), (topic_id, 7), (uuid.UUID(int=0), 1)) == [
        (NOWHERE, unknown), (topic_id, 0), (uuid.UUID(int=0), unknown),
    ]  # fmt: skip
    assert fetched(bridge, group, NOWHERE, topic_id) == [(NOWHERE, -1, unknown), (topic_id, 7, 0)]
    assert fetched(bridge, group) == [(topic_id, 7, 0)]


def test_commits_to_a_deleted_topic_do_not_reach_a_new_one_of_its_name(bridge: BridgeThread) -> None:
    group, name = unique("ids"), unique("ids")
    old = created(bridge, name)
    assert commit(bridge, group, (old, 7)) == [(old, 0)]
    deleted(bridge, old)
    new = created(bridge, name)
    assert new != old
    assert commit(bridge, group, (old, 8)) == [(old, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert fetched(bridge, group, old, new) == [(old, -1, ErrorCode.UNKNOWN_TOPIC_ID), (new, -1, 0)]


def test_deleted_topics_are_left_out_of_all_topics(bridge: BridgeThread) -> None:
    group, stays, goes = unique("ids"), created(bridge, unique("stays")), created(bridge, unique("goes"))
    commit(bridge, group, (stays, 1), (goes, 2))
    assert sorted(fetched(bridge, group)) == sorted([(stays, 1, 0), (goes, 2, 0)])
    deleted(bridge, goes)
    assert fetched(bridge, group) == [(stays, 1, 0)]
