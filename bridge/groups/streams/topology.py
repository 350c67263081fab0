"""Which tasks a topology (KIP-1071) has, and which internal topics it needs (Kafka's InternalTopicManager)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from bridge.groups.streams.model import Task, TopicInfo, Topology

PartitionsOf: TypeAlias = Callable[[str], int | None]
"""How many partitions the topic of this name has; None: there is none."""


class StatusCode(IntEnum):
    """What a member is told beside its tasks (StreamsGroupHeartbeatResponse.Status)."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    """One thing that a member is told."""

    code: StatusCode
    detail: str


@dataclass(frozen=True, slots=True)
class Configured:
    """A topology with the topics that exist now."""

    task_counts: Mapping[str, int] = field(default_factory=dict)
    """How many tasks each subtopology has, by id in order; empty while sources are missing or wrongly partitioned."""
    stateful: frozenset[str] = frozenset()
    """The subtopologies that have a changelog."""
    to_create: tuple[TopicInfo, ...] = ()
    """Internal topics that are not there yet, by name, each with its number of partitions."""
    status: Status | None = None
    """Why there are no tasks yet; None: the topology is ready. Kafka tells one reason: 1, 2 or 3 of `StatusCode`."""

    @property
    def ready(self) -> bool:
        """Whether tasks may be given out: every topic exists."""
        return self.status is None

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks; none while the topology is not ready."""
        raise NotImplementedError

    def has(self, task: Task) -> bool:
        """Whether this is one of its tasks."""
        raise NotImplementedError


def check(topology: Topology) -> None:
    """Raise KafkaError unless the topology can ever be ready, whatever topics exist.

    INVALID_REQUEST: regular expressions of sources, as Kafka 4.3. STREAMS_INVALID_TOPOLOGY: a topic's name is not legal
    or Kafka's own, a changelog has a number of partitions, a subtopology reads nothing, a repartition topic's number of
    partitions follows from nothing.
    """
    raise NotImplementedError


def configure(topology: Topology, partitions_of: PartitionsOf) -> Configured:
    """The tasks and internal topics of a checked topology; raises nothing: what is wrong is in `status`."""
    raise NotImplementedError
