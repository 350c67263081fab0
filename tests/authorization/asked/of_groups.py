"""Groups of both protocols, their members and offsets."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from bridge.apis import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from tests.authorization.asked.row import Row
from tests.authorization.world import CONSUMERS, GROUPS, MISSING, NOWHERE, TOPICS, World
from tests.clients.refusals import consumer_groups, groups, offsets

ALL = (*TOPICS, *MISSING)
VICTIMS = ("mine-victims", "other-victims")
NO_GROUPS = ("mine-no-group", "other-no-group")
FIND, JOIN, SYNC, BEAT, LEAVE = find_coordinator.API, join_group.API, sync_group.API, heartbeat.API, leave_group.API
COMMIT, FETCH, FORGET = offset_commit.API, offset_fetch.API, offset_delete.API
CONSUMER_BEAT, CONSUMER_DESCRIBE = consumer_group_heartbeat.API, consumer_group_describe.API


def _commit(group: str) -> Any:
    request = offsets.commit(group, ALL[0])
    for name in ALL[1:]:
        request.topics += offsets.commit(group, name).topics
    return request


def _ids(world: World) -> list[UUID]:
    return [*(world.ids[name] for name in TOPICS), NOWHERE]


def _commit_by_id(world: World) -> Any:
    first, *others = _ids(world)
    request = offsets.commit(GROUPS[0], "", topic_id=first)
    for one in others:
        request.topics += offsets.commit(GROUPS[0], "", topic_id=one).topics
    return request


def _fetch(*names: str) -> Any:
    """An OffsetFetch of these groups: of all topics."""
    first, *others = (offsets.fetch(name, ALL[0]) for name in names)
    for one in others:
        first.groups += one.groups
    for group in first.groups:
        for name in ALL[1:]:
            group.topics += offsets.fetch("", name).groups[0].topics
    return first


def _fetch_by_id(world: World) -> Any:
    first, *others = _ids(world)
    request = offsets.fetch(GROUPS[0], "", topic_id=first)
    for one in others:
        request.groups[0].topics += offsets.fetch("", "", topic_id=one).groups[0].topics
    return request


def _fetch_everything(*names: str) -> Any:
    request = _fetch(*names)
    for group in request.groups:
        group.topics = None
    return request


def _fetch_of_one(*, everything: bool = False) -> Any:
    topics = _fetch(GROUPS[0]).groups[0].topics
    return offset_fetch.Request(group_id=GROUPS[0], topics=None if everything else topics)


def _forget() -> Any:
    request = offsets.forget(GROUPS[0], ALL[0], 5)
    for name in ALL[1:]:
        request.topics += offsets.forget(GROUPS[0], name, 5).topics
    return request


def _describe(*names: str) -> Any:
    return describe_groups.Request(groups=list(names), include_authorized_operations=True)


def _describe_consumers(*names: str) -> Any:
    return consumer_group_describe.Request(group_ids=list(names), include_authorized_operations=True)


def _beat(*topics: str) -> Any:
    """Of a member that the group does not have, so that nothing changes."""
    return consumer_groups.beat(CONSUMERS[0], "unknown", 5, subscribed_topic_names=list(topics))


def _join(world: World, *topics: str) -> Any:
    return consumer_groups.beat(world.new("mine-beats"), subscribed_topic_names=list(topics))


def _delete(world: World) -> Any:
    names = [*(world.group_to_delete(name) for name in VICTIMS), *NO_GROUPS]
    return delete_groups.Request(groups_names=names)


ROWS = [
    Row(FIND, "of groups", lambda w: groups.find(*GROUPS, *NO_GROUPS), since=4),
    Row(FIND, "of a group", lambda w: find_coordinator.Request(key=GROUPS[0]), version=3, since=0),
    Row(FIND, "of transactional ids", lambda w: groups.find("mine-txn", "other-txn", "mine-no-txn", kind=1), since=4),
    Row(FIND, "of a transactional id", lambda w: find_coordinator.Request(key="mine-txn", key_type=1), version=3,
        since=1),
    Row(JOIN, "new member", lambda w: groups.join(w.new("mine-joined")), since=4),
    Row(JOIN, "unknown member", lambda w: groups.join("mine-group", "unknown"), since=2),
    Row(SYNC, "unknown member", lambda w: groups.sync("mine-group", "unknown"), since=0),
    Row(SYNC, "unknown group", lambda w: groups.sync("mine-no-group", "unknown")),
    Row(BEAT, "unknown member", lambda w: groups.beat("mine-group", "unknown"), since=0),
    Row(BEAT, "unknown group", lambda w: groups.beat("mine-no-group", "unknown")),
    Row(LEAVE, "unknown member", lambda w: groups.leave("mine-group", "unknown"), since=3),
    Row(LEAVE, "unknown group", lambda w: groups.leave("mine-no-group", "unknown")),
    Row(LEAVE, "unknown member", lambda w: leave_group.Request(group_id="mine-group", member_id="unknown"), version=2,
        since=0),
    Row(COMMIT, "by name", lambda w: _commit(GROUPS[0]), version=9, since=2),
    Row(COMMIT, "by name, unknown group", lambda w: _commit(w.new("mine-no-group")), version=9),
    Row(COMMIT, "by id", _commit_by_id),
    Row(FETCH, "by name", lambda w: _fetch(*GROUPS, "mine-no-group"), version=9, since=8),
    Row(FETCH, "by id", _fetch_by_id),
    Row(FETCH, "everything", lambda w: _fetch_everything(*GROUPS, *NO_GROUPS), since=8),
    Row(FETCH, "of one group", lambda w: _fetch_of_one(), version=7, since=1),
    Row(FETCH, "of one group, everything", lambda w: _fetch_of_one(everything=True), version=7, since=2),
    Row(FORGET, "what is not there", lambda w: _forget()),
    Row(delete_groups.API, "by name", _delete, deletes=VICTIMS),
    Row(describe_groups.API, "with operations", lambda w: _describe(*GROUPS, *NO_GROUPS, *CONSUMERS), since=0),
    Row(list_groups.API, "all", lambda w: list_groups.Request(), since=0),
    Row(CONSUMER_BEAT, "a topic that it may see", lambda w: _beat(TOPICS[0]), since=0),
    Row(CONSUMER_BEAT, "one that it may not see", lambda w: _beat(*TOPICS)),
    Row(CONSUMER_BEAT, "topics that are not there", lambda w: _beat(*MISSING)),
    Row(CONSUMER_BEAT, "no topics", lambda w: _beat()),
    Row(CONSUMER_BEAT, "new member", lambda w: _join(w, TOPICS[0]), slow=True),
    Row(CONSUMER_BEAT, "unknown group", lambda w: consumer_groups.beat("mine-no-group", epoch=5)),
    Row(CONSUMER_DESCRIBE, "with operations", lambda w: _describe_consumers(*CONSUMERS, *NO_GROUPS, *GROUPS),
        since=0),
]  # fmt: skip
