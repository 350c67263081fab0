"""Streams groups as the store keeps them: a record for the group and one for each member.

A change writes only what it changes. Both are JSON. The group's is version 4 of its key, so that a bridge that does not
know it says so (`epochs.records` has 2 and 3). A topology's subtopologies are lists in the order of `Subtopology`, an
internal topic is `["<name>",partitions,replicas,[["<config>","<value>"]]]`, tasks are by subtopology:

    {"v":4, "epoch":7, "assignment":7, "since":<ms>, "topology":{"epoch":1,"parts":[["0",["in"],[],["r"],[…],[…],
     [[[0],[],[]]]]]}, "topics":{"in":["<id>",3]}, "ready":1, "standby":0}
    {"v":1, "process":"…", "rack":null, "client":"…", "host":"/10.0.0.1", "rebalance":300000, "topology":1,
     "endpoint":["host",80], "tags":{"zone":"a"}, "epoch":7, "previous":6, "state":1,
     "assigned":[{"0":[0,1]},{},{}], "revoking":[{},{},{}], "target":[{"0":[0,1]},{},{}], "given":{"0":[[0,5],[1,7]]}}

`given` has the member epochs from which on active tasks are the member's own: pairs of partition and epoch. The members
of one group are always of its type: their keys are those of the other groups with epochs.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar
from uuid import UUID

from bridge.errors import KafkaError
from bridge.groups.consumer.model import MemberState, TopicFacts
from bridge.groups.epochs.records import SnapshotFormat
from bridge.groups.store.records import (
    BadRecord,
    StoredGroup,
    integer,
    optional_text,
    parsed,
    text,
)
from bridge.groups.streams.model import (
    NO_TASKS,
    CopartitionGroup,
    Endpoint,
    StreamsMember,
    Subtopology,
    Task,
    Tasks,
    TopicInfo,
    Topology,
)
from bridge.groups.streams.snapshot import StreamsSnapshot
from bridge.groups.streams.topology import check

_T = TypeVar("_T")
_VERSION: Final = 4
_MEMBER_VERSION: Final = 1


class StreamsFormat(SnapshotFormat):
    """Of streams groups."""

    version = _VERSION
    snapshot = StreamsSnapshot
    no_target = NO_TASKS

    def is_same(self, before: StreamsSnapshot, after: StreamsSnapshot) -> bool:
        """Whether the groups differ in their members alone."""
        return replace(before, members={}, targets={}) == replace(after, members={}, targets={})

    def encode_group(self, group: StreamsSnapshot, since_ms: int) -> bytes:
        """The group's own record."""
        return encode_group(group, since_ms)

    def encode_member(self, member: StreamsMember, target: Tasks) -> bytes:
        """A member's record."""
        return encode_member(member, target)

    def decode(self, stored: StoredGroup) -> tuple[StreamsSnapshot, int]:
        """The group, and since when (ms) it has its last epoch; BadRecord where it cannot be read."""
        try:
            value = parsed(stored.metadata or b"")
            if value["v"] != _VERSION:
                raise BadRecord(f"group record of version {value['v']}, not {_VERSION}")
            read = {member_id: _read_member(member_id, data) for member_id, data in stored.members.items()}
            snapshot = StreamsSnapshot(
                epoch=integer(value["epoch"], 32),
                assignment_epoch=integer(value["assignment"], 32),
                members={member_id: member for member_id, (member, _) in read.items()},
                targets={member_id: target for member_id, (_, target) in read.items()},
                topology=_read_topology(value["topology"]),
                topics={
                    text(name): TopicFacts(UUID(id_), integer(count, 32))
                    for name, (id_, count) in value["topics"].items()
                },
                ready_epoch=integer(value["ready"], 32),
                standby_replicas=integer(value["standby"], 32),
            )
            return _repaired(snapshot), integer(value["since"])
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise BadRecord(f"not a streams group: {error!r}") from None


STREAMS: Final = StreamsFormat()


def encode_group(group: StreamsSnapshot, since_ms: int) -> bytes:
    """The group's own record."""
    topology = group.topology
    parts = None if topology is None else {"epoch": topology.epoch, "parts": topology.subtopologies}
    return _dump(
        {
            "v": _VERSION,
            "epoch": group.epoch,
            "assignment": group.assignment_epoch,
            "since": since_ms,
            "topology": parts,
            "topics": {name: [topic.id.hex, topic.partitions] for name, topic in sorted(group.topics.items())},
            "ready": group.ready_epoch,
            "standby": group.standby_replicas,
        }
    )


def encode_member(member: StreamsMember, target: Tasks) -> bytes:
    """A member's record."""
    return _dump(
        {
            "v": _MEMBER_VERSION,
            "process": member.process_id,
            "rack": member.rack_id,
            "client": member.client_id,
            "host": member.client_host,
            "rebalance": member.rebalance_timeout_ms,
            "topology": member.topology_epoch,
            "endpoint": member.endpoint,
            "tags": dict(sorted(member.tags.items())),
            "epoch": member.epoch,
            "previous": member.previous_epoch,
            "state": int(member.state),
            "assigned": _plain(member.assigned),
            "revoking": _plain(member.revoking),
            "target": _plain(target),
            "given": _by_subtopology((part, [number, epoch]) for (part, number), epoch in sorted(member.since.items())),
        }
    )


def _read_member(member_id: str, data: bytes) -> tuple[StreamsMember, Tasks]:
    value = parsed(data)
    if value["v"] != _MEMBER_VERSION:
        raise BadRecord(f"member record of version {value['v']}, this bridge knows {_MEMBER_VERSION}")
    endpoint = value["endpoint"]
    member = StreamsMember(
        id=member_id,
        process_id=text(value["process"]),
        rack_id=optional_text(value["rack"]),
        client_id=text(value["client"]),
        client_host=text(value["host"]),
        rebalance_timeout_ms=integer(value["rebalance"], 32),
        topology_epoch=integer(value["topology"], 32),
        endpoint=None if endpoint is None else Endpoint(text(endpoint[0]), integer(endpoint[1], 17) & 0xFFFF),
        tags={text(key): text(tag) for key, tag in value["tags"].items()},
        epoch=integer(value["epoch"], 32),
        previous_epoch=integer(value["previous"], 32),
        state=MemberState(value["state"]),
        assigned=_read_tasks(value["assigned"]),
        revoking=_read_tasks(value["revoking"]),
        since={
            Task(text(part), integer(number, 32)): integer(epoch, 32)
            for part, pairs in value["given"].items()
            for number, epoch in pairs
        },
    )
    return member, _read_tasks(value["target"])


def _read_topology(value: dict[str, Any] | None) -> Topology | None:
    if value is None:
        return None
    topology = Topology(integer(value["epoch"], 32), tuple(map(_read_subtopology, value["parts"])))
    try:
        check(topology)
    except KafkaError as error:
        raise BadRecord(f"not a topology: {error}") from None
    return topology


def _read_subtopology(value: list[Any]) -> Subtopology:
    name, sources, patterns, sinks, changelogs, repartitions, groups = value
    return Subtopology(
        id=text(name),
        source_topics=tuple(map(text, sources)),
        source_topic_regex=tuple(map(text, patterns)),
        repartition_sinks=tuple(map(text, sinks)),
        changelogs=tuple(map(_read_topic, changelogs)),
        repartition_sources=tuple(map(_read_topic, repartitions)),
        copartition_groups=tuple(CopartitionGroup(*map(_places, _three(group))) for group in groups),
    )


def _read_topic(value: list[Any]) -> TopicInfo:
    name, partitions, replicas, configs = value
    pairs = tuple((text(key), text(setting)) for key, setting in configs)
    return TopicInfo(text(name), integer(partitions, 32), integer(replicas, 16), pairs)


def _places(value: Iterable[object]) -> tuple[int, ...]:
    return tuple(integer(one, 16) for one in value)


def _plain(tasks: Tasks) -> list[dict[str, list[int]]]:
    return [_by_subtopology(sorted(role)) for role in (tasks.active, tasks.standby, tasks.warmup)]


def _by_subtopology(pairs: Iterable[tuple[str, _T]]) -> dict[str, list[_T]]:
    """What is of the same subtopology together: an id may be long."""
    found: dict[str, list[_T]] = {}
    for part, one in pairs:
        found.setdefault(part, []).append(one)
    return found


def _read_tasks(value: list[Any]) -> Tasks:
    return Tasks(
        *(
            frozenset(Task(text(part), integer(one, 32)) for part, numbers in role.items() for one in numbers)
            for role in _three(value)
        )
    )


def _three(value: list[Any]) -> list[Any]:
    if not isinstance(value, list) or len(value) != 3:
        raise BadRecord("not three lists")
    return value


def _repaired(snapshot: StreamsSnapshot) -> StreamsSnapshot:
    """A change of very many members takes several entries, and may have been cut off between them.

    No member was told of it. Members that would have the same active task begin again; overlapping targets are made
    again.
    """
    unconfirmed = _sharing({one: member.assigned | member.revoking for one, member in snapshot.members.items()})
    if not unconfirmed and not _sharing(snapshot.targets):
        return snapshot
    members = {one: member for one, member in snapshot.members.items() if one not in unconfirmed}
    targets = {one: snapshot.targets[one] for one in members}
    return replace(snapshot, epoch=snapshot.epoch + 1, members=members, targets=targets)


def _sharing(held: Mapping[str, Tasks]) -> set[str]:
    """Those who have an active task that another one has."""
    times = Counter(task for tasks in held.values() for task in tasks.active)
    return {one for one, tasks in held.items() if any(times[task] > 1 for task in tasks.active)}


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
