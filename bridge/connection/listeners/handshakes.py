"""TLS handshakes under way: they take turns on the event loop, and are limited in number and time."""

import asyncio
from time import perf_counter
from typing import Final, Protocol

from bridge.telemetry.metrics import TlsMetrics

MAX_HANDSHAKES: Final = 1000
"""Under way at a time. One more ends the oldest silent one: real clients are done within a few round trips."""
HANDSHAKE_SECONDS: Final = 10.0
_MOST_READY: Final = 64
_TURN_SECONDS: Final = 0.001
"""Of handshakes, before the loop turns to others: one takes a tenth of a millisecond with ECDSA, one with RSA."""


class Handshake(Protocol):
    """A TLS handshake that is under way."""

    def shake(self) -> None:
        """Go on, with what has come."""

    def fail(self, outcome: str, reason: str) -> None:
        """Give it up."""


class Handshakes:
    """The TLS handshakes that are under way in one process."""

    def __init__(self, metrics: TlsMetrics, most: int = MAX_HANDSHAKES, seconds: float = HANDSHAKE_SECONDS) -> None:
        self._metrics = metrics
        self._most = most
        self._seconds = seconds
        self._until: dict[Handshake, float] = {}  # in the order of their beginning
        self._ready: dict[Handshake, None] = {}  # in the order in which they became so
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._until)

    def begin(self, handshake: Handshake) -> None:
        """A client has connected."""
        self._metrics.under_way.inc()
        loop = asyncio.get_running_loop()
        self._until[handshake] = loop.time() + self._seconds
        if len(self._until) > self._most:
            self._displace()
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._expire)

    @property
    def is_behind(self) -> bool:
        """Whether so many wait for their turn that no more connections are to be accepted."""
        return len(self._ready) >= _MOST_READY

    def ready(self, handshake: Handshake) -> None:
        """It can go on."""
        self._ready[handshake] = None
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._take_turns)

    def established(self, handshake: Handshake) -> None:
        """It has succeeded."""
        self._metrics.handshakes["established"].inc()
        self.end(handshake)

    def end(self, handshake: Handshake) -> None:
        """It is over, however it ended."""
        self._ready.pop(handshake, None)
        if self._until.pop(handshake, None) is not None:
            self._metrics.under_way.dec()

    def abandon(self) -> None:
        """Give all up: the process stops. Such clients have asked for nothing yet."""
        for handshake in list(self._until):
            self.end(handshake)
            handshake.fail("stopped", "the bridge stops")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _displace(self) -> None:
        """End the oldest of which nothing is heard: not one that waits for its turn."""
        oldest = next((one for one in self._until if one not in self._ready), None)
        if oldest is not None:
            self.end(oldest)
            oldest.fail("displaced", "too many handshakes are under way")

    def _take_turns(self) -> None:
        until = perf_counter() + _TURN_SECONDS
        try:
            while self._ready and perf_counter() < until:
                first = next(iter(self._ready))
                del self._ready[first]
                first.shake()
        finally:
            self._scheduled = bool(self._ready)
            if self._ready:
                asyncio.get_running_loop().call_soon(self._take_turns)

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._until:
            oldest, until = next(iter(self._until.items()))
            if until > loop.time():
                self._timer = loop.call_at(until, self._expire)
                return
            self.end(oldest)
            oldest.fail("timeout", f"no handshake in {self._seconds:.0f} s")
