"""Committed offsets: the checks of a commit, what a fetch sees, and when they expire."""

from typing import NamedTuple, Protocol


class Hold(NamedTuple):
    """What keeps a group's offsets from expiring (KIP-211)."""

    exists: bool
    """Whether the coordinator knows the group: with members, or with a record of its own."""
    members: int
    consumer: bool
    """Whether its protocol type is `consumer`, so that its subscriptions can be read."""
    subscribed: frozenset[str] | None
    """The topics its members subscribe to; None: not known, so any."""
    empty_since_ms: int
    """When its last member left; 0 while it has some, or never had."""


class Membership(Protocol):
    """What committed offsets ask of the coordinator."""

    async def check_commit(self, group_id: str, member_id: str, group_instance_id: str | None, generation: int) -> None:
        """Raise the KafkaError that a commit of this member gets, if it may not."""

    async def hold(self, group_id: str) -> Hold:
        """How the group stands."""

    async def forget(self, group_id: str) -> None:
        """Delete an empty group that has no offsets left; nothing where a member has joined meanwhile."""
