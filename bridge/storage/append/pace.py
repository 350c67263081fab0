"""Whether more of a client's Produce requests are about to come, so that their batches may share entries of Pulsar.

A client that has as many requests on their way as it may sends the next ones when some are answered: as many, one after
another. Each of them waits for the next, two milliseconds at most. What is sent together is acknowledged together,
so the next ones come together as well. A client that does so time and again may have one request on its way apart from
four. Then that one waits for the answers of the four, once in a while, and from then on they go together.

A client that waits for each answer never waits here. Neither does one that has fewer requests on their way than it has
had: it sends what it has to, by the clock, and an entry less is not worth a millisecond to it. Who waited in vain does
not wait for the next requests, and not for twice as many each time.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from bridge.runtime.futures import loop_time

_HOLD_SECONDS: Final = 0.002  # for the next of a burst
_BURST_SECONDS: Final = 0.005  # in which a client answers answers
_JOIN_SECONDS: Final = 0.01  # for the answers of the rest
_WINDOW: Final = 5  # requests on their way that are many for any client: max.in.flight.requests.per.connection
_STEADY: Final = 5  # bursts that came as expected, until those apart are brought together
_LEAST_REST, _LONGEST_REST = 4, 512  # requests that are answered until it is tried again


class Pace:
    """The pace of one client connection's Produce requests."""

    __slots__ = (
        "_expected", "_held", "_joins", "_most", "_on_their_way", "_rest", "_resting", "_steady", "_timer", "_until",
        "_waiting", "holds",
    )  # fmt: skip

    def __init__(self) -> None:
        self.holds = False
        """Whether the batches of the request that is being sent are to wait."""
        self._expected = 0  # requests
        self._until = 0.0  # loop time, after which they are not expected any more
        self._on_their_way = 0  # requests without an answer, but for those that wait
        self._most = 0  # requests it has had on their way, up to `_WINDOW`
        self._waiting = 0  # requests
        self._held: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._joins = False  # those that wait also wait for the answers of the others
        self._steady = 0  # bursts that came as expected, one after another
        self._rest = self._resting = 0

    def begin(self) -> None:
        """A request has come, and its batches are about to be sent."""
        if self._expected:
            self._expected = self._expected - 1 if loop_time() <= self._until else 0
        self._waiting += 1
        in_flight = self._on_their_way + self._waiting
        self._most = max(self._most, min(in_flight, _WINDOW))
        is_full = in_flight + self._expected >= self._most
        if is_full and not self._expected and self._timer is None and self._steady >= _STEADY:
            self._joins = self._on_their_way > 1
        self.holds = self._timer is not None or (is_full and (self._expected > 0 or self._joins))

    def hold(self, release: Callable[[], None]) -> None:
        """Call this when they wait no more."""
        self._held.append(release)

    def end(self) -> None:
        """The batches of the request have their places."""
        self.holds = False
        if not self._held:
            self._joins = False
            self._go()
        elif self._expected or (self._joins and self._on_their_way > 0):
            if self._timer is not None:
                self._timer.cancel()
            seconds = _JOIN_SECONDS if self._joins else _HOLD_SECONDS
            self._timer = asyncio.get_running_loop().call_later(seconds, self._held_enough)
        else:
            self._steady = 1 if self._joins else self._steady + 1
            self._rest = 0
            self._go()

    def answered(self) -> None:
        """A request of the client has its answer."""
        self._on_their_way -= 1
        if self._resting:
            self._resting -= 1
            return
        now = loop_time()
        self._expected = 1 if now > self._until else self._expected + 1
        self._until = now + _BURST_SECONDS

    def _held_enough(self) -> None:
        self._expected = 0
        if self._waiting == 1:
            self._steady = 0
            self._resting = self._rest = min(max(2 * self._rest, _LEAST_REST), _LONGEST_REST)
        self._go()

    def _go(self) -> None:
        """Send all that waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._joins = False
        self._on_their_way += self._waiting
        self._waiting = 0
        held, self._held = self._held, []
        for release in held:
            release()
