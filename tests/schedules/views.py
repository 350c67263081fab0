"""Views of a cluster, given to the bridges of a world as their membership would."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.slots import slot_of
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration, NodeState
from tests.schedules.world import Bridge

SLOTS = 16
FIRST = 200_000_000
"""The version with which a real view log begins is of this size: the seconds since 2020."""


def node(id_: int, rack: str = "", state: NodeState = NodeState.UP) -> NodeRegistration:
    """A member."""
    return NodeRegistration(f"n{id_}", 1, id_, (Endpoint("PLAINTEXT", f"h{id_}", 9092),), rack=rack, state=state)


def first_view(members: Sequence[NodeRegistration], owner: Callable[[int], int], version: int = FIRST) -> ClusterView:
    """A view in which `owner` says who has each slot."""
    owners = tuple(map(owner, range(SLOTS)))
    ids = {one.name: one.id for one in members}
    return ClusterView(
        version, members[0].id, {one.id: one for one in members}, ids, owners, (version,) * SLOTS, owners
    )


def next_view(view: ClusterView, owner: Callable[[int], int], members: Sequence[NodeRegistration] = ()) -> ClusterView:
    """The next version, in which slots that have another owner have a new epoch."""
    version = view.version + 1
    owners = tuple(map(owner, range(len(view.owners))))
    epochs = tuple(
        epoch if old == new else version for old, new, epoch in zip(view.owners, owners, view.epochs, strict=True)
    )
    return replace(
        view,
        version=version,
        members={one.id: one for one in members} if members else view.members,
        owners=owners,
        epochs=epochs,
        groups=owners,
    )


def give(bridge: Bridge, view: ClusterView, node_id: int, serving: Serving = Serving.SERVE) -> None:
    """Let a bridge know."""
    bridge.handlers.cluster.update(view, node_id, serving)


def slot(topic: str, partition: int = 0) -> int:
    """The slot of a partition in these views."""
    return slot_of(topic, partition, SLOTS)
