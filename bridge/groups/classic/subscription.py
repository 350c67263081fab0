"""The topics that the members of a classic group subscribe to, where they are consumers."""

from bridge.groups.classic.events import ClassicGroupState
from bridge.groups.classic.state import ClassicGroup
from bridge.kafka import consumer_protocol
from bridge.kafka.message import DecodeError


def topics(metadata: bytes) -> frozenset[str] | None:
    """The names; None for bytes that say something else."""
    try:
        return frozenset(consumer_protocol.read_topics(metadata))
    except DecodeError:
        return None


def of_group(group: ClassicGroup) -> frozenset[str] | None:
    """The topics that the members of a stable group of consumers subscribe to; None: not known."""
    if group.protocol_type != consumer_protocol.TYPE or group.state is not ClassicGroupState.STABLE:
        return None
    found: frozenset[str] = frozenset()
    for member in group.members:
        own = topics(member.metadata(group.protocol_name))
        if own is None:
            return None
        found |= own
    return found
