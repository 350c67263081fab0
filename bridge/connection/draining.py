"""Decides when a connection may end because the process stops: when the fewest requests are on their way to it.

Kafka's protocol has no message that announces the end of a connection. A request that crosses with it was never read,
so it is not stored, but its client has to take it for failed; one with `retries=0` loses it. So the client is first
asked to pause:

1. *Pausing.* Responses carry `throttle_time_ms`, for which the Java client, kafka-python and franz-go send no
   more (KIP-219). When the client has been quiet for QUIET_SECONDS the connection ends.
2. *Holding.* A client that sends on, as librdkafka does, does not pause. Its responses are held, so that a client with
   a limit of requests in flight has to stop. When it has been quiet, all go out and the end with them: such clients
   read to the end before they send again.
3. *Hurrying*, from HURRY_AFTER_SECONDS on, for clients with any number of requests in flight: the connection ends at
   the first moment in which everything is answered and nothing more has come.
4. *Cut off*, at an answer after READ_UNTIL_SECONDS: nothing more is read, and the connection ends when what was read is
   answered. If Pulsar takes long for that, reading goes on until the next answer: what came meanwhile would be lost.

The first two must not be one: kafka-python 3.0 discards the responses that it reads together with the end.
"""

import asyncio
from collections.abc import Callable

from bridge.connection.state import ConnectionState, State

THROTTLE_MS = 250
QUIET_SECONDS = 0.05
"""More than a request takes that was sent before its client was asked to pause."""
HURRY_AFTER_SECONDS = 0.25
READ_UNTIL_SECONDS = 0.4
LINGER_SECONDS = 0.3
"""How long a drained connection waits for its client to hang up. Closing with requests unread would be a reset, which
takes from the client also the answers on their way to it (RFC 9112, 9.6)."""
ANSWERED_LINGER_SECONDS = 2.0
"""The same of one that was answered in the drain. It may be slow to read, and send on between two of its answers; when
that fails, Java's client takes what it has not read for lost."""


class Drain:
    """The end of one connection. `wake` is called when the answers below may have changed with time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._loop = loop
        self._wake = wake
        self._begun = loop.time()
        self._asked_at: float | None = None
        self._answered_at = float("-inf")  # since it is late
        self._resuming = False
        self._timers = [loop.call_later(seconds, wake) for seconds in (HURRY_AFTER_SECONDS, READ_UNTIL_SECONDS)]
        self._looking = False
        self._dry_at = -1  # how much had come when nothing more came for two turns of the loop

    @property
    def late(self) -> bool:
        """Whether only requests already received are waited for."""
        return self._since(READ_UNTIL_SECONDS)

    @property
    def reading(self) -> bool:
        """Whether requests are still read."""
        return self._loop.time() >= self._answered_at + 2 * QUIET_SECONDS  # by then it has ended, if it can

    def answered(self) -> None:
        """A request has its answer."""
        if self.late:
            self._answered_at = self._loop.time()
            self._resume()

    def asked(self) -> None:
        """A response goes out that asks for a pause."""
        if self._asked_at is None:
            self._asked_at = self._loop.time()

    def sent_on(self, state: ConnectionState) -> bool:
        """Whether requests have come now from a client that was asked to pause before it sent them."""
        asked = self._asked_at is not None and self._loop.time() >= self._asked_at + QUIET_SECONDS
        return asked and state.state is State.DRAINING

    def may_end(self, active: float, reads: int, holds: bool) -> bool:
        """Whether the connection may end now that everything is answered.

        `active`: when something was last received or sent; `reads`: a count that changes with whatever comes; `holds`:
        whether responses are held.
        """
        left = active + QUIET_SECONDS - self._loop.time()
        if left <= 0:
            return True
        if not holds or not self._since(HURRY_AFTER_SECONDS):
            self._timers.append(self._loop.call_later(left, self._wake))
            return False
        if self.late or self._dry_at == reads:
            return True
        if not self._looking:
            self._looking = True
            # what is in the socket now is received in the next turn, possibly after the first of the two calls
            self._loop.call_soon(self._loop.call_soon, self._look, reads)
        return False

    def linger_seconds(self, written_at: float) -> float:
        """How long to wait for the client to hang up; `written_at`: when something was last sent to it."""
        return ANSWERED_LINGER_SECONDS if written_at >= self._begun else LINGER_SECONDS

    def stop(self) -> None:
        """The connection has ended."""
        for timer in self._timers:
            timer.cancel()

    def _resume(self) -> None:
        if not self._resuming:
            self._resuming = True
            self._timers.append(self._loop.call_later(2 * QUIET_SECONDS, self._resumed))

    def _resumed(self) -> None:
        self._resuming = False
        if self.reading:
            self._wake()
        else:
            self._resume()

    def _since(self, seconds: float) -> bool:
        return self._loop.time() >= self._begun + seconds

    def _look(self, reads: int) -> None:
        self._looking = False
        self._dry_at = reads
        self._wake()
