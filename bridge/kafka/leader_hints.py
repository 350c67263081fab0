"""The messages by which answers name the leader that a client should turn to (KIP-951)."""

from collections.abc import Sequence

from bridge.kafka.message import Int32, encode, message
from bridge.kafka.primitives import uvarint


@message
class LeaderIdAndEpoch:
    """The node that leads a partition now, for clients that asked another."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@message
class NodeEndpoint:
    """The address of a leader that the answer names."""

    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


def tags(endpoints: Sequence[NodeEndpoint], version: int) -> bytes:
    """The tags that close an answer: the endpoints as tag 0, if there are any."""
    if not endpoints:
        return b"\0"
    body = uvarint(len(endpoints) + 1) + b"".join(encode(one, version, True) for one in endpoints)
    return b"\1\0" + uvarint(len(body)) + body
