"""The members of one group: who leads, who is static, which protocols all of them support."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

Ticket = object
"""A waiting JoinGroup or SyncGroup, opaque to the state machine: it comes back with the answer."""
Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) in the member's order of preference."""


@dataclass(slots=True, eq=False)
class Member:
    """A member of a group."""

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

    def metadata(self, protocol: str | None) -> bytes:
        """What it says to this protocol; nothing to one that it does not support."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def supports(self, protocol: str) -> bool:
        """Whether it knows the protocol."""
        return any(name == protocol for name, _ in self.protocols)


class Roster:
    """Members by id in the order they came, the static ones also by instance id (KIP-345)."""

    def __init__(self) -> None:
        self.leader: str | None = None
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

    def static_id(self, instance_id: str) -> str | None:
        """The id of the member that is this instance now."""
        return self._instances.get(instance_id)

    def add(self, member: Member) -> None:
        """Take in a member; the first one leads."""
        self._members[member.id] = member
        if member.instance_id is not None:
            self._instances[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id

    def remove(self, member_id: str) -> None:
        """Let a member go; the oldest of the others leads when it led."""
        member = self._members.pop(member_id)
        if member.instance_id is not None:
            del self._instances[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._members), None)

    def replace(self, member_id: str, new_id: str) -> Member:
        """Give a static member another id; it keeps its place as the leader."""
        member = self._members.pop(member_id)
        led = self.leader == member_id
        member.id = new_id
        self.add(member)
        if led:
            self.leader = new_id
        return member

    def all_joining(self) -> bool:
        """Whether the JoinGroup of every member is held."""
        return all(member.joining is not None for member in self)

    def elect(self) -> bool:
        """Make somebody the leader who has joined this rebalance; False: there is nobody."""
        if self.leader is not None and self._members[self.leader].joining is None:
            joined = next((member.id for member in self if member.joining is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def share_a_protocol(self, protocols: Protocols) -> bool:
        """Whether all members support at least one of these protocols."""
        return any(all(member.supports(name) for member in self) for name, _ in protocols)

    def choose_protocol(self) -> str | None:
        """The protocol with most votes: each member votes for the first of its list that all of them support."""
        names = {name for member in self for name, _ in member.protocols}
        common = {name for name in names if all(member.supports(name) for member in self)}
        votes = Counter(next(name for name, _ in member.protocols if name in common) for member in self)
        return max(votes, key=votes.__getitem__, default=None)

    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits for members: as long as the most patient of them asks."""
        return max((member.rebalance_timeout_ms for member in self), default=0)
