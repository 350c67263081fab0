"""What members of a classic group say to each other in JoinGroup and SyncGroup, where they are consumers.

Both messages begin with their version. A newer one than is known here is read as the newest known, and what follows is
left out, as Kafka's `ConsumerProtocol` does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Annotated, Final, TypeVar

from bridge.kafka.message import DecodeError, Int32, decode_prefix, encode, message, since

TYPE: Final = "consumer"
"""The protocol type."""
NEWEST: Final = 3
"""Version."""
_VERSION_BYTES: Final = 2
_T = TypeVar("_T")


@message
class Partitions:
    """Partitions of a topic."""

    topic: str
    partitions: list[Int32]


@message
class Subscription:
    """What a member wants (ConsumerProtocolSubscription). v1 adds what it has, v2 since when, v3 its rack."""

    topics: list[str]
    user_data: bytes | None = None
    owned_partitions: Annotated[list[Partitions], since(1)] = field(default_factory=list)
    generation_id: Annotated[Int32, since(2)] = -1
    rack_id: Annotated[str | None, since(3)] = None


@message
class SubscribedTopics:
    """What a subscription of any version begins with."""

    topics: list[str]


@message
class Assignment:
    """What a member gets (ConsumerProtocolAssignment)."""

    assigned_partitions: list[Partitions]
    user_data: bytes | None = None


def version_of(data: bytes) -> int:
    """The version of either, at most the newest known; DecodeError."""
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if len(data) < _VERSION_BYTES or version < 0:
        raise DecodeError("there is no version")
    return min(version, NEWEST)


def read_subscription(data: bytes) -> Subscription:
    """A member's metadata; DecodeError."""
    return _read(Subscription, data)


def read_topics(data: bytes) -> list[str]:
    """The topics in a member's metadata, whatever follows them; DecodeError."""
    return _read(SubscribedTopics, data).topics


def read_assignment(data: bytes) -> Assignment:
    """A member's assignment, which is none by no bytes at all; DecodeError."""
    return _read(Assignment, data) if data else Assignment(assigned_partitions=[])


def write_assignment(assigned: Mapping[str, Iterable[int]], version: int) -> bytes:
    """The bytes of an assignment: partitions by topic."""
    parts = [Partitions(topic=topic, partitions=sorted(numbers)) for topic, numbers in sorted(assigned.items())]
    body = encode(Assignment(assigned_partitions=parts), version, flexible=False)
    return version.to_bytes(_VERSION_BYTES, "big") + bytes(body)


def flat(partitions: Iterable[Partitions]) -> list[tuple[str, int]]:
    """One pair for each."""
    return [(one.topic, number) for one in partitions for number in one.partitions]


def _read(cls: type[_T], data: bytes) -> _T:
    found, _ = decode_prefix(cls, memoryview(data)[_VERSION_BYTES:], version_of(data), flexible=False)
    return found
