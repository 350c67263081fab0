"""Whether this node is in contact with Pulsar: its heartbeats and their receipts, pauses, being cut off.

Rules:

1. One heartbeat is under way at a time. The next comes no sooner than half an interval after its receipt, or a whole
   one after a late receipt. So after a stall of Pulsar there is one old heartbeat of each node and not many, and no
   node's second one before the others' first. A controller that waits for a silent node uses the half interval: its
   own heartbeats are what it counts silence by.
2. A node that did not run for a while holds its requests until it has read back a challenge that it sent since: it then
   knows every view that was made meanwhile. A tick would not do: its reader cannot tell when it was written.
3. A node whose heartbeats get no receipts is cut off: it refuses. It is back when a heartbeat and a challenge that it
   has sent since have come back.
4. Heartbeats get no receipts, either, while the broker of their topic is away, or while Pulsar stores nothing: that is
   so for all nodes alike, and none can take over. So a node that misses receipts asks any broker a question. While it
   gets answers it goes on by the view that it has; what it leads by an old view does no harm.
"""

from dataclasses import dataclass
from math import inf

from bridge.cluster.membership.effects import Append, AskPulsar, Effect, SendHeartbeat, Serving
from bridge.cluster.membership.records import Challenge, Heartbeat
from bridge.cluster.membership.timing import Timing
from bridge.cluster.membership.view import NodeRegistration


@dataclass(slots=True)
class _Doubt:
    """What was known has to be learnt again."""

    since: float
    hold_until: float
    cut_off: bool
    reason: str


class Contact:
    """Whether one node is in contact with Pulsar."""

    def __init__(self, timing: Timing, now: float) -> None:
        self.timing = timing
        self.attached_at = inf
        self.next_heartbeat = now
        self.last_run = now
        self.challenge_wanted = False
        """A proof is wanted that the view log is read up to its end."""
        self.heartbeats_wanted = False
        """Silence is being counted: the next heartbeat comes as soon as it may."""
        self._heartbeat_under_way = False
        self._heartbeat_sent_at = now
        self._receipt = now
        self._stored = -inf
        self._challenge_at = now
        self._is_challenge_under_way = False
        self._challenge_read = -inf
        self._doubt: _Doubt | None = None
        self._answered_at = -inf
        self._ask_at = -inf

    # ---- events ------------------------------------------------------------------------------------------------------

    def attached(self, now: float) -> None:
        """Pulsar has taken this node's producer; what was under way is sent again by it."""
        self.attached_at = now
        self._is_challenge_under_way = False

    def detached(self) -> None:
        """The connection is lost."""
        self.attached_at = inf

    def time_passed(self, now: float) -> bool:
        """Before anything else, at every event: was there a pause? Is this node cut off?"""
        gap, self.last_run = now - self.last_run, now
        is_pause = gap > self.timing.pause
        if is_pause:
            self._receipt = now  # the pause was this node's
            cut_off = self._doubt is not None and self._doubt.cut_off
            self._doubt_since(now, cut_off, f"did not run for {gap:.1f} s")
        silence = now - max(self._receipt, self._answered_at)
        if silence > self.timing.cut_off and not (self._doubt and self._doubt.cut_off):
            self._doubt_since(now, True, f"cut off from Pulsar for {silence:.1f} s")
        return is_pause

    def heartbeat_sent(self, now: float) -> None:
        """A heartbeat is under way."""
        self._heartbeat_under_way = True
        self._heartbeat_sent_at = now
        self.next_heartbeat = now + self.timing.heartbeat / (2 if self.heartbeats_wanted else 1)

    def heartbeat_stored(self, sent_at: float, now: float) -> bool:
        """Its receipt is here; True: late."""
        interval = self.timing.heartbeat
        late = now - sent_at >= interval / 2
        self._heartbeat_under_way = False
        self.next_heartbeat = max(self.next_heartbeat, now + (interval if late else interval / 2))
        self._receipt = now
        self._stored = max(self._stored, sent_at)
        self._believe()
        return late

    def heartbeat_failed(self, now: float) -> None:
        """It was given up."""
        self._heartbeat_under_way = False
        self.next_heartbeat = max(self.next_heartbeat, now + self.timing.heartbeat)

    def pulsar_answered(self, now: float) -> None:
        """A broker has answered a question."""
        self._answered_at = now

    def challenge_sent(self, now: float) -> None:
        """A challenge is under way."""
        self._is_challenge_under_way = True
        self._challenge_at = now + self.timing.heartbeat / 2

    def challenge_failed(self) -> None:
        """It was given up."""
        self._is_challenge_under_way = False

    def challenge_read(self, sent_at: float, now: float) -> None:
        """A challenge was read back."""
        interval = self.timing.heartbeat
        late = now - sent_at >= interval / 2
        self._is_challenge_under_way = False
        self._challenge_at = max(self._challenge_at, now + (interval if late else interval / 2))
        self._challenge_read = max(self._challenge_read, sent_at)
        self._believe()

    # ---- what is due -------------------------------------------------------------------------------------------------

    @property
    def is_attached(self) -> bool:
        """Whether Pulsar has this node's producer."""
        return self.attached_at < inf

    def is_receipt_overdue(self, now: float) -> bool:
        """Whether Pulsar takes long for the heartbeat under way: others may be unable to come back meanwhile."""
        return self._heartbeat_under_way and now - self._heartbeat_sent_at >= self.timing.heartbeat / 2

    def due(self, node: NodeRegistration, now: float, *, is_started: bool) -> list[Effect]:
        """What to send now."""
        effects: list[Effect] = []
        if is_started and self.is_heartbeat_due(now):
            self.heartbeat_sent(now)
            effects.append(SendHeartbeat(Heartbeat(node, now)))
        if is_started and self.is_question_due(now):
            self._ask_at = now + self.timing.heartbeat
            effects.append(AskPulsar())
        if self.is_challenge_due(now):
            self.challenge_sent(now)
            effects.append(Append(Challenge(node.sender, now)))
        return effects

    def is_heartbeat_due(self, now: float) -> bool:
        """Whether to send a heartbeat."""
        return self.is_attached and not self._heartbeat_under_way and now >= self.next_heartbeat

    def is_challenge_due(self, now: float) -> bool:
        """Whether to send a challenge: they are paced as heartbeats are, and for the same reason."""
        if not self.is_attached or not (self.challenge_wanted or self._doubt):
            return False
        wait = self.timing.lost if self._is_challenge_under_way else 0.0
        return now >= self._challenge_at + wait

    def is_question_due(self, now: float) -> bool:
        """Whether to ask if there is a Pulsar, though it stores no heartbeats."""
        return now - self._receipt > self.timing.suspect + self.timing.heartbeat and now >= self._ask_at

    @property
    def serving(self) -> Serving:
        """What becomes of requests, as far as the contact goes."""
        if self._doubt is None:
            return Serving.SERVE
        return Serving.HOLD if not self._doubt.cut_off and self.last_run < self._doubt.hold_until else Serving.REFUSE

    @property
    def reason(self) -> str:
        """Why they are not served."""
        return self._doubt.reason if self._doubt else ""

    @property
    def wake_at(self) -> float:
        """When something may be due."""
        due = self.last_run + self.timing.wake
        if self.is_attached and not self._heartbeat_under_way:
            due = min(due, self.next_heartbeat)
        return due

    def _doubt_since(self, now: float, cut_off: bool, reason: str) -> None:
        self._doubt = _Doubt(now, now + self.timing.hold, cut_off, reason)

    def _believe(self) -> None:
        doubt = self._doubt
        if doubt and self._challenge_read >= doubt.since and (not doubt.cut_off or self._stored >= doubt.since):
            self._doubt = None
