"""The membership of one node as a state machine: events and `now` in, effects out.

States of a node, and what brings it from one to the next:

| state      | means                                       | leaves it                                              |
|------------|---------------------------------------------|--------------------------------------------------------|
| Starting   | opens its name, reads the view log          | both are done: Joining; the name stays in use: Ended   |
| Joining    | sends heartbeats; the view does not have it | a view has it: Member, Controller                      |
| Member     | in the view, which names another controller | a view names it: Controller; a view without it: Joining|
| Controller | in the view, which names it                 | a view names another: Member; without it: Joining      |
| Ended      | left, replaced by a later life, or refused  | never                                                  |

A node that leaves is what it was until the others have taken over from it.

Rules (the controller's are in `controller`, those of silence in `liveness`, those of heartbeats in `contact`):

1. The view is what the log makes of its records in their order (`view_log`). Nothing else makes a node a member or the
   controller, and what a node believes too long does no harm: its proposals have an old base.
2. Without a controller a node proposes itself, after a short wait that differs from node to node.
3. A silent controller is succeeded by the other members in the order in which they came, each a step later. They ask
   Pulsar for its connection: gone: the first proposes at once a view without it and with itself as controller; no
   answer: after a silence. Two propose: the first in the log is right, the other's record is void.
4. Before that a node reads back a challenge: it then knows that no tick has come that it has not read.
5. Holding the name proves that an earlier life is gone. A node that finds its earlier life as controller takes over.
6. One proposal at a time; one that does not come back is made again.
7. A name that is in use is waited for, as long as Pulsar may take to notice a predecessor's end. A node that finds a
   later life of its name in the view ends. One that an operator has removed is Joining, and never proposes itself.
"""

from dataclasses import replace
from math import inf
from typing import Final

from bridge.cluster.membership.contact import Contact
from bridge.cluster.membership.controller import Controller
from bridge.cluster.membership.effects import (
    Append,
    Effect,
    Left,
    MembershipState,
    NameInUse,
    Probe,
    ProbeResult,
    ReadLogFrom,
    Replaced,
    Serving,
    ServingChanged,
    ViewChanged,
    WatchHeartbeats,
)
from bridge.cluster.membership.leaving import Leaving
from bridge.cluster.membership.liveness import Liveness
from bridge.cluster.membership.records import (
    Challenge,
    Heartbeat,
    LogRecord,
    Tick,
    ViewDifference,
    ViewRecord,
    WholeView,
)
from bridge.cluster.membership.succession import ControllerSuccession
from bridge.cluster.membership.timing import MembershipConfig
from bridge.cluster.membership.view import ClusterView, NodeRegistration, NodeState
from bridge.cluster.membership.view_log import ViewLog
from bridge.pulsar.types import EARLIEST, Position

_IN_VIEW: Final = (MembershipState.MEMBER, MembershipState.CONTROLLER)


class Membership:
    """One node's membership: events and the time go in, effects come out."""

    def __init__(self, node: NodeRegistration, config: MembershipConfig, now: float) -> None:
        self.node = node
        self.config = config
        self.log = ViewLog()
        self.contact = Contact(config.timing, now)
        self.controller: Controller | None = None
        self.state = MembershipState.STARTING
        self.void_records = 0
        self._succession = ControllerSuccession(config, now)
        self._effects: list[Effect] = []
        self._is_log_read = self._has_news = False
        self._name_refused_at: float | None = None
        self._pending: float | None = None
        """When the proposal was made that is under way."""
        self._leaving = Leaving(config.timing)
        self._told = Serving.REFUSE
        self._read_for: tuple[Position, int] | None = None
        """The whole view and the version for which the log is read again."""
        self._read_again_by = EARLIEST
        """The tick that named them."""

    @property
    def view(self) -> ClusterView:
        """The view as this node has read it."""
        return self.log.view

    @property
    def serving(self) -> Serving:
        """What becomes of requests for what this node leads."""
        if self.state not in _IN_VIEW or self.log.has_gap:
            return Serving.REFUSE
        serving, is_alone = self.contact.serving, len(self.view.members) == 1
        # clients of the only node have nowhere else to go: their requests wait here for Pulsar
        return Serving.SERVE if is_alone and serving is Serving.REFUSE else serving

    @property
    def wake_at(self) -> float:
        """When to call `run` next."""
        if self.state in (MembershipState.STARTING, MembershipState.ENDED):
            return self.contact.last_run + self.config.timing.wake
        if self._has_news:
            return -inf
        is_idle = self._pending is None and self.contact.is_attached
        due = inf
        if is_idle and self.controller:
            due = self.controller.wake_at()
        elif is_idle and self._stands_by:
            due = self._succession.wake_at(self.view, self.node)
        return max(min(self.contact.wake_at, due), self.contact.last_run + self.config.timing.least_wait)

    def take_effects(self) -> list[Effect]:
        """What is to be done, in this order."""
        effects, self._effects = self._effects, []
        return effects

    # ---- events: the connection --------------------------------------------------------------------------------------

    def name_opened(self, now: float) -> None:
        """Pulsar has given this node its producer, for the first time or again."""
        self._begin(now)
        self.contact.attached(now)
        self._succession.attached(now)
        if self.controller:
            self.controller.attached(now)
        self._join(now)

    def name_refused(self, holder: str, now: float) -> None:
        """Pulsar says that the name is in use."""
        self._begin(now)
        if self.state is not MembershipState.STARTING:
            return  # the own former connection: the shell goes on trying
        if self._name_refused_at is None:
            self._name_refused_at = now
        if now - self._name_refused_at >= self.config.timing.name_wait:
            self._end(NameInUse(holder))

    def connection_lost(self, now: float) -> None:
        """The producer is gone, and the answers that were under way."""
        self._begin(now)
        self.contact.detached()
        for watch in self._watches():
            watch.detached()

    def heartbeat_stored(self, sent_at: float, now: float) -> None:
        """The receipt of the heartbeat that was sent then."""
        self._begin(now)
        if self.contact.heartbeat_stored(sent_at, now):
            for watch in self._watches():
                watch.stalled(now)
        if sent_at >= self._leaving.stopped_at and self.state is not MembershipState.CONTROLLER:
            self._end(Left())
        self._tell_serving()

    def heartbeat_failed(self, now: float) -> None:
        """The heartbeat under way was given up."""
        self._begin(now)
        self.contact.heartbeat_failed(now)

    def append_failed(self, record: LogRecord, now: float) -> None:
        """A record for the view log was given up."""
        self._begin(now)
        if isinstance(record, Challenge):
            self.contact.challenge_failed()
        elif isinstance(record, WholeView | ViewDifference):
            self._pending = None
        elif self.controller:
            self.controller.tick_read()

    def pulsar_answered(self, now: float) -> None:
        """A broker has answered a question, whatever becomes of heartbeats."""
        self._begin(now)
        self.contact.pulsar_answered(now)

    def probe_answered(self, name: str, result: ProbeResult, now: float) -> None:
        """Pulsar has said whether a node's connection is there."""
        self._begin(now)
        self._has_news = True
        for watch in self._watches():
            if self.contact.is_receipt_overdue(now):
                watch.stalled(now)
            watch.answered(name, result, now)

    # ---- events: what is read ----------------------------------------------------------------------------------------

    def log_read(self, now: float) -> None:
        """The view log was read up to the end that it had at the start."""
        self._begin(now)
        self._is_log_read = True
        self._join(now)

    def record_read(self, record: LogRecord, position: Position, now: float) -> None:
        """The next record of the view log."""
        self._begin(now)
        before = self.view
        if self.log.fold(record, position):
            self._view_changed(before, record, now)
        elif isinstance(record, WholeView | ViewDifference):
            if record.sender == self.node.sender:
                self.void_records += 1
                self._pending = None
            elif not self.log.version and record.base:
                self._succession.controller_heard(now)
        elif isinstance(record, Tick):
            self._tick_read(record, position, now)
        elif isinstance(record, Challenge) and record.sender == self.node.sender:
            self.contact.challenge_read(record.at, now)
            self._succession.watch.echoed(record.at)
            self._has_news = True
        self._tell_serving()

    def heartbeat_read(self, heartbeat: Heartbeat, now: float) -> None:
        """The next record of the heartbeat topic."""
        self._begin(now)
        if self.controller:
            self.controller.heartbeat_read(heartbeat, heartbeat.node.sender == self.node.sender, now)

    # ---- events: time and ends ---------------------------------------------------------------------------------------

    def run(self, now: float) -> None:
        """Do what is due."""
        self._begin(now)
        self._has_news = False
        if self.state is MembershipState.ENDED:
            return
        if self._pending is not None and now - self._pending > self.config.timing.dead:
            self._pending = None
        self._effects += self.contact.due(self.node, now, is_started=self.state is not MembershipState.STARTING)
        if self.controller:
            self._control(self.controller, now)
        elif self._stands_by:
            self._stand_by(now)
        self._check_leaving(now)
        self._tell_serving()

    def leave(self, now: float) -> None:
        """Give away what this node leads; `HandedOver` comes when that is done."""
        self._begin(now)
        if self._leaving.begin(now):
            self._change_state(NodeState.LEAVING, now)
            self._check_leaving(now)

    def stopped(self, now: float) -> None:
        """Nothing is served any more: tell the others, `Left` comes when that is done."""
        self._begin(now)
        self._leaving.stopped_at = now
        self._change_state(NodeState.GONE, now)

    # ---- within ------------------------------------------------------------------------------------------------------

    def _begin(self, now: float) -> None:
        if self.contact.time_passed(now):
            for watch in self._watches():
                watch.paused(now)
        self._tell_serving()

    def _watches(self) -> list[Liveness]:
        return [self._succession.watch, *([self.controller.liveness] if self.controller else [])]

    def _tell_serving(self) -> None:
        serving = self.serving
        if serving is not self._told:
            self._told = serving
            self._effects.append(ServingChanged(serving, self.contact.reason))

    def _end(self, why: Effect) -> None:
        if self.state is not MembershipState.ENDED:
            self._lose_control()
            self.state = MembershipState.ENDED
            self._effects.append(why)

    def _join(self, now: float) -> None:
        """Begin to take part, once the name is held and the view known."""
        if self.state is not MembershipState.STARTING or not self.contact.is_attached or not self._is_log_read:
            return
        self.state = MembershipState.JOINING
        self._succession.joined(now)

    def _change_state(self, state: NodeState, now: float) -> None:
        self.node = replace(self.node, state=state)
        self.contact.next_heartbeat = now
        if self.controller:
            self.controller.has_news = True

    def _tick_read(self, tick: Tick, position: Position, now: float) -> None:
        is_new = position > self._read_again_by  # else two that tick would have all read again without end
        if self.log.has_gap and is_new and (tick.whole_at, tick.version) != self._read_for:
            self._read_for, self._read_again_by = (tick.whole_at, tick.version), position
            self._effects.append(ReadLogFrom(tick))
        if not self.log.version:  # there is a controller, whose next whole view is waited for
            self._succession.controller_heard(now)
            return
        leader = self.view.leader
        if leader is not None and tick.sender == leader.sender:
            self._succession.watch.heard(leader.name, now)
            if self.controller:
                self.controller.tick_read()
        elif self.controller:
            self.controller.rival_tick_read(tick, now)

    def _view_changed(self, before: ClusterView, record: LogRecord, now: float) -> None:
        view = self.view
        self._pending = None
        self._effects.append(ViewChanged(before, view, getattr(record, "reason", "")))
        self.contact.timing = self._succession.watch.timing = self.config.timing.for_members(len(view.members))
        self._succession.leader_changed(now)
        mine = view.member(self.node.name)
        is_later = mine is not None and mine.incarnation > self.node.incarnation
        if is_later or self.state is MembershipState.STARTING:
            self._other_life(mine)
        elif self.state is not MembershipState.ENDED:
            self._take_role(before, mine, now)
            self._check_leaving(now)

    def _other_life(self, mine: NodeRegistration | None) -> None:
        """A view before this life is known, or of a later one."""
        known = max(self.view.removed.get(self.node.name, -1), mine.incarnation if mine else -1)
        if known < self.node.incarnation:
            return
        if self.state is MembershipState.STARTING:  # its clock was ahead of ours
            self.node = replace(self.node, incarnation=known + 1)
        else:
            self._end(Replaced(known))

    def _take_role(self, before: ClusterView, mine: NodeRegistration | None, now: float) -> None:
        view = self.view
        is_mine = mine is not None and mine.incarnation == self.node.incarnation
        if is_mine and mine is not None and view.controller == mine.id:
            self.state = MembershipState.CONTROLLER
            if self.controller is None:
                self.controller = Controller(self.config.timing, now, self.contact.attached_at)
                self.contact.next_heartbeat = now
                self._effects.append(WatchHeartbeats(True))
            self.controller.view_changed(before, view)
        else:
            self._lose_control()
            self.state = MembershipState.MEMBER if is_mine else MembershipState.JOINING

    def _lose_control(self) -> None:
        if self.controller:
            self.controller = None
            self.contact.heartbeats_wanted = False
            self._effects.append(WatchHeartbeats(False))
            self.state = MembershipState.MEMBER

    def _control(self, controller: Controller, now: float) -> None:
        if not self.contact.is_attached:
            return
        if controller.is_tick_due(now):
            controller.tick_sent(now)
            tick = Tick(self.node.sender, self.view.version, self.log.whole_at, self.log.folded_to)
            self._effects.append(Append(tick))
        for name in controller.suspects(self.view, self.node, now):
            self._effects.append(Probe(name))
        self.contact.heartbeats_wanted = controller.is_waiting
        if self._pending is not None:
            return
        proposal = controller.proposal(self.view, self.node, now)
        self._effects += controller.new_refusals
        controller.new_refusals.clear()
        if proposal:
            self._propose(proposal.record(self.node.sender, self.view, self.log.version), now)

    def _stand_by(self, now: float) -> None:
        if not self.contact.is_attached or self._pending is not None:
            return
        succession = self._succession
        decision = succession.decide(self.view, self.node, now)
        self.contact.challenge_wanted = decision.challenge
        if decision.ask:
            self._effects.append(Probe(decision.ask))
        if decision.take:
            view = succession.successor_view(self.view, self.node, self.log.version)
            if view:
                self._propose(WholeView(self.node.sender, self.log.version, view, decision.take), now)

    def _propose(self, record: ViewRecord, now: float) -> None:
        self._pending = now
        self._effects.append(Append(record))

    def _check_leaving(self, now: float) -> None:
        if self.state is MembershipState.ENDED:
            return
        reached = self._leaving.due(self.view, self._mine, now)
        if isinstance(reached, Left):
            self._end(reached)
        elif reached:
            self._effects.append(reached)

    @property
    def _stands_by(self) -> bool:
        """Whether this node would take over from the controller: not one that leaves, or that an operator removed."""
        is_up = self.state is not MembershipState.STARTING and self.node.state is NodeState.UP
        return is_up and not self.view.has_removed(self.node)

    @property
    def _mine(self) -> NodeRegistration | None:
        """This life of the node as the view has it."""
        return self.view.member(self.node.name) if self.state in _IN_VIEW else None
