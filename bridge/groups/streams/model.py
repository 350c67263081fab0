"""What a streams group (KIP-1071) consists of: its topology, its members and their tasks. Values that never change.

A topology has subtopologies. Each reads source topics and repartition topics; it has as many tasks as the largest of
these has partitions. A task is in one of three roles at a member:

| role    | does                                                                           |
|---------|--------------------------------------------------------------------------------|
| active  | processes records; one member has it                                           |
| standby | keeps a copy of the state, to be active soon if the active one goes            |
| warm-up | builds a copy of the state, to become active. Kafka 4.3 never gives one, nor do we |

The members of one process share a state directory, so a process has a task in one role at most.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from bridge.groups.consumer.model import MemberState


class Task(NamedTuple):
    """One partition of a subtopology."""

    subtopology: str
    partition: int


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of one member by role."""

    active: frozenset[Task] = frozenset()
    standby: frozenset[Task] = frozenset()
    warmup: frozenset[Task] = frozenset()

    @property
    def all(self) -> frozenset[Task]:
        """The tasks in any role."""
        return self.active | self.standby | self.warmup

    @property
    def is_empty(self) -> bool:
        """Whether there are none in any role."""
        return not (self.active or self.standby or self.warmup)

    def within(self, other: "Tasks") -> bool:
        """Whether `other` has all of these in the same roles."""
        return self.active <= other.active and self.standby <= other.standby and self.warmup <= other.warmup

    def overlaps(self, other: "Tasks") -> bool:
        """Whether `other` has any of these in the same role."""
        apart = self.active.isdisjoint(other.active) and self.standby.isdisjoint(other.standby)
        return not (apart and self.warmup.isdisjoint(other.warmup))

    def __or__(self, other: "Tasks") -> "Tasks":
        """Both, role by role."""
        return Tasks(self.active | other.active, self.standby | other.standby, self.warmup | other.warmup)

    def __and__(self, other: "Tasks") -> "Tasks":
        """What both have, role by role."""
        return Tasks(self.active & other.active, self.standby & other.standby, self.warmup & other.warmup)

    def __sub__(self, other: "Tasks") -> "Tasks":
        """What `other` does not have, role by role."""
        return Tasks(self.active - other.active, self.standby - other.standby, self.warmup - other.warmup)


NO_TASKS: Final = Tasks()


class TopicInfo(NamedTuple):
    """An internal topic as the client wants it; 0: the client does not say."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(NamedTuple):
    """Topics that need the same number of partitions: their places in the lists of the subtopology."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_sources: tuple[int, ...] = ()


class Subtopology(NamedTuple):
    """A part of the topology that is processed as a whole, with every list in the order in which it was sent."""

    id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    changelogs: tuple[TopicInfo, ...] = ()
    repartition_sources: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """All topics that it reads."""
        return self.source_topics + tuple(one.name for one in self.repartition_sources)


class Topology(NamedTuple):
    """What a Kafka Streams application does, as far as its tasks and topics go."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    def same(self, other: "Topology") -> bool:
        """Whether both say the same; the order of the subtopologies does not count (as in Kafka's StreamsTopology)."""
        return self.epoch == other.epoch and sorted(self.subtopologies) == sorted(other.subtopologies)

    @property
    def required(self) -> frozenset[str]:
        """The topics that must exist before there are tasks: sources, repartition sources and changelogs."""
        return frozenset(
            chain.from_iterable((*one.sources, *(log.name for log in one.changelogs)) for one in self.subtopologies)
        )

    @property
    def reader(self) -> Mapping[str, str]:
        """The subtopology that reads a topic, by topic: whose task a committed offset is of."""
        return {name: one.id for one in self.subtopologies for name in one.sources}


class Endpoint(NamedTuple):
    """Where a process answers interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A member of a streams group: one stream thread of a process."""

    id: str
    process_id: str = ""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    endpoint: Endpoint | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Tasks = NO_TASKS
    revoking: Tasks = NO_TASKS
    since: Mapping[Task, int] = field(default_factory=dict)
    """The member epoch from which each active task is its own, of those in `assigned` and `revoking`. A commit of an
    older epoch is taken for a task that was its own already then (StreamsGroup.createAssignmentEpochValidator)."""

    @property
    def instance_id(self) -> None:
        """There are no static members, as in Kafka 4.3."""

    def reconciled(self, target_epoch: int) -> bool:
        """Whether it has all of this target, and nothing else."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch
