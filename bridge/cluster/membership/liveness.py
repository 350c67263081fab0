"""Which nodes are still there, as far as a node can tell that watches them.

Rules:

1. Silence counts in log time: from when a node was last heard to when the watcher sent its own newest record that it
   has read back. What was frozen, cut off or stalled, the watcher or Pulsar, makes no silence. Since a log has one
   order, whatever was stored before that record has been read.
2. By the clock a node that is silent is suspected only: Pulsar is asked for its connection, which does no harm.
3. Pulsar's answers: free: gone. Busy: cleared for a while. No answer for a while, in log time too, since it may be
   Pulsar that does not answer: gone by silence. An answer is soon out of date.
4. When the watcher has just reconnected nothing is asked, and all silence begins again: the others come back in their
   own time. It begins again after a pause of the watcher, too: what it has missed comes first. After a stall of Pulsar,
   told by a late receipt of the watcher's own, nothing is asked for as long: others that had lost their connections
   before could not come back either.
5. A watcher that comes later than others waits its delay by the clock as well. After a stall of Pulsar log time jumps,
   and all who stand by would propose themselves at once.
"""

from dataclasses import dataclass
from math import inf

from bridge.cluster.membership.effects import ProbeResult
from bridge.cluster.membership.timing import Timing


@dataclass(slots=True)
class _Watched:
    heard: float
    asked: float | None = None
    cleared: float = -inf
    free: float | None = None
    silent_since: float | None = None
    """Since when by the clock its silence has been long enough for any watcher."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done about a silent node: ask Pulsar, or go by the reason why it is gone."""

    ask: bool = False
    gone: str = ""


_NOTHING = Verdict()
_ASK = Verdict(ask=True)


class Liveness:
    """The nodes that one node watches."""

    def __init__(self, timing: Timing, now: float, attached_at: float) -> None:
        self.timing = timing
        self.echo = now
        """When the own newest record was sent that has been read back."""
        self._floor = now
        self._attached_at = attached_at
        self._watched: dict[str, _Watched] = {}

    def restart(self, now: float) -> None:
        """No node has been silent yet."""
        self._floor = now
        self._watched.clear()

    def attached(self, now: float) -> None:
        """Pulsar has this node back."""
        self._floor = now
        self.stalled(now)

    def stalled(self, now: float) -> None:
        """Pulsar has answered nothing for a while: what it says of others' connections is not the truth yet."""
        self._attached_at = now
        for watched in self._watched.values():
            watched.asked = watched.free = None

    def paused(self, now: float) -> None:
        """This node did not run for a while."""
        self._floor = now

    def detached(self) -> None:
        """The connection is lost, with the answers on it."""
        floor = self._floor
        self.attached(inf)
        self._floor = floor

    def echoed(self, sent_at: float) -> None:
        """An own record was read back."""
        self.echo = max(self.echo, sent_at)

    def heard(self, name: str, now: float) -> None:
        """A record of the node was read."""
        watched = self._of(name)
        watched.heard = now
        watched.asked = watched.free = None

    def forget(self, name: str) -> None:
        """It is no longer of interest."""
        self._watched.pop(name, None)

    def asked(self, name: str, now: float) -> None:
        """Pulsar is being asked for its connection."""
        self._of(name).asked = now

    def is_asked(self, name: str) -> bool:
        """Whether Pulsar is being asked."""
        return self._of(name).asked is not None

    def answered(self, name: str, result: ProbeResult, now: float) -> None:
        """Pulsar has said whether its connection is there."""
        watched = self._watched.get(name)
        if watched is None or watched.asked is None:
            return  # it was heard since, or the question was from before a reconnect
        if result is ProbeResult.BUSY:
            watched.cleared, watched.asked = now, None
        else:
            watched.free = now

    def silence(self, name: str) -> float:
        """How long it has been silent, in log time."""
        return self.echo - max(self._of(name).heard, self._floor)

    def quiet(self, name: str, now: float) -> float:
        """How long it has been silent by the clock."""
        return now - max(self._of(name).heard, self._floor)

    def suspicion_at(self, name: str, delay: float = 0.0) -> float:
        """When to ask Pulsar for its connection, if nothing is heard of it; infinite while that is being asked."""
        watched, timing = self._of(name), self.timing
        if watched.asked is not None:
            return inf
        return max(
            max(watched.heard, self._floor) + timing.suspect + delay,
            watched.cleared + timing.heartbeat,
            self._attached_at + timing.grace,
        )

    def judge(self, name: str, now: float, delay: float = 0.0, proof: bool = False) -> Verdict:
        """What to do about it; `delay`: later than others would.

        `proof`: to believe that it is gone, a record sent after the question must have been read back. Without it the
        own records must come back at all.
        """
        watched, timing = self._of(name), self.timing
        silence = self.silence(name)
        if watched.free is not None and now - watched.free > timing.suspect:
            watched.asked = watched.free = None  # that was then
        if watched.free is not None and watched.asked is not None and (not proof or self.echo >= watched.asked):
            return Verdict(gone="connection gone")
        if not self._gone_by_silence(watched, silence, 0.0):
            watched.silent_since = None
        elif watched.silent_since is None:
            watched.silent_since = now
        if watched.silent_since is not None and now - watched.silent_since >= delay:  # rule 5
            gone = self._gone_by_silence(watched, silence, delay)
            if gone:
                return Verdict(gone=gone)
        if now < self.suspicion_at(name, delay):
            return _NOTHING
        return _ASK if proof or now - self.echo < timing.suspect else _NOTHING

    def _gone_by_silence(self, watched: _Watched, silence: float, delay: float) -> str:
        """Why it is gone, for a watcher that waits so much longer than others; empty if it is not."""
        if silence > self.timing.hung + delay:
            return f"hung {silence:.1f} s"
        if silence > self.timing.dead + delay and self._is_unanswered(watched, self.echo):
            return f"silent {silence:.1f} s"
        return ""

    def _is_unanswered(self, watched: _Watched, until: float) -> bool:
        if watched.asked is None or until - watched.asked < self.timing.answer:
            return False
        return until - watched.cleared > self.timing.dead

    def _of(self, name: str) -> _Watched:
        watched = self._watched.get(name)
        if watched is None:
            watched = self._watched[name] = _Watched(self._floor)
        return watched
