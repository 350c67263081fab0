"""Rules of the state machine switched off, one at a time: the simulation has to notice each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from bridge.cluster.membership import controller, planning, view_log
from bridge.cluster.membership.contact import Contact
from bridge.cluster.membership.controller import Controller
from bridge.cluster.membership.effects import ProbeResult
from bridge.cluster.membership.liveness import Liveness
from bridge.cluster.membership.planning import NextMembers
from bridge.cluster.membership.records import ViewDifference
from bridge.cluster.membership.state import Membership
from bridge.cluster.membership.succession import ControllerSuccession, Decision
from bridge.cluster.membership.view import ClusterView, NodeRegistration, NodeState, Sender
from bridge.cluster.membership.view_log import ViewLog
from tests.cluster.simulation.scenario import Plan


@dataclass(frozen=True)
class Mutation:
    """A rule that does not hold, and where that shows."""

    rule: str
    plan: Plan
    """Which faults show it, to how many nodes."""
    changes: tuple[tuple[Any, str, Any], ...] = field(default=())
    """What is replaced: of which class or module, which name, by what."""
    seeds: int = 60
    """It shows within so many."""
    noticed: int = 0
    """The first that is tried: one in which it showed."""

    @contextmanager
    def made(self) -> Iterator[None]:
        """Within it the rule does not hold."""
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in self.changes]
        for owner, name, value in self.changes:
            setattr(owner, name, value)
        try:
            yield
        finally:
            for owner, name, value in before:
                setattr(owner, name, value)


def _plan(nodes: int, *faults: str, **fields: Any) -> Plan:
    return Plan(nodes, 0, only=faults, **fields)


def _always(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


_judge, _answered, _decide, _stalled = Liveness.judge, Liveness.answered, ControllerSuccession.decide, Liveness.stalled
_challenge_due = Contact.is_challenge_due
_applied, _next_view, _made = view_log.applied, planning.next_view, NextMembers.made


def _judge_by_the_clock(self: Liveness, name: str, now: float, delay: float = 0.0, proof: bool = False) -> Any:
    self.echo = now
    return _judge(self, name, now, delay, proof)


def _never_ask(self: Liveness, name: str, now: float, delay: float = 0.0, proof: bool = False) -> Any:
    return replace(_judge(self, name, now, delay, proof), ask=False)


def _no_busy(self: Liveness, name: str, result: ProbeResult, now: float) -> None:
    if result is ProbeResult.FREE:
        _answered(self, name, result, now)


def _no_grace(self: Liveness, now: float) -> None:
    for watched in self._watched.values():
        watched.asked = watched.free = None


def _unanswered_by_the_clock(self: Liveness, watched: Any, until: float) -> bool:
    return watched.asked is not None


def _due_though_under_way(self: Contact, now: float) -> bool:
    return self.is_attached and now >= self.next_heartbeat


def _challenge_until_it_is_back(self: Contact, now: float) -> bool:
    return not self._is_challenge_under_way and _challenge_due(self, now)


def _tick_though_under_way(self: Controller, now: float) -> bool:
    return now >= self._tick_at


def _tick_though_blind(self: Controller, now: float) -> bool:
    return not self._is_tick_under_way and now >= self._tick_at


def _no_claim(self: ControllerSuccession, view: ClusterView, me: NodeRegistration, now: float) -> Decision:
    if view.leader is not None and view.leader.name == me.name:
        return Decision()
    return _decide(self, view, me, now)


def _epochs_stay(view: ClusterView, change: ViewDifference) -> ClusterView | None:
    after = _applied(view, change)
    return after and replace(after, epochs=view.epochs)


def _epochs_all_change(view: ClusterView, change: ViewDifference) -> ClusterView | None:
    after = _applied(view, change)
    return after and replace(after, epochs=(after.version,) * len(after.epochs))


def _any_id(self: NextMembers, node: NodeRegistration) -> int:
    return node.id if node.id >= 0 else self.ids.get(node.name, len(self.ids))


def _weight_though_leaving(view: ClusterView) -> dict[int, int]:
    return {id_: 0 if member.name in view.drained else member.weight for id_, member in view.members.items()}


def _weight_though_drained(view: ClusterView) -> dict[int, int]:
    return {id_: member.weight if member.state is NodeState.UP else 0 for id_, member in view.members.items()}


def _no_weight_though_alone(view: ClusterView) -> dict[int, int]:
    up = _weight_though_drained(view)
    return {id_: 0 if view.members[id_].name in view.drained else weight for id_, weight in up.items()}


def _only_when_attached(self: Liveness, now: float) -> None:
    if self._floor == now:
        _stalled(self, now)


def _highest_level(view: ClusterView, most_moves: float) -> tuple[ClusterView, int]:
    after, moved = _next_view(view, most_moves)
    return replace(after, level=max((member.level for member in view.members.values()), default=1)), moved


def _any_id_dropped(self: NextMembers, most: int) -> None:
    here = {member.name for member in self.members.values()}
    for name in sorted(self.ids.keys() - here)[most:]:
        del self.ids[name]


TRIMMED = ("freeze", "freeze_controller", "cut", "join", "trim", "trim")
_ORDERS = ("remove", "remove_controller", "drain", "kill_controller", "kill")

MUTATIONS = {
    "silence by the clock": Mutation(
        "silence counts in log time", _plan(3, "stall", "slow_reader"), ((Liveness, "judge", _judge_by_the_clock),)
    ),
    "many heartbeats": Mutation(
        "one heartbeat is under way at a time",
        _plan(3, "stall"),
        ((Contact, "is_heartbeat_due", _due_though_under_way), (Liveness, "_is_unanswered", _unanswered_by_the_clock)),
        noticed=4,
    ),
    "no grace": Mutation(
        "after an own reconnect the others get time",
        _plan(3, "restart", "move_heartbeats", timing=(("grace", 0.0),)),
        ((Liveness, "attached", _no_grace),),
    ),
    "no silence after a pause": Mutation(
        "after a pause silence begins again",
        _plan(3, "mute", "freeze_controller"),
        ((Liveness, "paused", _always(None)), (Liveness, "_is_unanswered", _unanswered_by_the_clock)),
    ),
    "impatience": Mutation(
        "Pulsar is given log time to answer",
        _plan(10, "mute", "stall"),
        ((Liveness, "_is_unanswered", _unanswered_by_the_clock),),
        seeds=200,
    ),
    "no questions": Mutation("suspects are asked for", _plan(3, "kill"), ((Liveness, "judge", _never_ask),)),
    "busy is no answer": Mutation("busy clears", _plan(3, "mute"), ((Liveness, "answered", _no_busy),)),
    "hung forever": Mutation("what hangs is removed", _plan(3, "mute", timing=(("hung", inf),))),
    "no compare-and-set": Mutation(
        "a view counts if its base is the version",
        _plan(3, "kill_controller", "freeze_controller", "leave_controller"),
        ((view_log.ViewLog, "_counts", _always(True)),),
    ),
    "no wait at first": Mutation(
        "the first proposal waits for chance",
        _plan(50, steps=0, start_within=0.0, timing=(("first_wait", 0.0), ("first_wait_spread", 0.0))),
    ),
    "pauses go unnoticed": Mutation(
        "a node learns after a pause what it has missed", _plan(3, "freeze", timing=(("pause", inf),))
    ),
    "cut off and serving": Mutation("a node that is cut off refuses", _plan(3, "cut", timing=(("cut_off", inf),))),
    "no claim": Mutation(
        "a controller that restarts takes over",
        _plan(3, "kill_controller"),
        ((ControllerSuccession, "decide", _no_claim),),
    ),
    "epochs stay": Mutation(
        "an epoch changes with the owner", _plan(3, "kill"), ((view_log, "applied", _epochs_stay),)
    ),
    "all epochs change": Mutation(
        "an epoch changes only with the owner", _plan(3, "kill"), ((view_log, "applied", _epochs_all_change),)
    ),
    "all moves at once": Mutation(
        "slots move in steps", _plan(2, "join", timing=(("move_slots", 10_000),), move_slots=16)
    ),
    "any id": Mutation("an id has one member", _plan(3, "same_id"), ((NextMembers, "_id_of", _any_id),)),
    "slots of who leaves": Mutation(
        "a node that leaves gives its slots away",
        _plan(3, "leave"),
        ((planning, "weights", _weight_though_leaving),),
    ),
    "no wait for the name": Mutation(
        "a name in use is waited for", _plan(3, "crash", timing=(("name_wait", 0.0),)), noticed=14
    ),
    "two lives": Mutation(
        "a later life ends the earlier one",
        _plan(3, "cut", "same_name"),
        ((Membership, "_other_life", _always(None)),),
        noticed=4,
    ),
    "nothing to start from": Mutation(
        "a tick names the last whole view",
        _plan(3, "kill"),
        ((view_log.ViewLog, "_counts", lambda self, record, position: record.base == self.version),),
    ),
    "ticks though unread": Mutation(
        "one tick is under way at a time",
        _plan(3, "cut_controller"),
        ((Controller, "is_tick_due", _tick_though_under_way),),
        noticed=9,
    ),
    "ticks though blind": Mutation(
        "a controller that cannot tell who is gone does not tick",
        _plan(2, "mute"),
        ((Controller, "is_tick_due", _tick_though_blind),),
    ),
    "the highest level": Mutation(
        "what all can read is written", _plan(3, "join"), ((controller, "next_view", _highest_level),)
    ),
    "removed and back": Mutation(
        "a life that was removed is not admitted", _plan(3, *_ORDERS), ((ClusterView, "has_removed", _always(False)),)
    ),
    "orders of one controller": Mutation(
        "orders are in the view",
        _plan(3, *_ORDERS),
        ((NextMembers, "made", lambda self, *args: replace(_made(self, *args), drained=frozenset(), removed={})),),
    ),
    "drained and leading": Mutation(
        "a drained node leads nothing", _plan(3, "drain"), ((planning, "weights", _weight_though_drained),)
    ),
    "drained and alone": Mutation(
        "drained nodes lead if no others are left",
        _plan(2, "drain", "kill", "retire"),
        ((planning, "weights", _no_weight_though_alone),),
    ),
    "any id is dropped": Mutation(
        "ids of those that are away for longest are dropped",
        _plan(3, "retire", "join", steps=12, timing=(("kept_ids", 2),)),
        ((NextMembers, "drop_ids", _any_id_dropped),),
    ),
    "stalls go unnoticed": Mutation(
        "after a stall others get time",
        _plan(3, "move_heartbeats", "stall", "freeze"),
        ((Liveness, "stalled", _only_when_attached),),
        seeds=800,
    ),
    "missed records": Mutation(
        "a node that has missed records reads the whole view",
        _plan(3, *TRIMMED, timing=(("lost", 4.0),)),
        ((ViewLog, "has_gap", property(_always(False), _always(None))),),
    ),
    "a missed challenge": Mutation(
        "a challenge that was deleted unread is made again",
        _plan(3, *TRIMMED, timing=(("lost", 4.0),)),
        ((Contact, "is_challenge_due", _challenge_until_it_is_back),),
    ),
    "one name for all": Mutation(
        "a record counts for its sender", _plan(3, "freeze"), ((NodeRegistration, "sender", Sender("n", 1)),)
    ),
}
"""By name."""
