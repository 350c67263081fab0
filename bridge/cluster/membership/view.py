"""What all nodes of a cluster agree on: its members and what each of them leads. Values that never change."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

NO_NODE: Final = -1
"""The id of a node that has none yet; the controller of a cluster without one."""


class NodeState(StrEnum):
    """What a node says of itself in its heartbeats."""

    UP = "up"
    LEAVING = "leaving"
    """It serves until others have taken over what it leads."""
    GONE = "gone"


class Endpoint(NamedTuple):
    """Where clients reach a node's listener."""

    listener: str
    host: str
    port: int


class Sender(NamedTuple):
    """One life of a node: after a restart the same name has a greater incarnation."""

    name: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class NodeRegistration:
    """A node as it describes itself."""

    name: str
    incarnation: int
    id: int = NO_NODE
    endpoints: tuple[Endpoint, ...] = ()
    rack: str = ""
    weight: int = 1
    state: NodeState = NodeState.UP
    level: int = 1
    """The greatest format level that it can read."""
    software: str = ""
    settings: str = ""
    """A fingerprint of the settings that all nodes should share."""
    since: int = 0
    """The version of the view that admitted it; 0 in what the node itself sends."""

    @property
    def sender(self) -> Sender:
        """Which life of which node this is."""
        return Sender(self.name, self.incarnation)

    def endpoint_at(self, listener: str) -> Endpoint | None:
        """Where it is reached by a listener, if it has that."""
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


def member_named(members: Mapping[int, NodeRegistration], ids: Mapping[str, int], name: str) -> NodeRegistration | None:
    """The member of this name; `ids` also names nodes that are away, whose ids another may have asked for."""
    found = members.get(ids.get(name, NO_NODE))
    return found if found is not None and found.name == name else None


def names_away(
    before: "ClusterView", members: Mapping[int, NodeRegistration], ids: Mapping[str, int], version: int
) -> dict[str, int]:
    """Since which version each name of `ids` has been away, when the view after `before` has these members."""
    here = {member.name for member in members.values()}
    left = {member.name: version for member in before.members.values()}
    return {name: since for name, since in {**before.away, **left}.items() if name in ids and name not in here}


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One version of what all nodes agree on."""

    version: int = 0
    controller: int = NO_NODE
    members: Mapping[int, NodeRegistration] = field(default_factory=dict)
    ids: Mapping[str, int] = field(default_factory=dict)
    """The ids that belong to names, also to those of nodes that are away."""
    owners: tuple[int, ...] = ()
    """The node that leads each slot."""
    epochs: tuple[int, ...] = ()
    """The version in which each slot got its owner: the leader epoch of its partitions."""
    groups: tuple[int, ...] = ()
    """The node that coordinates each group slot."""
    level: int = 1
    """The lowest of all members' levels: what may be written."""
    away: Mapping[str, int] = field(default_factory=dict)
    """The names in `ids` that are no members, and the version in which each left."""
    drained: frozenset[str] = frozenset()
    """Names that are to lead nothing until an operator says otherwise; a restart changes nothing about it."""
    removed: Mapping[str, int] = field(default_factory=dict)
    """Names that an operator has removed: lives up to this incarnation are not admitted."""

    def member(self, name: str) -> NodeRegistration | None:
        """The member of this name."""
        return member_named(self.members, self.ids, name)

    def has_removed(self, node: NodeRegistration) -> bool:
        """Whether an operator has removed this life of a node."""
        return node.incarnation <= self.removed.get(node.name, -1)

    @property
    def leader(self) -> NodeRegistration | None:
        """The controller, if it is a member."""
        return self.members.get(self.controller)
