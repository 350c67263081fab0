"""What goes into a group's state machine and what comes out of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from bridge.groups.classic.members import Member, Protocols, Ticket
from bridge.groups.classic.records import GroupRecord
from bridge.kafka.error_codes import ErrorCode


class ClassicGroupState(StrEnum):
    """The states, as Kafka names them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The clocks of all groups, in seconds, and their bound."""

    initial_delay: float = 0.1
    """How long an empty group's first rebalance waits for more members (KIP-134)."""
    new_member_timeout: float = 300.0
    """How long the join of a member that does not know its id yet may be held (NewMemberJoinTimeout)."""
    retry: float = 1.0
    """The least time until a rebalance that no member has joined is tried again, and one that could not be stored."""
    longest_retry: float = 16.0
    """The time until then doubles with each that could not be stored, up to this."""
    max_size: int = 2**31 - 1
    """The members of one group, those included that have been given an id only (group.max.size)."""


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup."""

    member_id: str
    """Empty: the member has none yet."""
    new_id: str
    """The id to give it then."""
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    id_required: bool = True
    """A new dynamic member is told its id first and joins with it (KIP-394, JoinGroup v4)."""
    may_skip: bool = True
    """The member knows `skip_assignment` (KIP-814, JoinGroup v9)."""
    reason: str = ""

    def new_member(self, member_id: str, ticket: Ticket) -> Member:
        """The member that joins by this request, which is held."""
        return Member(
            id=member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=self.protocols,
            new=True,
            joining=ticket,
        )


@dataclass(frozen=True, slots=True)
class Sync:
    """A SyncGroup; None for a protocol that was not said (before v5)."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Leave:
    """One member in a LeaveGroup; by its instance id alone when an administrator removes it (KIP-345)."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to a JoinGroup."""

    error: ErrorCode
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    """(id, instance id, metadata): for the leader only."""
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Synced:
    """The answer to a SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """A waiting request has its answer."""

    ticket: Ticket
    answer: Joined | Synced


@dataclass(frozen=True, slots=True)
class Save:
    """The record must be stored; `ClassicGroup.saved(number, …)` must then be called."""

    number: int
    record: GroupRecord


Effect: TypeAlias = Answer | Save
