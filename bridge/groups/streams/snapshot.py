"""A streams group at one moment, as it can be stored: a value that never changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bridge.groups.consumer.model import EpochSnapshot, TopicFacts
from bridge.groups.streams.model import StreamsMember, Tasks, Topology

NEVER_READY = -1
"""The epoch of no topology."""


class StreamsGroupState(StrEnum):
    """A streams group's state, as it is shown."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """Topics of its topology are missing, or have wrong numbers of partitions."""
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class StreamsSnapshot(EpochSnapshot):
    """A streams group. Its topology stays when its last member has gone."""

    members: Mapping[str, StreamsMember] = field(default_factory=dict)
    targets: Mapping[str, Tasks] = field(default_factory=dict)
    topology: Topology | None = None
    """None: no member has joined yet."""
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    """Those of the topology that exist, by name."""
    ready_epoch: int = NEVER_READY
    """The epoch of the topology for which all topics were there; −1: they are not."""
    standby_replicas: int = 0
    """The config for which the targets are computed."""

    @property
    def state(self) -> StreamsGroupState:
        """As Kafka names it (StreamsGroup.maybeUpdateGroupState)."""
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.ready_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(one.reconciled(self.assignment_epoch) for one in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def subscribed(self) -> frozenset[str]:
        """Every topic that its tasks read; none while it has no members."""
        if not self.members or self.topology is None:
            return frozenset()
        return frozenset(self.topology.reader)

    def partitions_of(self, name: str) -> int | None:
        """How many partitions a topic of the topology has; None: it is not there."""
        found = self.topics.get(name)
        return None if found is None else found.partitions
