"""Who leads the one partition of a scenario, and when each node hears of it: not all at once, and not all of each."""

from typing import NamedTuple

from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration
from tests.schedules.world import Bridge, World


class _Lead(NamedTuple):
    """Whether a node leads everything, and whether all has moved."""

    is_leader: bool
    moved: bool

    def leads(self, topic: str, partition: int) -> bool:
        return self.is_leader

    def has_moved(self, topic: str, partition: int) -> bool:
        return self.moved


class Leadership:
    """Views as nodes get them, one after another, each some moments late."""

    def __init__(self, world: World, *bridges: Bridge) -> None:
        """The first one leads."""
        self.world = world
        self.bridges = bridges
        self.leader = bridges[0]
        self.known_leader = bridges[0]
        """Of the newest view that any node has heard of: what clients can know."""
        self._version = self._known = 0
        self._told = dict.fromkeys(bridges, 0)
        for bridge in bridges:
            self.tell(bridge)

    def move_to(self, bridge: Bridge, late: float = 0.0) -> None:
        """Have this node lead from now on; each hears of it within so many seconds, unless of something newer first."""
        self.leader = bridge
        self._version += 1
        for one in self.bridges:
            delay = self.world.chance.random() * late
            self.world.loop.call_later(delay, self._tell, one, bridge, self._version)

    def tell(self, bridge: Bridge, *, flush: bool = True) -> None:
        """Have a node hear of the present leader now."""
        self._tell(bridge, self.leader, self._version, flush=flush)

    def _tell(self, bridge: Bridge, leader: Bridge, version: int, *, flush: bool = True) -> None:
        if version < self._told[bridge] or bridge.closed:
            return
        self._told[bridge] = version
        if version >= self._known:
            self._known, self.known_leader = version, leader
        self.world.trace(f"node {self.number(bridge)}", "= node %d leads", self.number(leader))
        view = self._view(leader, version)
        bridge.handlers.cluster.update(view, self.number(bridge), Serving.SERVE)
        bridge.topics.lead_by(_Lead(leader is bridge, version > 0))
        if leader is not bridge:
            bridge.topics.hand_over(lambda *_: True, flush=flush)

    def number(self, bridge: Bridge) -> int:
        """A node's id."""
        return self.bridges.index(bridge)

    def _view(self, leader: Bridge, version: int) -> ClusterView:
        members = {
            number: NodeRegistration(f"n{number}", 1, number, (Endpoint("PLAINTEXT", f"n{number}", 9092),), since=1)
            for number in range(len(self.bridges))
        }
        names = {member.name: member.id for member in members.values()}
        number = self.number(leader)
        return ClusterView(version + 1, 0, members, names, (number,), (version + 1,), (0,))
