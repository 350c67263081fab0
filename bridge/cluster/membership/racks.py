"""Which node of each rack serves the consumers of that rack what another node leads (KIP-392)."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bridge.cluster.membership.view import ClusterView, NodeState
from bridge.cluster.shared_settings import is_rack_aware


@dataclass(frozen=True, slots=True)
class Racks:
    """The racks of one view, as far as their nodes say that they go by racks (`cluster.rack_aware_fetch`).

    It follows from the view alone, whatever this node's own settings: the node that sends a consumer away and the one
    that it is sent to must agree, also while the setting is being turned on, one node after another.
    """

    rack_of: Mapping[int, str] = field(default_factory=dict)
    """The racks of nodes that go by racks; "" of one that has none."""
    readers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The nodes of each rack that may serve what they do not lead."""

    def __bool__(self) -> bool:
        return bool(self.readers)

    def reader(self, rack: str, slot: int, owner: int) -> int | None:
        """The node in `rack` that serves a slot's partitions; None if that is the leader, or there is none."""
        candidates = self.readers.get(rack)
        if candidates is None or self.rack_of.get(owner, rack) == rack:
            return None
        return _first(slot, candidates)

    def followers(self, slot: int, owner: int) -> tuple[int, ...]:
        """The nodes that serve a slot's partitions beside the leader: one in every other rack."""
        found = (self.reader(rack, slot, owner) for rack in self.readers)
        return tuple(node for node in found if node is not None)


def racks_of(view: ClusterView) -> Racks:
    """The racks of a view. A node that leaves, or is to lead nothing, gets no readers either."""
    aware = {id_: member for id_, member in sorted(view.members.items()) if is_rack_aware(member.settings)}
    readers: dict[str, tuple[int, ...]] = {}
    for id_, member in aware.items():
        may_serve = member.state is NodeState.UP and member.weight > 0 and member.name not in view.drained
        if member.rack and may_serve:
            readers[member.rack] = (*readers.get(member.rack, ()), id_)
    rack_of = {id_: member.rack for id_, member in aware.items() if member.state is not NodeState.GONE}
    return Racks(rack_of, dict(sorted(readers.items())))


def _first(slot: int, nodes: Sequence[int]) -> int:
    """The node that is first for a slot: when one comes or goes, only its own slots change.

    This stays forever: all nodes of all versions must agree.
    """
    return max(nodes, key=lambda node: hashlib.blake2b(b"%d:%d" % (slot, node), digest_size=8).digest())
