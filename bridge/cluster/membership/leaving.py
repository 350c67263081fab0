"""How a node leaves in order: it hands over what it leads, then says that it is gone.

`leave` → the others take over → `HandedOver` → the shell closes its sockets → `stopped` → the others know → `Left`.
"""

from dataclasses import replace
from math import inf

from bridge.cluster.membership.effects import HandedOver, Left
from bridge.cluster.membership.planning import weights
from bridge.cluster.membership.timing import Timing
from bridge.cluster.membership.view import ClusterView, NodeRegistration


class Leaving:
    """How far a node is with leaving."""

    def __init__(self, timing: Timing) -> None:
        self.timing = timing
        self.stopped_at = inf
        self._leaving_at: float | None = None
        self._is_handed_over = False

    def begin(self, now: float) -> bool:
        """The node leaves; False: it does already."""
        if self._leaving_at is not None:
            return False
        self._leaving_at = now
        return True

    def due(self, view: ClusterView, mine: NodeRegistration | None, now: float) -> HandedOver | Left | None:
        """What has been reached; `mine`: this life of the node as the view has it."""
        if now - self.stopped_at > self.timing.dead or (self.stopped_at < inf and mine is None):
            return Left()
        if self._leaving_at is None or self._is_handed_over:
            return None
        if now - self._leaving_at < self.timing.drain and _leads_anything(view, mine):
            return None
        self._is_handed_over = True
        return HandedOver()


def _leads_anything(view: ClusterView, mine: NodeRegistration | None) -> bool:
    """Whether there is anything to hand over, and a node that can take it."""
    if mine is None:
        return False
    others = {id_: member for id_, member in view.members.items() if id_ != mine.id}
    if not any(weights(replace(view, members=others)).values()):
        return False
    return mine.id in view.owners or mine.id in view.groups
