"""The members of one group: who leads, who is static, which protocols all of them support."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

_OBJECT_BYTES, _MEMBER_BYTES = 200, 800
Ticket = object
"""A waiting JoinGroup or SyncGroup, opaque to the state machine: it comes back with the answer."""
Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) in the member's order of preference."""


def metadata_bytes(protocols: Protocols) -> int:
    """What a member's protocols take in memory, roughly."""
    return sum(_OBJECT_BYTES + len(name) + len(metadata) for name, metadata in protocols)


@dataclass(slots=True, eq=False)
class Member:
    """A member of a classic group."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    deadline: float = 0.0
    """When it is taken for dead, unless it is heard of before."""
    new: bool = False
    """It has not been told its id yet, so it cannot send heartbeats: it may be given up even while its join is held."""
    joining: Ticket | None = None
    syncing: Ticket | None = None

    @property
    def size(self) -> int:
        """The bytes that it takes in memory, roughly."""
        names = len(self.id) + len(self.client_id) + len(self.instance_id or "")
        return _MEMBER_BYTES + names + metadata_bytes(self.protocols) + len(self.assignment)

    def metadata(self, protocol: str | None) -> bytes:
        """What it says to this protocol; nothing to one that it does not support."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


class MemberTerms(Protocol):
    """What a member chooses when it joins: of a JoinGroup, or of a member as it was."""

    @property
    def protocols(self) -> Protocols:
        """Those that it supports."""

    @property
    def session_timeout_ms(self) -> int:
        """How long it may be silent."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits for it."""


class MemberRegistry:
    """Members by id in the order they came, the static ones also by instance id (KIP-345)."""

    def __init__(self) -> None:
        self.leader: str | None = None
        self.size = 0
        """The bytes that all members take."""
        self._joining = 0  # members whose JoinGroup is held
        self._support: Counter[str] = Counter()  # how many know each protocol
        self._members: dict[str, Member] = {}
        self._instances: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> Member:
        return self._members[member_id]

    def find(self, member_id: str) -> Member | None:
        """The member of this id, if there is one."""
        return self._members.get(member_id)

    def static_id(self, instance_id: str | None) -> str | None:
        """The id of the member that is this instance now; None also for a dynamic member."""
        return None if instance_id is None else self._instances.get(instance_id)

    def add(self, member: Member) -> None:
        """Take in a member; the first one leads."""
        self._members[member.id] = member
        self._count(member, 1)
        if member.instance_id is not None:
            self._instances[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id

    def remove(self, member_id: str) -> None:
        """Let a member go; the oldest of the others leads when it led."""
        member = self._members.pop(member_id)
        self._count(member, -1)
        if member.instance_id is not None:
            del self._instances[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._members), None)

    def replace(self, member_id: str, new_id: str) -> Member:
        """Give a static member another id; it keeps its place as the leader."""
        member = self._members.pop(member_id)
        self._count(member, -1)
        led = self.leader == member_id
        member.id = new_id
        self.add(member)
        if led:
            self.leader = new_id
        return member

    def update(self, member: Member, terms: MemberTerms) -> None:
        """A member joins with these terms now."""
        self._count(member, -1)
        member.protocols = terms.protocols
        self._count(member, 1)
        member.session_timeout_ms = terms.session_timeout_ms
        member.rebalance_timeout_ms = terms.rebalance_timeout_ms

    def assign(self, member: Member, assignment: bytes) -> None:
        """A member has this assignment now."""
        self.size += len(assignment) - len(member.assignment)
        member.assignment = assignment

    def hold_join(self, member: Member, ticket: Ticket | None) -> None:
        """A member's JoinGroup is held; None: it is answered."""
        self._joining += (ticket is not None) - (member.joining is not None)
        member.joining = ticket

    def all_joining(self) -> bool:
        """Whether the JoinGroup of every member is held."""
        return self._joining == len(self._members)

    def elect(self) -> bool:
        """Make a member the leader that has joined this rebalance; False: there is none."""
        if self.leader is not None and self._members[self.leader].joining is None:
            joined = next((member.id for member in self if member.joining is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def share_a_protocol(self, protocols: Protocols) -> bool:
        """Whether all members support at least one of these protocols."""
        return any(self._support[name] == len(self._members) for name, _ in protocols)

    def choose_protocol(self) -> str | None:
        """The protocol with most votes: each member votes for the first of its list that all of them support."""
        common = {name for name, count in self._support.items() if count == len(self._members)}
        votes = Counter(next(name for name, _ in member.protocols if name in common) for member in self)
        return max(votes, key=votes.__getitem__, default=None)

    def _count(self, member: Member, sign: int) -> None:
        self._joining += sign * (member.joining is not None)
        self.size += sign * member.size
        for name in {name for name, _ in member.protocols}:
            self._support[name] += sign
            if not self._support[name]:
                del self._support[name]

    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits for members: as long as the most patient of them asks."""
        return max((member.rebalance_timeout_ms for member in self), default=0)
