"""Offsets of groups: committed, asked for, forgotten."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from bridge.apis import offset_commit, offset_delete, offset_fetch
from tests.clients.refusals.case import Case

NOWHERE = UUID(int=12345)


def commit(group: str, topic: str, partition: int = 0, *, offset: int = 1, note: str = "", **fields: Any) -> Any:
    """An OffsetCommit for one partition."""
    one = offset_commit.RequestPartition(partition_index=partition, committed_offset=offset, committed_metadata=note)
    topics = [offset_commit.RequestTopic(name=topic, topic_id=fields.pop("topic_id", UUID(int=0)), partitions=[one])]
    return offset_commit.Request(group_id=group, topics=topics, **fields)


def as_member(member: str, generation: int, instance: str | None = None) -> dict[str, Any]:
    """Who commits."""
    return {"member_id": member, "generation_id_or_member_epoch": generation, "group_instance_id": instance}


def fetch(group: str, topic: str, partition: int = 0, **fields: Any) -> Any:
    """An OffsetFetch of one partition."""
    wanted = offset_fetch.Topic(name=topic, topic_id=fields.pop("topic_id", UUID(int=0)), partition_indexes=[partition])
    asked = offset_fetch.RequestGroup(group_id=group, topics=[wanted], **fields)
    return offset_fetch.Request(groups=[asked])


def forget(group: str, topic: str, partition: int = 0) -> Any:
    """An OffsetDelete of one partition."""
    partitions = [offset_delete.RequestPartition(partition_index=partition)]
    return offset_delete.Request(group_id=group, topics=[offset_delete.RequestTopic(name=topic, partitions=partitions)])


COMMIT, FETCH, FORGET = offset_commit.API, offset_fetch.API, offset_delete.API

CASES = [
    Case("no group", COMMIT, lambda w: commit("", w.topic), "NONE", version=8),
    Case("unknown topic", COMMIT, lambda w: commit("g", w.missing), "UNKNOWN_TOPIC_OR_PARTITION", version=8),
    Case("unknown partition", COMMIT, lambda w: commit("g", w.topic, 9), "UNKNOWN_TOPIC_OR_PARTITION", version=8),
    Case("negative partition", COMMIT, lambda w: commit("g", w.topic, -1), "UNKNOWN_TOPIC_OR_PARTITION", version=8),
    Case("wrong topic name", COMMIT, lambda w: commit("g", "a b"), "UNKNOWN_TOPIC_OR_PARTITION", version=8),
    Case("negative offset", COMMIT, lambda w: commit("g", w.topic, offset=-1), "NONE", version=8),
    Case("offset -5", COMMIT, lambda w: commit("g", w.topic, offset=-5), "NONE", version=8),
    Case("note too long", COMMIT, lambda w: commit("g", w.topic, note="x" * 4097), "OFFSET_METADATA_TOO_LARGE",
         version=8),
    Case("note of 4096", COMMIT, lambda w: commit("g", w.topic, note="x" * 4096), "NONE", version=8),
    Case("member of no group", COMMIT, lambda w: commit(w.missing, w.topic, **as_member("unknown", 1)),
         "ILLEGAL_GENERATION", version=8),
    Case("member of no group, v9", COMMIT, lambda w: commit(w.missing, w.topic, **as_member("unknown", 1)),
         "GROUP_ID_NOT_FOUND", version=9),
    Case("unknown member", COMMIT, lambda w: commit(w.group, w.topic, **as_member("unknown", w.generation)),
         "UNKNOWN_MEMBER_ID", version=8),
    Case("generation of the past", COMMIT, lambda w: commit(w.group, w.topic, **as_member(w.member, w.generation - 1)),
         "ILLEGAL_GENERATION", version=8),
    Case("no member, while the group has members", COMMIT, lambda w: commit(w.group, w.topic), "UNKNOWN_MEMBER_ID",
         version=8),
    Case("member without a generation", COMMIT, lambda w: commit(w.group, w.topic, **as_member(w.member, -1)),
         "ILLEGAL_GENERATION", version=8),
    Case("static member by another id", COMMIT, lambda w: commit(w.group, w.topic, **as_member("unknown", w.generation,
         "static")), "FENCED_INSTANCE_ID", version=8),
    Case("unknown static member", COMMIT, lambda w: commit(w.group, w.topic, **as_member("unknown", w.generation,
         "unheard-of")), "UNKNOWN_MEMBER_ID", version=8),
    Case("unknown member, new protocol", COMMIT, lambda w: commit(w.consumers, w.topic, **as_member("unknown", 1)),
         "UNKNOWN_MEMBER_ID", version=9),
    Case("epoch of the future", COMMIT, lambda w: commit(w.consumers, w.topic, **as_member(w.consumer, 99)),
         "STALE_MEMBER_EPOCH", version=9),
    Case("epoch of the past", COMMIT, lambda w: commit(w.consumers, w.topic, **as_member(w.consumer, 0)),
         "STALE_MEMBER_EPOCH", version=9),
    Case("epoch of the past, before v9", COMMIT, lambda w: commit(w.consumers, w.topic, **as_member(w.consumer, 0)),
         "UNSUPPORTED_VERSION", version=8),
    Case("no member, new protocol", COMMIT, lambda w: commit(w.consumers, w.topic), "UNKNOWN_MEMBER_ID",
         version=9),
    Case("no topics", COMMIT, lambda w: offset_commit.Request(group_id="g"), "NONE", version=8),
    #
    Case("no group", FETCH, lambda w: fetch("", w.topic), "NONE", version=8),
    Case("unknown group", FETCH, lambda w: fetch(w.missing, w.topic), "NONE", version=8),
    Case("unknown topic", FETCH, lambda w: fetch(w.group, w.missing), "NONE", version=8),
    Case("unknown partition", FETCH, lambda w: fetch(w.group, w.topic, 9), "NONE", version=8),
    Case("wrong topic name", FETCH, lambda w: fetch(w.group, "a b"), "NONE", version=8),
    Case("no groups", FETCH, lambda w: offset_fetch.Request(groups=[]), "NONE", version=8),
    Case("unknown group, before v8", FETCH, lambda w: offset_fetch.Request(group_id=w.missing,
         topics=[offset_fetch.Topic(name=w.topic, partition_indexes=[0])]), "NONE", version=5),
    Case("unknown member", FETCH, lambda w: fetch(w.consumers, w.topic, member_id="unknown", member_epoch=1),
         "UNKNOWN_MEMBER_ID", version=9),
    Case("epoch of the past", FETCH, lambda w: fetch(w.consumers, w.topic, member_id=w.consumer, member_epoch=0),
         "STALE_MEMBER_EPOCH", version=9),
    Case("epoch of the future", FETCH, lambda w: fetch(w.consumers, w.topic, member_id=w.consumer, member_epoch=99),
         "STALE_MEMBER_EPOCH", version=9),
    Case("member of an unknown group", FETCH, lambda w: fetch(w.missing, w.topic, member_id="unknown", member_epoch=1),
         "NONE", version=9),
    Case("member of the classic group", FETCH, lambda w: fetch(w.group, w.topic, member_id="unknown", member_epoch=1),
         "NONE", version=9),
    #
    Case("no group", FORGET, lambda w: forget("", w.topic), "INVALID_GROUP_ID"),
    Case("unknown group", FORGET, lambda w: forget(w.missing, w.topic), "GROUP_ID_NOT_FOUND"),
    Case("subscribed topic", FORGET, lambda w: forget(w.group, w.topic), "NONE"),
    Case("topic subscribed in the new protocol", FORGET, lambda w: forget(w.consumers, w.topic),
         "GROUP_SUBSCRIBED_TO_TOPIC"),
    Case("unknown topic", FORGET, lambda w: forget(w.group, w.missing), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("unknown partition", FORGET, lambda w: forget(w.group, w.topic, 9), "UNKNOWN_TOPIC_OR_PARTITION"),
]  # fmt: skip
