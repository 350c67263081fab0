"""A bridge process, and what may happen to it."""

from math import inf

from tests.cluster.simulation.pulsar import Session
from tests.cluster.simulation.shell import Shell


class Process(Shell):
    """One life of a node."""

    def kill(self, half_open: bool = False) -> None:
        """The process ends. `half_open`: its machine does, and the broker is not told."""
        self.is_half_open = half_open
        self.end()

    def freeze(self, seconds: float) -> None:
        """SIGSTOP and SIGCONT."""
        self._bad()
        self.is_frozen, self._frozen_at = True, self.clock.now
        self._keep_alive(self.session)
        self.clock.after(seconds, self._thaw)

    def _thaw(self) -> None:
        if self.is_alive:
            if self.clock.now - self._frozen_at > 1.05:
                self.must_have_read = len(self.pulsar.log.entries)
            self.is_frozen = False
            self._armed = inf
            self._back()
            self._arm()

    def cut(self, seconds: float, inbound: bool = True, outbound: bool = True) -> None:
        """The network to Pulsar takes nothing, or nothing in one direction."""
        self._bad()
        self.cut_in, self.cut_out = inbound, outbound
        self.cut_since = self.clock.now
        self._keep_alive(self.session)
        self.clock.after(seconds, self._heal)

    def _heal(self) -> None:
        self.cut_in = self.cut_out = False
        self.cut_since = None
        if self.is_alive:
            self._back()

    def _keep_alive(self, session: Session | None) -> None:
        def over() -> None:
            if session and session.is_open and not self.answers_pings and self.bad_since == since:
                self.pulsar.close(session)

        since = self.bad_since
        self.clock.after(self.clock.chance.uniform(30, 60), over)

    def _back(self) -> None:
        if not self.answers_pings:
            return
        if self.session:
            self.pulsar.answers_again(self.session)
            if self.session.is_open:
                self._good()
        waiting = [*self._unsent_requests, *self._inbox]
        self._unsent_requests, self._inbox = [], []
        for arrive in waiting:
            self.clock.after(0, arrive)

    def mute(self, seconds: float) -> None:
        """No heartbeats go out for a while, though the connection is there."""
        self.is_mute, self.muted_at = True, self.clock.now

        def over() -> None:
            self.is_mute = False
            if seconds > 9:
                self.was_bad = self.clock.now  # others may take it for hung
            self._good()

        self.clock.after(seconds, over)

    def reset(self, slow: float = 0.0) -> None:
        """The connection is lost, and comes back, perhaps slowly."""
        self._bad()
        self.slow_connect = slow
        if self.session:
            self.pulsar.close(self.session)

    def leave(self) -> None:
        """SIGTERM."""
        self._event(lambda: self.membership.leave(self.local_now))
