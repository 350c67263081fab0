"""What the controller does: it watches the members, admits and removes, moves slots, and ticks.

Rules:

1. It admits the nodes that send heartbeats, and removes those that are gone or say so. All news goes into one view.
2. Slots of members that are gone move at once; to and from members that are there they move in steps.
3. One proposal is under way at a time. Only its own record, read back in the log, makes it a view.
4. A heartbeat of an earlier life of a node says nothing. Two members never have the same id. A life that an operator
   has removed is not admitted again. The ids of names that have been away for longest are forgotten in the end.
5. A controller that has gone names the member that comes next.
6. It ticks once a second, and writes the view as a whole now and then: what is older may be deleted. One tick is under
   way at a time, and none without own heartbeats: a controller that reads nothing must not seem to live.
7. Another node that goes on to tick has begun the log again while this one still goes by the log that was lost: each
   finds the other's records void. A view that counts as another beginning, for both, ends that. A former controller
   cannot be taken for one: it sends no second tick before it has read the first, and the view before it.
"""

from dataclasses import dataclass, replace
from math import inf

from bridge.cluster.membership.effects import NodeRefused
from bridge.cluster.membership.liveness import Liveness
from bridge.cluster.membership.planning import NextMembers, is_balanced, next_view
from bridge.cluster.membership.records import Heartbeat, Tick, ViewRecord, WholeView
from bridge.cluster.membership.timing import Timing
from bridge.cluster.membership.view import NO_NODE, ClusterView, NodeRegistration, NodeState, Sender
from bridge.cluster.membership.view_log import first_of_new_log, view_record


@dataclass(frozen=True, slots=True)
class Proposal:
    """A view that the controller wants, and why."""

    view: ClusterView
    reason: str
    whole: bool
    is_beginning: bool = False
    """It counts whatever came before it."""

    def record(self, sender: Sender, before: ClusterView, base: int) -> ViewRecord:
        """What to write to get there from the view `before`, which has this base."""
        if self.whole:
            return WholeView(sender, 0 if self.is_beginning else base, self.view, self.reason)
        return view_record(sender, before, self.view, self.reason)


class Controller:
    """The duties of the node that the view names controller."""

    def __init__(self, timing: Timing, now: float, attached_at: float) -> None:
        self.liveness = Liveness(timing, now, attached_at)
        self.timing = timing
        self.has_news = False
        self.is_waiting = False
        """Pulsar has not said yet whether a node's connection is there."""
        self.new_refusals: list[NodeRefused] = []
        self._refused: set[str] = set()
        self._registrations: dict[str, NodeRegistration] = {}
        self._tick_at = now
        self._suspicion_at = inf
        self._is_tick_under_way = False
        self._own_read_at = now
        self._whole_at = now + timing.whole_view
        self._moves_at = now
        self._is_balanced = False
        self._rival: Sender | None = None
        self._rival_since = now
        self._rival_version = 0
        self._has_rival = False

    # ---- events ------------------------------------------------------------------------------------------------------

    def heartbeat_read(self, heartbeat: Heartbeat, is_own: bool, now: float) -> None:
        """A heartbeat was read, in the order of the topic."""
        node = heartbeat.node
        known = self._registrations.get(node.name)
        if known is not None and node.incarnation < known.incarnation:
            return
        if is_own:
            self.liveness.echoed(heartbeat.at)
            self._own_read_at = now
        if node != known:
            self.has_news = True
            self._registrations[node.name] = node
        self.liveness.heard(node.name, now)

    def view_changed(self, before: ClusterView, after: ClusterView) -> None:
        """There is a new view, and this node is still its controller."""
        for name in before.ids:
            if before.member(name) and not after.member(name):
                self.liveness.forget(name)
                self._registrations.pop(name, None)
        self.liveness.timing = self.timing.for_members(len(after.members))
        self._is_balanced = is_balanced(after)
        self.has_news = True
        if after.version > before.version + 1:  # another beginning
            self._rival, self._has_rival = None, False

    def tick_read(self) -> None:
        """The own tick was read back, or given up."""
        self._is_tick_under_way = False

    def rival_tick_read(self, tick: Tick, now: float) -> None:
        """Another node ticks as well."""
        if tick.sender != self._rival:
            self._rival, self._rival_since = tick.sender, now
        self._rival_version = tick.version
        if now - self._rival_since >= self.timing.dead and not self._has_rival:
            self._has_rival = self.has_news = True

    # ---- what is due -------------------------------------------------------------------------------------------------

    def is_tick_due(self, now: float) -> bool:
        """Whether to tick. Not while its own heartbeats do not come back: it could not tell who is gone."""
        is_blind = now - self._own_read_at > self.timing.cut_off
        return not self._is_tick_under_way and not is_blind and now >= self._tick_at

    def tick_sent(self, now: float) -> None:
        """A tick is under way."""
        self._tick_at, self._is_tick_under_way = now + self.timing.tick, True

    def attached(self, now: float) -> None:
        """Pulsar has this node back."""
        self.liveness.attached(now)
        self._is_tick_under_way = False

    def suspects(self, view: ClusterView, me: NodeRegistration, now: float) -> list[str]:
        """Whose connections to ask for."""
        names = [member.name for member in view.members.values() if member.name != me.name]
        suspects = [name for name in names if self.liveness.judge(name, now).ask]
        for name in suspects:
            self.liveness.asked(name, now)
        self.is_waiting = any(self.liveness.is_asked(name) for name in names)
        # who waits for its own heartbeats to come back is called by them
        expected = [at for name in names if (at := self.liveness.suspicion_at(name)) > now]
        self._suspicion_at = min(expected, default=inf)
        return suspects

    def wake_at(self) -> float:
        """When something may be due."""
        if self.has_news:
            return -inf
        due = self._suspicion_at if self._is_tick_under_way else min(self._suspicion_at, self._tick_at)
        return due if self._is_balanced else min(due, self._moves_at)

    def proposal(self, view: ClusterView, me: NodeRegistration, now: float) -> Proposal | None:
        """The view that should be next."""
        self.has_news = False
        version = view.version + 1
        members, reasons = NextMembers(view), list[str]()
        if self._has_rival and self._rival is not None:
            version = first_of_new_log(max(view.version, self._rival_version))
            reasons.append(f"the log began again, with {self._rival.name} as its controller")
        self._remove(members, me, now, reasons)
        self._admit(members, me, version, reasons)
        controller = view.controller
        if me.state is NodeState.GONE:
            members.remove(controller)
            controller = self._successor(members)
            reasons.append(f"left: {me.name}")
        elif members.members.get(controller) != replace(me, id=controller, since=view.members[controller].since):
            members.put(replace(me, id=controller), version)
            reasons.append(f"changed: {me.name}")
        can_move = now >= self._moves_at
        is_whole = now >= self._whole_at
        members.drop_ids(self.timing.kept_ids)
        if not members.is_changed and not self._has_rival and (self._is_balanced or not can_move) and not is_whole:
            return None
        proposed, moved = next_view(members.made(version, controller), self.timing.move_slots if can_move else 0)
        if moved:
            self._moves_at = now + moved / self.timing.move_slots
            reasons.append(f"moved {moved} slots")
        if is_whole:
            self._whole_at = now + self.timing.whole_view
        # a node that joins may have found a log without its beginning
        is_whole = is_whole or members.members.keys() - view.members.keys() != set()
        if self._has_rival:  # those who went by the other view know later epochs
            proposed = replace(proposed, epochs=(version,) * len(proposed.epochs))
        return Proposal(proposed, "; ".join(reasons)[:200], is_whole or self._has_rival, self._has_rival)

    def _remove(self, members: NextMembers, me: NodeRegistration, now: float, reasons: list[str]) -> None:
        for id_, member in members.view.members.items():
            if member.name != me.name and (why := self.liveness.judge(member.name, now).gone):
                members.remove(id_)
                self._registrations.pop(member.name, None)
                reasons.append(f"dead: {member.name}, {why}")

    def _admit(self, members: NextMembers, me: NodeRegistration, version: int, reasons: list[str]) -> None:
        for name, node in self._registrations.items():
            if name == me.name or self.liveness.silence(name) > self.timing.suspect:
                continue  # it may be gone since
            known = members.named(name)
            if node.state is NodeState.GONE or (known is None and node.state is not NodeState.UP):
                if known is not None and known.incarnation <= node.incarnation:
                    members.remove(known.id)
                    reasons.append(f"left: {name}")
            elif known is None or known.incarnation <= node.incarnation:
                self._put(members, node, known, version, reasons)

    def _put(
        self,
        members: NextMembers,
        node: NodeRegistration,
        known: NodeRegistration | None,
        version: int,
        reasons: list[str],
    ) -> None:
        if known is not None and replace(known, since=0, id=node.id if node.id == NO_NODE else known.id) == node:
            return
        if members.view.has_removed(node):
            self._refuse(node.name, "it was removed; a restart brings it back")
            return
        if members.put(node, version) is None:
            self._refuse(node.name, f"id {node.id} is another node's")
            return
        self._refused.discard(node.name)
        what = "joined" if known is None else "changed" if known.incarnation == node.incarnation else "restarted"
        reasons.append(f"{what}: {node.name}")

    def _refuse(self, name: str, why: str) -> None:
        if name not in self._refused:
            self._refused.add(name)
            self.new_refusals.append(NodeRefused(name, why))

    def _successor(self, members: NextMembers) -> int:
        """The member that has been here longest, and is known to be."""
        alive = [
            member
            for member in members.members.values()
            if member.state is NodeState.UP and self.liveness.silence(member.name) <= self.timing.suspect
        ]
        return min(alive, key=lambda member: (member.since, member.id)).id if alive else NO_NODE
