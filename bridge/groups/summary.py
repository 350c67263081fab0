"""Groups as who only looks sees them: from memory, nothing is loaded and nothing is asked."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from bridge.groups.classic.coordinator import LoadedClassicGroup
from bridge.groups.classic.state import ClassicGroup
from bridge.groups.consumer.model import GroupSnapshot
from bridge.groups.epochs.coordinator import LoadedGroup
from bridge.groups.store.visible import TopicPartition
from bridge.groups.streams.model import Task
from bridge.groups.streams.snapshot import StreamsSnapshot
from bridge.kafka import consumer_protocol
from bridge.kafka.primitives import DecodeError

OFFSETS: Final = "offsets"
"""In place of a protocol: nothing but committed offsets is known of a group."""


class GroupSummary(NamedTuple):
    """One group of this node."""

    id: str
    protocol: str
    """`classic`, `consumer`, `share`, `streams`, or OFFSETS."""
    state: str
    members: int
    generation: int
    """Of the classic protocol; of the other its epoch."""


class MemberSummary(NamedTuple):
    """One member of a group."""

    id: str
    instance_id: str | None
    client_id: str
    host: str


class Assigned(NamedTuple):
    """What a member has to work on."""

    partitions: tuple[TopicPartition, ...] = ()
    standby: tuple[str, ...] = ()
    """Of a streams group: the tasks that it keeps a copy of, or warms up for."""


class LoadedGroups:
    """The groups of all protocols that are in memory."""

    def __init__(
        self,
        classic: Mapping[str, LoadedClassicGroup],
        with_epochs: Mapping[str, Mapping[str, LoadedGroup[Any]]],
    ) -> None:
        """`with_epochs`: the groups whose members have epochs, by protocol."""
        self._classic, self._with_epochs = classic, with_epochs

    def summary(self, group_id: str) -> GroupSummary:
        """What is known of a group that is in memory or has offsets."""
        if (classic := self._classic.get(group_id)) is not None:
            group = classic.group
            return GroupSummary(group_id, "classic", group.state.value, len(group.members), group.generation)
        for protocol, groups in self._with_epochs.items():
            if (loaded := groups.get(group_id)) is not None:
                stored = loaded.stored
                return GroupSummary(group_id, protocol, stored.state.value, len(stored.members), stored.epoch)
        return GroupSummary(group_id, OFFSETS, "Empty", 0, 0)

    def names(self) -> Iterator[str]:
        """Of all that are in memory."""
        yield from self._classic
        for groups in self._with_epochs.values():
            yield from groups

    def members(self, group_id: str) -> list[MemberSummary]:
        """Those of a group; none of one that is not in memory."""
        if (classic := self._classic.get(group_id)) is not None:
            return [MemberSummary(one.id, one.instance_id, one.client_id, one.client_host)
                    for one in classic.group.members]  # fmt: skip
        found = [groups[group_id] for groups in self._with_epochs.values() if group_id in groups]
        members = [member for loaded in found for member in loaded.stored.members.values()]
        return [MemberSummary(one.id, one.instance_id, one.client_id, one.client_host) for one in members]

    def assigned(self, group_id: str) -> dict[str, Assigned]:
        """What each member of a group has, by its id. Nothing is known of classic groups that are no consumers."""
        if (classic := self._classic.get(group_id)) is not None:
            return _of_classic(classic.group)
        for groups in self._with_epochs.values():
            if (loaded := groups.get(group_id)) is not None:
                stored = loaded.stored
                return _of_streams(stored) if isinstance(stored, StreamsSnapshot) else _of_topics(stored)
        return {}


def _of_classic(group: ClassicGroup) -> dict[str, Assigned]:
    if group.protocol_type != consumer_protocol.TYPE:
        return {}
    found: dict[str, Assigned] = {}
    for member in group.members:
        try:
            parts = consumer_protocol.flat(consumer_protocol.read_assignment(member.assignment).assigned_partitions)
        except DecodeError:  # clients write it
            continue
        found[member.id] = Assigned(tuple(sorted(parts)))
    return found


def _of_topics(group: GroupSnapshot) -> dict[str, Assigned]:
    names = {topic.id: name for name, topic in group.view.topics.items()}
    return {
        one.id: Assigned(
            tuple(sorted((names[id_], each) for id_, parts in one.assigned.items() if id_ in names for each in parts))
        )
        for one in group.members.values()
    }


def _of_streams(group: StreamsSnapshot) -> dict[str, Assigned]:
    sources = {one.id: one.sources for one in (() if group.topology is None else group.topology.subtopologies)}

    def read(task: Task) -> list[TopicPartition]:
        """The partitions of a task: one of each topic that its subtopology reads, and that has so many."""
        topics = sources.get(task.subtopology, ())
        return [(name, task.partition) for name in topics if task.partition < (group.partitions_of(name) or 0)]

    return {
        one.id: Assigned(
            tuple(sorted(part for task in one.assigned.active for part in read(task))),
            tuple(
                sorted(f"{task.subtopology}_{task.partition}" for task in one.assigned.standby | one.assigned.warmup)
            ),
        )
        for one in group.members.values()
    }
