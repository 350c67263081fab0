"""What keeps the committed offsets of a group from expiring (KIP-211)."""

from typing import Final, NamedTuple


class OffsetRetention(NamedTuple):
    """How a group stands, as far as its offsets depend on it."""

    exists: bool
    """Whether the coordinator knows the group: with members, or with a record of its own."""
    members: int
    consumer: bool
    """Whether its protocol type is `consumer`, so that its subscriptions can be read."""
    subscribed: frozenset[str] | None
    """The topics its members subscribe to; None: not known, so any."""
    empty_since_ms: int
    """When its last member left; 0 while it has some, or never had."""
    has_offsets: bool = True
    """Whether its type has committed offsets: share groups have none."""


UNKNOWN_GROUP: Final = OffsetRetention(exists=False, members=0, consumer=False, subscribed=None, empty_since_ms=0)
"""Of a group that the coordinator does not know."""
SHARE_GROUP: Final = UNKNOWN_GROUP._replace(has_offsets=False)
"""Of one that does not go because it has no offsets."""
