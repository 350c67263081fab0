"""What a client under test is asked to do and what it answers, the same for every family."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from tests.clients.members import Joining, Member

Headers = tuple[tuple[str, bytes | None], ...]
Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CODECS: tuple[Codec, ...] = ("gzip", "snappy", "lz4", "zstd")
TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Draft:
    """A record to be written; without a partition the client chooses it by the key."""

    name: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the client was told about a record it wrote; the timestamp only where the client reports one."""

    partition: int
    offset: int
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a client read it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class At:
    """Start reading at the first record whose timestamp is at least this one."""

    timestamp: int


Start = int | At | Literal["beginning", "end"]


class UnknownTopic(Exception):
    """The client reported UNKNOWN_TOPIC_OR_PARTITION in its own way."""


class Refused(Exception):
    """The server refused; the first argument is Kafka's error code, however the client reported it."""

    @property
    def code(self) -> int:
        """Kafka's error code."""
        return int(self.args[0])


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as a client describes it: its state and the partitions of each member, sorted."""

    state: str
    members: tuple[tuple[int, ...], ...] = ()


class Client(Protocol):
    """One client family, bound to an endpoint; every call uses the client as its users would."""

    name: str
    creates_topics: bool

    def can_write(self, draft: Draft) -> bool:
        """Tell whether the client has any way to write such a record."""

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, by an explicit request or (where there is none) by auto-creation."""

    def delete_topic(self, topic: str) -> None:
        """Delete a topic; raises UnknownTopic."""

    def topics(self) -> set[str]:
        """List all topics."""

    def partitions(self, topic: str) -> int:
        """Describe a topic: how many partitions it has."""

    def write(self, topic: str, drafts: Sequence[Draft], codec: Codec = "none") -> list[Delivery]:
        """Write records in order and wait for every delivery."""

    def read(self, topic: str, starts: Mapping[int, Start]) -> list[Record]:
        """Assign partitions, seek each, and read up to its end."""

    def beginning_and_end(self, topic: str, partition: int) -> tuple[int, int]:
        """Ask for the first offset and the end offset."""

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Ask for the first offset with at least this timestamp; None if there is none."""

    def close(self) -> None:
        """Let go of everything that stays open between calls."""


class Groups(Protocol):
    """A client with consumer groups and their administration, as far as ABILITIES says."""

    def join(self, joining: Joining) -> Member:
        """Start a member of a group."""

    def commit_alone(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Assign, and commit with a group id but without being a member; raises Refused."""

    def committed(self, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int | None]:
        """Ask as a consumer for committed offsets."""

    def groups(self) -> set[str]:
        """List all groups."""

    def group(self, group: str) -> GroupView:
        """Describe a group; one that is not there is Dead."""

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """List all offsets of a group through the admin client."""

    def delete_group(self, group: str) -> None:
        """Delete a group; raises Refused."""

    def alter_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Set offsets through the admin client; raises Refused."""

    def delete_group_offsets(self, group: str, topic: str, partitions: Sequence[int]) -> None:
        """Delete offsets; raises Refused."""


class Admin(Protocol):
    """A client that administers topics, as far as ABILITIES says."""

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        """Describe all configs of a topic; raises Refused."""

    def broker_configs(self) -> dict[str, str | None]:
        """Describe all configs of the first broker."""

    def set_config(self, topic: str, name: str, value: str | None) -> None:
        """Set one config, incrementally; None puts it back to its default; raises Refused."""

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set these configs and put all others back to their defaults; raises Refused."""

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic have so many partitions; raises Refused."""

    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """Delete what is before these offsets; returns the new first offsets; raises Refused."""


def attempts(what: str) -> Iterator[float]:
    """Yield the seconds left for `what`, until there are none; the caller waits inside the client, never here."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        yield left
    raise AssertionError(f"{what} took more than {TIMEOUT_SECONDS:.0f} s")
