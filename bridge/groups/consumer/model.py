"""What a group of the new consumer protocol (KIP-848) is at one moment: values that never change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

Assignment: TypeAlias = Mapping[UUID, frozenset[int]]
"""Partitions by topic id; no topic without any."""

NOTHING: Final[Assignment] = MappingProxyType({})
JOINING: Final = 0
LEAVING: Final = -1
LEAVING_STATIC: Final = -2
"""The member epochs that mean something: the last is also the epoch of a static member that is away for a while."""
UNIFORM: Final = "uniform"
RANGE: Final = "range"


class MemberState(IntEnum):
    """How far a member is with its target assignment; the numbers are stored."""

    STABLE = 1
    UNREVOKED = 2
    """It has yet to give partitions back."""
    UNRELEASED = 3
    """It waits for partitions that others have yet to give back."""


class ConsumerGroupState(StrEnum):
    """A consumer group's state, as it is shown."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class TopicFacts(NamedTuple):
    """What the assignors must know of a topic."""

    id: UUID
    partitions: int


class Pattern(NamedTuple):
    """A regular expression that members subscribe by, and for whom it stands."""

    regex: str
    viewer: str = ""
    """The client that subscribes by it: it fits the topics that this one may describe. Empty: all topics."""


@dataclass(frozen=True, slots=True)
class View:
    """The topics that the members of one group subscribe to, as they are now."""

    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    """Those that exist, by name."""
    resolved: Mapping[Pattern, frozenset[str]] = field(default_factory=dict)
    """The names that each pattern fits."""


class ClassicTerms(NamedTuple):
    """What a member has said that joined by the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata) in its order of preference: never none."""

    def fits(self, others: "Iterable[ClassicTerms]") -> bool:
        """Whether all of these members support one of the protocols: they may become a classic group."""
        known = [{name for name, _ in other.protocols} for other in others]
        return any(all(name in names for names in known) for name, _ in self.protocols)


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member of a consumer group."""

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)
    revoking: Assignment = field(default_factory=dict)
    viewer: str = ""
    """Whose rights decide what its pattern fits; empty where it has no pattern, or where all are told."""
    classic: ClassicTerms | None = None
    """None: it is of the new protocol."""

    @property
    def pattern(self) -> Pattern:
        """What it subscribes by, beside names."""
        return Pattern(self.regex, self.viewer)

    def subscribed(self, resolved: Mapping[Pattern, frozenset[str]]) -> frozenset[str]:
        """Every topic it wants, whether it exists or not."""
        found = resolved.get(self.pattern, frozenset())
        return self.topics | found if self.topics else found  # no copy for each of many members

    def reconciled(self, target_epoch: int) -> bool:
        """Whether it has all of this target, and nothing else."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


@dataclass(frozen=True, slots=True)
class EpochSnapshot:
    """A group whose members have epochs, as it can be stored; each type of group has more of it."""

    epoch: int = 0
    assignment_epoch: int = 0
    """The group epoch for which the members' targets were computed."""
    members: Mapping[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> StrEnum:
        """As Kafka names it."""
        raise NotImplementedError

    def subscribed(self) -> frozenset[str]:
        """Every topic that some member reads."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class GroupSnapshot(EpochSnapshot):
    """A group whose members subscribe to topics, as it can be stored."""

    members: Mapping[str, ConsumerMember] = field(default_factory=dict)
    view: View = field(default_factory=View)
    targets: Mapping[str, Assignment] = field(default_factory=dict)

    @property
    def state(self) -> ConsumerGroupState:
        """As Kafka names it (ConsumerGroup.maybeUpdateGroupState)."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(one.reconciled(self.assignment_epoch) for one in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def only_classic(self) -> bool:
        """Whether there are members, and none of the new protocol."""
        return bool(self.members) and all(one.classic is not None for one in self.members.values())

    def is_settled(self, member: ConsumerMember) -> bool:
        """Whether nothing is to become of a member: the targets are those of now, and it has its own."""
        return self.epoch == self.assignment_epoch and member.reconciled(self.assignment_epoch)

    def static(self, instance_id: str) -> ConsumerMember | None:
        """The member that is this instance."""
        return next((one for one in self.members.values() if one.instance_id == instance_id), None)

    def assignor(self) -> str:
        """The assignor that most members prefer; those that name none do not vote."""
        votes: dict[str, int] = {}
        for one in self.members.values():
            if one.assignor is not None:
                votes[one.assignor] = votes.get(one.assignor, 0) + 1
        return max(votes, key=votes.__getitem__, default=UNIFORM)

    def wanted(self) -> tuple[frozenset[str], frozenset[Pattern]]:
        """The names and the patterns that members subscribe to."""
        members = self.members.values()
        patterns = frozenset(one.pattern for one in members if one.regex)
        return frozenset().union(*(one.topics for one in members)), patterns

    def subscribed(self) -> frozenset[str]:
        """Every topic that some member wants."""
        return frozenset().union(*(one.subscribed(self.view.resolved) for one in self.members.values()))


class ShareSnapshot(GroupSnapshot):
    """A share group (KIP-932): several members may have one partition, and none waits for another."""

    __slots__ = ()

    @property
    def state(self) -> ConsumerGroupState:
        """As Kafka names it (ShareGroup.maybeUpdateGroupState)."""
        return ConsumerGroupState.STABLE if self.members else ConsumerGroupState.EMPTY


def within(part: Assignment, whole: Assignment) -> bool:
    """Whether nothing in `part` is outside `whole`."""
    return all(partitions <= whole.get(topic, frozenset()) for topic, partitions in part.items())


def overlap(one: Assignment, other: Assignment) -> bool:
    """Whether any partition is in both."""
    return any(partitions & other.get(topic, frozenset()) for topic, partitions in one.items())


def combined(one: Assignment, other: Assignment) -> Assignment:
    """The partitions of both."""
    return {topic: one.get(topic, frozenset()) | other.get(topic, frozenset()) for topic in one.keys() | other.keys()}


def assignment(partitions: Iterable[tuple[UUID, int]]) -> Assignment:
    """These partitions by topic."""
    found: dict[UUID, set[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, set()).add(partition)
    return {topic: frozenset(numbers) for topic, numbers in found.items()}
