"""The process-wide memory budget of requests, from the first byte received to the answer.

Three rules keep it from standing still or starving a client:

1. At the limit no socket is read for new requests, and no frame that is half received grows.
2. Frames of more than SMALL bytes grow only within three quarters of the limit: however many of them stand half
   received, small requests go on.
3. One connection at a time, the favoured one, may take more than that, on top of the limit. So of half-received frames
   that fill the budget one can always be completed, and a frame bigger than all that is left passes in its turn.

What has been received is counted even above the limit: it is there. A connection brings at most one read's worth.
"""

from collections.abc import Callable
from typing import Protocol

SMALL = 64 * 1024


class Gauge(Protocol):
    """Shows how many bytes are held."""

    def set(self, value: int) -> None:
        """Show this."""


class Lease:
    """What one connection holds of the budget, and what it waits for; `granted` is called when it gets it."""

    __slots__ = ("extra", "frame", "granted", "held", "wanted")

    def __init__(self, granted: Callable[[], None]) -> None:
        self.granted = granted
        self.held = 0
        self.extra = 0  # of `held`: what a favoured connection has on top of the limit
        self.wanted = 0
        self.frame = 0


class Budget:
    """Counts the bytes held and decides who may hold more."""

    def __init__(self, limit: int, gauge: Gauge) -> None:
        self._limit = limit
        self._big_limit = limit * 3 // 4
        self._gauge = gauge
        self._held = 0
        self._favoured: Lease | None = None
        self._small: dict[Lease, None] = {}  # ordered sets of those who wait
        self._big: dict[Lease, None] = {}

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._held

    def may_read(self, lease: Lease) -> bool:
        """Whether the connection may read new requests; if not, it is called when it may."""
        if self._held < self._limit:  # `ask` without its queues
            lease.wanted = lease.frame = 0
            self.leave(lease)
            return True
        return self.ask(lease, 0, 0)

    def ask(self, lease: Lease, count: int, frame: int) -> bool:
        """Take `count` more bytes for a frame that is then `frame` long in all; if not now, the lease is called."""
        lease.wanted, lease.frame = count, frame
        if self._grant(lease):
            self.leave(lease)
            return True
        queue, other = (self._small, self._big) if frame <= SMALL else (self._big, self._small)
        other.pop(lease, None)
        queue[lease] = None  # keeps its place if it has one
        return False

    def take(self, lease: Lease, count: int) -> None:
        """Count bytes that are here already."""
        lease.held += count
        self._held += count
        self._gauge.set(self._held)

    def give(self, lease: Lease, count: int) -> None:
        """Give bytes back, the extra ones first, so that no client stays favoured by keeping requests in flight."""
        lease.held -= count
        lease.extra = max(0, lease.extra - count)
        self._held -= count
        if self._favoured is lease and not lease.extra:
            self._favoured = None
        self._gauge.set(self._held)
        for queue in (self._small, self._big):
            self._serve(queue)

    def leave(self, lease: Lease) -> None:
        """Stop waiting."""
        self._small.pop(lease, None)
        self._big.pop(lease, None)

    def _serve(self, queue: dict[Lease, None]) -> None:
        while queue:
            lease = next(iter(queue))
            if not self._grant(lease):
                return
            del queue[lease]
            lease.granted()

    def _grant(self, lease: Lease) -> bool:
        limit = self._limit if lease.frame <= SMALL else self._big_limit
        extra = self._favoured.extra if self._favoured else 0
        if self._held - extra + lease.wanted >= limit:
            if not lease.wanted or self._favoured not in (None, lease):
                return False
            self._favoured = lease
            lease.extra += lease.wanted
        self.take(lease, lease.wanted)
        return True
