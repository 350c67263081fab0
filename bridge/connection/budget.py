"""The process-wide memory budget of requests, from the first byte received to the answer.

Four rules keep it from deadlock and from starving any client:

1. At the limit no socket is read for new requests, and no partly received frame grows.
2. Frames of more than SMALL bytes grow only within three quarters of the limit: however many of them are partly
   received, small requests go on.
3. Above half of the limit, a connection that has more than SMALL bytes reads no new request until some of its own are
   answered. So clients that wait for a topic which Pulsar throttles leave room for all others.
4. One connection at a time, the favoured one, may take more, on top of the limit. So one of the partly received frames
   that fill the budget can always be completed, and a frame larger than all that is left gets its turn.

Bytes that are received are counted even above the limit: they are in memory. A connection adds at most one read's
worth.
"""

from collections.abc import Callable

from bridge.telemetry.instruments import Gauge

SMALL = 64 * 1024


class Lease:
    """One connection's part of the memory budget, and what it waits for. `granted` is called when it gets that."""

    __slots__ = ("extra", "frame", "granted", "held", "wanted")

    def __init__(self, granted: Callable[[], None]) -> None:
        self.granted = granted
        self.held = 0
        self.extra = 0  # of `held`: what a favoured connection has on top of the limit
        self.wanted = 0
        self.frame = 0


class Budget:
    """Counts the bytes held, and decides which connection may hold more."""

    def __init__(self, limit: int, gauge: Gauge) -> None:
        self._limit = limit
        self._big_limit = limit * 3 // 4
        self._half = limit // 2
        self._gauge = gauge
        self._held = 0
        self._favoured: Lease | None = None
        self._small: dict[Lease, None] = {}  # ordered sets of waiting connections
        self._big: dict[Lease, None] = {}
        self._sated: dict[Lease, None] = {}  # those of rule 3

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._held

    def may_read(self, lease: Lease) -> bool:
        """Whether the connection may read new requests; if not, its lease is called when it may."""
        if self._held >= self._half and lease.held > SMALL:
            self._sated[lease] = None
            return False
        if self._held < self._limit:  # `request` without its queues
            lease.wanted = lease.frame = 0
            if self._small or self._big or self._sated:
                self.withdraw(lease)
            return True
        return self.request(lease, 0, 0)

    def request(self, lease: Lease, count: int, frame: int) -> bool:
        """Take `count` more bytes for a frame that then has `frame` bytes; if not now, the lease is called later."""
        lease.wanted, lease.frame = count, frame
        if self._grant(lease):
            self.withdraw(lease)
            return True
        queue, other = (self._small, self._big) if frame <= SMALL else (self._big, self._small)
        other.pop(lease, None)
        queue[lease] = None  # keeps its place if it has one
        return False

    def take(self, lease: Lease, count: int) -> None:
        """Count bytes that are already received."""
        lease.held += count
        self._held += count
        self._gauge.value = self._held

    def release(self, lease: Lease, count: int) -> None:
        """Return bytes, the extra ones first, so that no client stays favoured by keeping requests in flight."""
        lease.held -= count
        if lease.extra:
            lease.extra = max(0, lease.extra - count)
        self._held -= count
        if self._favoured is lease and not lease.extra:
            self._favoured = None
        self._gauge.value = self._held
        if not (self._small or self._big or self._sated):
            return
        for queue in (self._small, self._big):
            self._serve(queue)
        if lease in self._sated and lease.held <= SMALL:
            del self._sated[lease]
            lease.granted()
        while self._sated and self._held < self._half:
            one = next(iter(self._sated))
            del self._sated[one]
            one.granted()

    def withdraw(self, lease: Lease) -> None:
        """Stop waiting."""
        for queue in (self._small, self._big, self._sated):
            queue.pop(lease, None)

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
