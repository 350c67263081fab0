"""Groups of the classic protocol, and what any group is asked."""

from __future__ import annotations

from typing import Any

from bridge.apis import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    sync_group,
)
from tests.clients.refusals.case import Case

SUBSCRIPTION = b"\0\1\0\0\0\0\xff\xff\xff\xff"


def join(group: str, member: str = "", *, protocols: tuple[str, ...] = ("range",), **fields: Any) -> Any:
    """A JoinGroup."""
    ways = [join_group.Protocol(name=name, metadata=SUBSCRIPTION) for name in protocols]
    values = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "consumer", **fields}
    return join_group.Request(group_id=group, member_id=member, protocols=ways, **values)


def sync(group: str, member: str, generation: int = 1, **fields: Any) -> Any:
    """A SyncGroup."""
    values = {"protocol_type": "consumer", "protocol_name": "range", "assignments": [], **fields}
    return sync_group.Request(group_id=group, member_id=member, generation_id=generation, **values)


def beat(group: str, member: str, generation: int = 1, **fields: Any) -> Any:
    """A Heartbeat."""
    return heartbeat.Request(group_id=group, member_id=member, generation_id=generation, **fields)


def leave(group: str, *members: str, instance: str | None = None) -> Any:
    """A LeaveGroup."""
    who = [leave_group.MemberIdentity(member_id=one, group_instance_id=instance) for one in members]
    return leave_group.Request(group_id=group, members=who)


def find(*keys: str, kind: int = 0) -> Any:
    """A FindCoordinator."""
    return find_coordinator.Request(coordinator_keys=list(keys), key_type=kind)


JOIN, SYNC, BEAT, LEAVE = join_group.API, sync_group.API, heartbeat.API, leave_group.API
FIND, DESCRIBE, DELETE, LIST = find_coordinator.API, describe_groups.API, delete_groups.API, list_groups.API

CASES = [
    Case("no group", JOIN, lambda w: join(""), "INVALID_GROUP_ID"),
    Case("session timeout 1", JOIN, lambda w: join("g", session_timeout_ms=1), "INVALID_SESSION_TIMEOUT"),
    Case("session timeout -1", JOIN, lambda w: join("g", session_timeout_ms=-1), "INVALID_SESSION_TIMEOUT"),
    Case("session timeout too long", JOIN, lambda w: join("g", session_timeout_ms=1 << 30), "INVALID_SESSION_TIMEOUT"),
    Case("unknown member of no group", JOIN, lambda w: join(w.missing, "unknown"), "UNKNOWN_MEMBER_ID"),
    Case("unknown member", JOIN, lambda w: join(w.group, "unknown"), "UNKNOWN_MEMBER_ID"),
    Case("no protocols", JOIN, lambda w: join("unasked-" + w.missing, protocols=()), "INCONSISTENT_GROUP_PROTOCOL"),
    Case("no protocol type", JOIN, lambda w: join("untyped-" + w.missing, protocol_type=""),
         "INCONSISTENT_GROUP_PROTOCOL"),
    Case("another protocol type", JOIN, lambda w: join(w.group, protocol_type="connect"),
         "INCONSISTENT_GROUP_PROTOCOL"),
    Case("other protocols", JOIN, lambda w: join(w.group, protocols=("elsewhere",)), "INCONSISTENT_GROUP_PROTOCOL"),
    Case("new member", JOIN, lambda w: join("joined-" + w.missing), "MEMBER_ID_REQUIRED"),
    Case("static member by another id", JOIN, lambda w: join(w.group, "unknown", group_instance_id="static"),
         "FENCED_INSTANCE_ID"),
    Case("unknown static member", JOIN, lambda w: join(w.group, "unknown", group_instance_id="unheard-of"),
         "UNKNOWN_MEMBER_ID"),
    Case("group of the new protocol", JOIN, lambda w: join(w.consumers), "MEMBER_ID_REQUIRED",
         ours="INCONSISTENT_GROUP_PROTOCOL", why="classic members do not join groups of the new protocol"),
    Case("group of the new protocol, other type", JOIN, lambda w: join(w.consumers, protocol_type="connect"),
         "INCONSISTENT_GROUP_PROTOCOL"),
    #
    Case("no group", SYNC, lambda w: sync("", "m"), "INVALID_GROUP_ID"),
    Case("unknown group", SYNC, lambda w: sync(w.missing, "m"), "UNKNOWN_MEMBER_ID"),
    Case("unknown member", SYNC, lambda w: sync(w.group, "unknown", w.generation), "UNKNOWN_MEMBER_ID"),
    Case("no member", SYNC, lambda w: sync(w.group, "", w.generation), "UNKNOWN_MEMBER_ID"),
    Case("generation of the past", SYNC, lambda w: sync(w.group, w.member, w.generation - 1), "ILLEGAL_GENERATION"),
    Case("generation of the future", SYNC, lambda w: sync(w.group, w.member, w.generation + 5), "ILLEGAL_GENERATION"),
    Case("another protocol type", SYNC, lambda w: sync(w.group, w.member, w.generation, protocol_type="connect"),
         "INCONSISTENT_GROUP_PROTOCOL"),
    Case("another protocol", SYNC, lambda w: sync(w.group, w.member, w.generation, protocol_name="elsewhere"),
         "INCONSISTENT_GROUP_PROTOCOL"),
    Case("no protocol", SYNC, lambda w: sync(w.group, w.member, w.generation, protocol_type=None, protocol_name=None),
         "INCONSISTENT_GROUP_PROTOCOL"),
    Case("static member by another id", SYNC, lambda w: sync(w.group, "unknown", w.generation,
         group_instance_id="static"), "FENCED_INSTANCE_ID"),
    Case("group of the new protocol", SYNC, lambda w: sync(w.consumers, "unknown"), "UNKNOWN_MEMBER_ID"),
    #
    Case("no group", BEAT, lambda w: beat("", "m"), "INVALID_GROUP_ID"),
    Case("unknown group", BEAT, lambda w: beat(w.missing, "m"), "UNKNOWN_MEMBER_ID"),
    Case("unknown member", BEAT, lambda w: beat(w.group, "unknown", w.generation), "UNKNOWN_MEMBER_ID"),
    Case("no member", BEAT, lambda w: beat(w.group, "", w.generation), "UNKNOWN_MEMBER_ID"),
    Case("generation of the past", BEAT, lambda w: beat(w.group, w.member, w.generation - 1), "ILLEGAL_GENERATION"),
    Case("generation -1", BEAT, lambda w: beat(w.group, w.member, -1), "ILLEGAL_GENERATION"),
    Case("static member by another id", BEAT, lambda w: beat(w.group, "unknown", w.generation,
         group_instance_id="static"), "FENCED_INSTANCE_ID"),
    Case("unknown static member", BEAT, lambda w: beat(w.group, "unknown", w.generation, group_instance_id="unheard"),
         "UNKNOWN_MEMBER_ID"),
    Case("group of the new protocol", BEAT, lambda w: beat(w.consumers, "unknown"), "UNKNOWN_MEMBER_ID"),
    #
    Case("no group", LEAVE, lambda w: leave("", "m"), "INVALID_GROUP_ID"),
    Case("no group, before v3", LEAVE, lambda w: leave_group.Request(group_id="", member_id="m"), "INVALID_GROUP_ID",
         version=2),
    Case("unknown group", LEAVE, lambda w: leave(w.missing, "m"), "UNKNOWN_MEMBER_ID"),
    Case("unknown group, before v3", LEAVE, lambda w: leave_group.Request(group_id=w.missing, member_id="m"),
         "UNKNOWN_MEMBER_ID", version=2),
    Case("unknown member", LEAVE, lambda w: leave(w.group, "unknown"), "UNKNOWN_MEMBER_ID"),
    Case("static member by another id", LEAVE, lambda w: leave(w.group, "unknown", instance="static"),
         "FENCED_INSTANCE_ID"),
    Case("unknown static member", LEAVE, lambda w: leave(w.group, "", instance="unheard-of"), "UNKNOWN_MEMBER_ID"),
    Case("no member", LEAVE, lambda w: leave(w.group), "NONE"),
    Case("no member id", LEAVE, lambda w: leave(w.group, ""), "UNKNOWN_MEMBER_ID"),
    Case("unknown member of the new protocol", LEAVE, lambda w: leave(w.consumers, "unknown"), "UNKNOWN_MEMBER_ID"),
    #
    Case("no group", FIND, lambda w: find(""), "NONE"),
    Case("no group, before v4", FIND, lambda w: find_coordinator.Request(key=""), "NONE", version=3),
    Case("no keys", FIND, lambda w: find(), "NONE"),
    Case("transactional id", FIND, lambda w: find("t", kind=1), "NONE"),
    Case("no transactional id", FIND, lambda w: find("", kind=1), "NONE"),
    Case("share group", FIND, lambda w: find(f"g:{w.topic_id}:0", kind=2), "INVALID_REQUEST"),
    Case("share group that is none", FIND, lambda w: find("g", kind=2), "INVALID_REQUEST"),
    Case("share group before v6", FIND, lambda w: find("g", kind=2), "INVALID_REQUEST", version=5),
    Case("key type 9", FIND, lambda w: find("g", kind=9),
         "INVALID_REQUEST: This most likely occurs because of a request being malformed by the client library or "
         "the message was sent to an incompatible broker. See the broker logs for more details."),
    Case("key type 9 before v4", FIND, lambda w: find_coordinator.Request(key="g", key_type=9),
         "INVALID_REQUEST: This most likely occurs because of a request being malformed by the client library or "
         "the message was sent to an incompatible broker. See the broker logs for more details.", version=3),
    #
    Case("unknown group", DESCRIBE, lambda w: describe_groups.Request(groups=[w.missing]),
         "GROUP_ID_NOT_FOUND: Group {missing} not found."),
    Case("unknown group before v6", DESCRIBE, lambda w: describe_groups.Request(groups=[w.missing]), "NONE", version=5),
    Case("group of the new protocol", DESCRIBE, lambda w: describe_groups.Request(groups=[w.consumers]),
         "GROUP_ID_NOT_FOUND: Group {consumers} is not a classic group."),
    Case("group of the new protocol before v6", DESCRIBE, lambda w: describe_groups.Request(groups=[w.consumers]),
         "NONE", version=5),
    Case("group named twice", DESCRIBE, lambda w: describe_groups.Request(groups=[w.missing] * 2),
         "GROUP_ID_NOT_FOUND: Group {missing} not found. | GROUP_ID_NOT_FOUND: Group {missing} not found."),
    #
    Case("unknown group", DELETE, lambda w: delete_groups.Request(groups_names=[w.missing]), "GROUP_ID_NOT_FOUND"),
    Case("unknown group, twice", DELETE, lambda w: delete_groups.Request(groups_names=[w.missing] * 2),
         "GROUP_ID_NOT_FOUND"),
    Case("group with members", DELETE, lambda w: delete_groups.Request(groups_names=[w.group]), "NON_EMPTY_GROUP"),
    Case("group of the new protocol with members", DELETE, lambda w: delete_groups.Request(groups_names=[w.consumers]),
         "NON_EMPTY_GROUP"),
    #
    Case("unknown state", LIST, lambda w: list_groups.Request(states_filter=["Sleeping"]), "NONE"),
    Case("unknown type", LIST, lambda w: list_groups.Request(types_filter=["unheard-of"]), "NONE"),
]  # fmt: skip
