"""When a node that is not the controller has to take over, and with which view.

The rules are numbers 2 to 5 of `state`.
"""

from dataclasses import dataclass, replace
from typing import Final

from bridge.cluster.membership.liveness import Liveness
from bridge.cluster.membership.planning import NextMembers, next_view
from bridge.cluster.membership.slots import UNOWNED
from bridge.cluster.membership.timing import MembershipConfig
from bridge.cluster.membership.view import ClusterView, NodeRegistration, NodeState

_MAX_RANK: Final = 8


@dataclass(frozen=True, slots=True)
class Decision:
    """What a node that stands by does now."""

    ask: str = ""
    """Ask Pulsar for the connection of this node."""
    challenge: bool = False
    """Read back a challenge."""
    take: str = ""
    """Propose itself, for this reason."""


_NOTHING: Final = Decision()


class ControllerSuccession:
    """A node that stands by to succeed the controller."""

    def __init__(self, config: MembershipConfig, now: float) -> None:
        self.config = config
        self.watch = Liveness(config.timing, now, now)
        self._leaderless_since = now
        self._ranked: tuple[int, int] = (-1, 0)

    def attached(self, now: float) -> None:
        """Pulsar has this node back."""
        self.watch.attached(now)
        self._leaderless_since = max(self._leaderless_since, now)

    def controller_heard(self, now: float) -> None:
        """There is a controller, though this node knows no view of it: no time to propose itself."""
        self._leaderless_since = now + self.config.timing.dead

    def joined(self, now: float) -> None:
        """This node has read the view log; of a controller it may have heard there."""
        leaderless_since = self._leaderless_since
        self.leader_changed(now)
        self._leaderless_since = max(leaderless_since, now)

    def leader_changed(self, now: float) -> None:
        """There is a new view, or the first one that this node knows."""
        self._leaderless_since = now
        self._ranked = (-1, 0)
        self.watch.restart(now)

    def decide(self, view: ClusterView, me: NodeRegistration, now: float) -> Decision:
        """What to do now."""
        timing, leader = self.config.timing, view.leader
        if leader is None:
            return Decision(take="no controller") if now >= self.wake_at(view, me) else _NOTHING
        delay = self._delay(view, me)
        if leader.name == me.name:
            return Decision(take=f"restarted: {me.name}")
        verdict = self.watch.judge(leader.name, now, delay, proof=True)
        if verdict.gone:
            return Decision(take=f"dead: {leader.name}, {verdict.gone}")
        if verdict.ask:
            self.watch.asked(leader.name, now)
        is_suspect = self.watch.quiet(leader.name, now) > timing.suspect + delay
        return Decision(ask=leader.name if verdict.ask else "", challenge=is_suspect)

    def wake_at(self, view: ClusterView, me: NodeRegistration) -> float:
        """When to decide next at the latest: to suspect the controller, or to propose itself where there is none."""
        if view.leader is not None:
            return self.watch.suspicion_at(view.leader.name, self._delay(view, me))
        timing = self.config.timing
        is_last_that_left = not view.members and view.away.get(me.name) == view.version
        wait = 0.0 if is_last_that_left else timing.first_wait + timing.first_wait_spread * self.config.chance
        return self._leaderless_since + wait + self._delay(view, me)

    def successor_view(self, view: ClusterView, me: NodeRegistration, base: int) -> ClusterView | None:
        """The view without the former controller and with this node in its place."""
        version = base + 1 if base else max(self.config.first_version, view.version + 1)
        members = NextMembers(view)
        if view.leader is not None:
            members.remove(view.controller)
        id_ = members.put(me, version)
        if id_ is None:
            return None
        view = replace(
            members.made(version, id_),
            owners=view.owners or (UNOWNED,) * self.config.slots,
            epochs=view.epochs or (0,) * self.config.slots,
            groups=view.groups or (UNOWNED,) * self.config.groups,
        )
        return next_view(view, 0)[0]

    def _delay(self, view: ClusterView, me: NodeRegistration) -> float:
        """How long to let others go first; those far behind come in any order, or they would all come at once."""
        rank = self._rank(view, me)
        place = rank if rank < _MAX_RANK else rank + 2 * self.config.chance
        return self.config.timing.succession_step * place

    def _rank(self, view: ClusterView, me: NodeRegistration) -> int:
        """How many come first."""
        if self._ranked[0] != view.version:
            others = [member for member in view.members.values() if member.state is NodeState.UP]
            others = [member for member in others if member.id != view.controller]
            others.sort(key=lambda member: (member.since, member.id))
            names = [member.name for member in others]
            rank = names.index(me.name) if me.name in names else len(names)
            self._ranked = (view.version, min(rank, _MAX_RANK))
        return self._ranked[1]
