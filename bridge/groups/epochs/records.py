"""Groups whose members have epochs as the store keeps them: a record for the group and one for each member.

A change writes only what it changes. Both are JSON, partitions by topic id. The group's is version 2 of its key for a
consumer group, 3 for a share group, so that a bridge that does not know it says so (`classic.records` has version 1):

    {"v":2, "epoch":7, "assignment":7, "since":<ms>, "topics":{"orders":["<id>",3]}, "resolved":{"ord.*":["orders"]}}
    {"v":1, "instance":null, "rack":null, "client":"…", "host":"/10.0.0.1", "rebalance":300000, "topics":["orders"],
     "regex":"", "assignor":null, "epoch":7, "previous":6, "state":1, "assigned":{"<id>":[0,1]}, "revoking":{},
     "target":{"<id>":[0,1]}}

A member of the classic protocol has `"classic":{"session":45000,"protocols":[["range","<base64>"]]}`, and its record is
version 2: a bridge that does not know such members must not take it for one of the new protocol.

Where patterns are matched for clients with rights of their own, the group has `"seen":[["<pattern>","<client>",
["orders"]]]` beside `resolved`, and the member `"viewer":"<client>"`. A bridge that does not know them matches again.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from bridge.groups.consumer.model import (
    NOTHING,
    Assignment,
    ClassicTerms,
    ConsumerMember,
    GroupSnapshot,
    MemberState,
    Pattern,
    ShareSnapshot,
    TopicFacts,
    View,
)
from bridge.groups.store.records import (
    BadRecord,
    Key,
    StoredGroup,
    group_key,
    integer,
    member_key,
    optional_text,
    parsed,
    text,
)

_MEMBER_VERSION: Final = 1
_CLASSIC_VERSION: Final = 2
"""Of the record of a member of the classic protocol."""


class SnapshotFormat:
    """How groups of one type are stored: a record for the group and one for each member."""

    @property
    def version(self) -> int:
        """Of the group's record."""
        raise NotImplementedError

    @property
    def snapshot(self) -> Callable[[], Any]:
        """Makes one of a group that has nothing yet."""
        raise NotImplementedError

    @property
    def no_target(self) -> Any:
        """The target of a member that is to have nothing."""
        raise NotImplementedError

    def is_one(self, metadata: bytes | None) -> bool:
        """Whether this is the record of such a group."""
        return metadata is not None and metadata.startswith(f'{{"v":{self.version},'.encode())

    def changes(self, group_id: str, before: Any, after: Any, since_ms: int) -> dict[Key, bytes | None]:
        """What must be stored to get from one snapshot to the other; nothing stored yet is an empty snapshot."""
        records: dict[Key, bytes | None] = {}
        if not self.is_same(before, after):
            records[group_key(group_id)] = self.encode_group(after, since_ms)
        for member_id in before.members.keys() - after.members.keys():
            records[member_key(group_id, member_id)] = None
        for member_id, member in after.members.items():
            target = after.targets.get(member_id, self.no_target)
            if before.members.get(member_id) != member or before.targets.get(member_id, self.no_target) != target:
                records[member_key(group_id, member_id)] = self.encode_member(member, target)
        return records

    def record(self, key: Key, group: Any, since_ms: int) -> bytes | None:
        """What is to be stored under a key of the group's own or a member's."""
        if key[0] == "group":
            return self.encode_group(group, since_ms)
        member = group.members.get(key[2]) if key[0] == "member" else None
        return None if member is None else self.encode_member(member, group.targets.get(member.id, self.no_target))

    def is_same(self, before: Any, after: Any) -> bool:
        """Whether the groups differ in their members alone."""
        raise NotImplementedError

    def encode_group(self, group: Any, since_ms: int) -> bytes:
        """The group's own record."""
        raise NotImplementedError

    def encode_member(self, member: Any, target: Any) -> bytes:
        """A member's record."""
        raise NotImplementedError

    def decode(self, stored: StoredGroup) -> tuple[Any, int]:
        """The group, and since when (ms) it has its last epoch; BadRecord where it cannot be read."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class GroupFormat(SnapshotFormat):
    """Of groups whose members subscribe to topics."""

    version: int
    """Of the group's record."""
    snapshot: type[GroupSnapshot] = GroupSnapshot
    shares: bool = False
    """Whether several members may have one partition."""

    @property
    def no_target(self) -> Assignment:
        """No partitions."""
        return NOTHING

    def is_same(self, before: GroupSnapshot, after: GroupSnapshot) -> bool:
        """Whether the groups differ in their members alone."""
        return (before.epoch, before.assignment_epoch, before.view) == (after.epoch, after.assignment_epoch, after.view)

    def encode_member(self, member: ConsumerMember, target: Assignment) -> bytes:
        """A member's record."""
        return encode_member(member, target)

    def encode_group(self, group: GroupSnapshot, since_ms: int) -> bytes:
        """The group's own record."""
        resolved = group.view.resolved.items()
        seen = [[pattern.regex, pattern.viewer, sorted(names)] for pattern, names in resolved if pattern.viewer]
        return _dump(
            {
                "v": self.version,
                "epoch": group.epoch,
                "assignment": group.assignment_epoch,
                "since": since_ms,
                "topics": {name: [topic.id.hex, topic.partitions] for name, topic in group.view.topics.items()},
                "resolved": {pattern.regex: sorted(names) for pattern, names in resolved if not pattern.viewer},
            }
            | ({"seen": seen} if seen else {})
        )

    def decode(self, stored: StoredGroup) -> tuple[GroupSnapshot, int]:
        """The group, and since when (ms) it has its last epoch; BadRecord where it cannot be read."""
        try:
            value = parsed(stored.metadata or b"")
            if value["v"] != self.version:
                raise BadRecord(f"group record of version {value['v']}, not {self.version}")
            read = {member_id: _read_member(member_id, data) for member_id, data in stored.members.items()}
            snapshot = self.snapshot(
                epoch=integer(value["epoch"], 32),
                assignment_epoch=integer(value["assignment"], 32),
                view=View(
                    {
                        text(name): TopicFacts(UUID(id_), integer(count, 32))
                        for name, (id_, count) in value["topics"].items()
                    },
                    _read_resolved(value),
                ),
                members={member_id: member for member_id, (member, _) in read.items()},
                targets={member_id: target for member_id, (_, target) in read.items()},
            )
            return _completed(snapshot) if self.shares else _repaired(snapshot), integer(value["since"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadRecord(f"not a group record: {error!r}") from None


CONSUMER: Final = GroupFormat(2)
SHARE: Final = GroupFormat(3, ShareSnapshot, shares=True)


def encode_member(member: ConsumerMember, target: Assignment) -> bytes:
    """A member's record."""
    return _dump(
        {
            "v": _MEMBER_VERSION if member.classic is None else _CLASSIC_VERSION,
            "instance": member.instance_id,
            "rack": member.rack_id,
            "client": member.client_id,
            "host": member.client_host,
            "rebalance": member.rebalance_timeout_ms,
            "topics": sorted(member.topics),
            "regex": member.regex,
            "assignor": member.assignor,
            "epoch": member.epoch,
            "previous": member.previous_epoch,
            "state": int(member.state),
            "assigned": _plain(member.assigned),
            "revoking": _plain(member.revoking),
            "target": _plain(target),
        }
        | ({"viewer": member.viewer} if member.viewer else {})
        | ({} if member.classic is None else {"classic": _plain_terms(member.classic)})
    )


def _read_resolved(value: dict[str, Any]) -> dict[Pattern, frozenset[str]]:
    found = {Pattern(text(regex)): frozenset(map(text, names)) for regex, names in value["resolved"].items()}
    seen = value.get("seen", ())
    return found | {Pattern(text(regex), text(viewer)): frozenset(map(text, names)) for regex, viewer, names in seen}


def _repaired(snapshot: GroupSnapshot) -> GroupSnapshot:
    """A change of very many members takes several entries, and may have been cut off between them.

    No member was told of it. Members that would have the same partition begin again; overlapping
    targets are made again.
    """
    unconfirmed = _sharing({one: [member.assigned, member.revoking] for one, member in snapshot.members.items()})
    if not unconfirmed and not _sharing({one: [target] for one, target in snapshot.targets.items()}):
        return snapshot
    members = {one: member for one, member in snapshot.members.items() if one not in unconfirmed}
    targets = {one: snapshot.targets[one] for one in members}
    return replace(snapshot, epoch=snapshot.epoch + 1, members=members, targets=targets)


def _completed(snapshot: GroupSnapshot) -> GroupSnapshot:
    """The same for a share group: if a partition has no member, targets are made again."""
    targets = [pair for target in snapshot.targets.values() for pair in target.items()]
    targeted = {(topic, number) for topic, numbers in targets for number in numbers}
    there = {(topic.id, number) for topic in snapshot.view.topics.values() for number in range(topic.partitions)}
    return replace(snapshot, epoch=snapshot.epoch + 1) if snapshot.members and there - targeted else snapshot


def _sharing(held: Mapping[str, list[Assignment]]) -> set[str]:
    """Those who have a partition that another one has."""
    owners: dict[tuple[UUID, int], str] = {}
    sharing: set[str] = set()
    for member_id, parts in held.items():
        for part in parts:
            for place in ((topic, number) for topic, numbers in part.items() for number in numbers):
                owner = owners.setdefault(place, member_id)
                if owner != member_id:
                    sharing |= {owner, member_id}
    return sharing


def _read_member(member_id: str, data: bytes) -> tuple[ConsumerMember, Assignment]:
    value = parsed(data)
    if value["v"] not in (_MEMBER_VERSION, _CLASSIC_VERSION):
        raise BadRecord(f"member record of version {value['v']}, this bridge knows {_CLASSIC_VERSION}")
    member = ConsumerMember(
        id=member_id,
        instance_id=optional_text(value["instance"]),
        rack_id=optional_text(value["rack"]),
        client_id=text(value["client"]),
        client_host=text(value["host"]),
        rebalance_timeout_ms=integer(value["rebalance"], 32),
        topics=frozenset(map(text, value["topics"])),
        regex=text(value["regex"]),
        viewer=text(value.get("viewer", "")),
        assignor=optional_text(value["assignor"]),
        epoch=integer(value["epoch"], 32),
        previous_epoch=integer(value["previous"], 32),
        state=MemberState(value["state"]),
        assigned=_read_assignment(value["assigned"]),
        revoking=_read_assignment(value["revoking"]),
        classic=_read_terms(value["classic"]) if value["v"] == _CLASSIC_VERSION else None,
    )
    return member, _read_assignment(value["target"])


def _plain_terms(terms: ClassicTerms) -> dict[str, Any]:
    protocols = [[name, base64.b64encode(metadata).decode()] for name, metadata in terms.protocols]
    return {"session": terms.session_timeout_ms, "protocols": protocols}


def _read_terms(value: dict[str, Any]) -> ClassicTerms:
    protocols = tuple((text(name), base64.b64decode(data, validate=True)) for name, data in value["protocols"])
    if not protocols:
        raise BadRecord("a classic member without protocols")
    return ClassicTerms(integer(value["session"], 32), protocols)


def _plain(one: Assignment) -> dict[str, list[int]]:
    return {topic.hex: sorted(partitions) for topic, partitions in one.items()}


def _read_assignment(value: dict[str, list[int]]) -> Assignment:
    return {UUID(topic): frozenset(integer(one, 32) for one in partitions) for topic, partitions in value.items()}


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
