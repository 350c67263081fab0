"""The records of the two cluster topics as values; `record_format` turns them into bytes.

| record         | topic      | says                                                       | counts                   |
|----------------|------------|------------------------------------------------------------|--------------------------|
| Heartbeat      | heartbeats | a node is there; what it is                                | always                   |
| WholeView      | view log   | the next version of the view                               | if `base` is the version |
| ViewDifference | view log   | the same, as what changes                                  | if `base` is the version |
| Tick           | view log   | the controller is there; where a starting node has to read | from the controller      |
| Challenge      | view log   | nothing: its sender wants to read it back                  | for its sender           |
| TopicChange    | view log   | a topic was created, deleted or changed: a hint for caches | always                   |
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from bridge.cluster.membership.view import ClusterView, NodeRegistration, Sender
from bridge.pulsar.types import Position


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A node's record that it is there."""

    node: NodeRegistration
    at: float
    """When it was sent, by its sender's own clock."""


@dataclass(frozen=True, slots=True)
class WholeView:
    """A record that has the next view as a whole."""

    sender: Sender
    base: int
    view: ClusterView
    reason: str = ""

    @property
    def version(self) -> int:
        """The version that it makes."""
        return self.view.version


@dataclass(frozen=True, slots=True)
class ViewDifference:
    """The next view as the difference from its base. A slot that is named gets a new owner, and so a new epoch."""

    sender: Sender
    base: int
    version: int
    controller: int
    level: int
    members: tuple[NodeRegistration, ...] = ()
    """Those that are new or have changed."""
    removed: tuple[int, ...] = ()
    ids: Mapping[str, int] = field(default_factory=dict)
    """Those that are new or have changed."""
    slots: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The slots that each node gets, ascending."""
    groups: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """The controller is there. A node that starts reads from `whole_at`; if nothing changed since, `folded_to`."""

    sender: Sender
    version: int
    whole_at: Position
    """Where the last whole view is."""
    folded_to: Position
    """The last record that went into the sender's view."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """A record whose sender, on reading it, knows that it has read the view log up to here."""

    sender: Sender
    at: float


class TopicEvent(StrEnum):
    """What has happened to a topic, told to the other nodes."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class TopicChange:
    """Something happened to a topic."""

    name: str
    id: str
    event: TopicEvent


ViewRecord: TypeAlias = WholeView | ViewDifference
LogRecord: TypeAlias = WholeView | ViewDifference | Tick | Challenge | TopicChange
Record: TypeAlias = Heartbeat | LogRecord
