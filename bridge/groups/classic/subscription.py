"""The topics a consumer subscribes to, read from the metadata of Kafka's `consumer` protocol.

Every version of ConsumerProtocolSubscription begins as version 0 does: int16 version, then an array of topic names.
"""

import struct
from typing import Final

from bridge.groups.classic.events import ClassicGroupState
from bridge.groups.classic.state import ClassicGroup

CONSUMER: Final = "consumer"
"""The protocol type of Kafka's consumers."""


def topics(metadata: bytes) -> frozenset[str] | None:
    """The names; None for bytes that say something else."""
    try:
        version, count = struct.unpack_from(">hi", metadata)
        if version < 0 or count < 0:
            return None
        names = []
        at = 6
        for _ in range(count):
            (size,) = struct.unpack_from(">h", metadata, at)
            at += 2 + size
            if size < 0 or at > len(metadata):
                return None
            names.append(metadata[at - size : at].decode())
        return frozenset(names)
    except (struct.error, UnicodeDecodeError):
        return None


def of_group(group: ClassicGroup) -> frozenset[str] | None:
    """The topics that the members of a stable group of consumers subscribe to; None: not known."""
    if group.protocol_type != CONSUMER or group.state is not ClassicGroupState.STABLE:
        return None
    found: frozenset[str] = frozenset()
    for member in group.members:
        own = topics(member.metadata(group.protocol_name))
        if own is None:
            return None
        found |= own
    return found
