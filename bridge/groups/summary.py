"""Groups as who only looks sees them: from memory, nothing is loaded and nothing is asked."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from bridge.groups.classic.coordinator import LoadedClassicGroup
from bridge.groups.epochs.coordinator import LoadedGroup


class GroupSummary(NamedTuple):
    """One group of this node."""

    id: str
    protocol: str
    """`classic`, `consumer`, `share`, `streams`, or `offsets` where nothing but committed offsets is known of it."""
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
        return GroupSummary(group_id, "offsets", "Empty", 0, 0)

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
