"""Which group slots the views give to this node, and which of them a former owner may still hold though it has gone."""

from typing import NamedTuple

from bridge.cluster.membership.slots import UNOWNED
from bridge.cluster.membership.view import NO_NODE, ClusterView


class GroupAssignment(NamedTuple):
    """The group slots that a node is to hold."""

    slots: frozenset[int]
    orphaned: frozenset[int]
    """Those whose former owner is no member any more: it may be frozen, and hold its slot for a minute."""


class _Owner(NamedTuple):
    """One life of a node as the owner of a slot."""

    id: int
    incarnation: int


class GroupSlots:
    """Follows the views in their order."""

    def __init__(self) -> None:
        self._owners: tuple[int, ...] = ()
        self._incarnations: dict[int, int] = {}
        self._former: dict[int, _Owner] = {}

    def update(self, view: ClusterView, node_id: int) -> GroupAssignment:
        """What the view gives to the node; nothing while the node is no member (`NO_NODE`)."""
        known = self._owners
        if len(known) != len(view.groups):  # at the start: an earlier life of this node, which is over, may have them
            known = (node_id,) * len(view.groups)
        mine = set()
        for slot, (before, after) in enumerate(zip(known, view.groups, strict=True)):
            if after != node_id or node_id == NO_NODE:
                self._former.pop(slot, None)
                continue
            mine.add(slot)
            if slot not in self._former:
                self._former[slot] = _Owner(before, self._incarnations.get(before, 0))
        self._owners = view.groups
        self._incarnations = {id_: member.incarnation for id_, member in view.members.items()}
        orphaned = {slot for slot in mine if self._is_gone(self._former[slot], node_id)}
        return GroupAssignment(frozenset(mine), frozenset(orphaned))

    def _is_gone(self, former: _Owner, node_id: int) -> bool:
        if former.id in (node_id, UNOWNED):
            return True
        return self._incarnations.get(former.id) != former.incarnation
