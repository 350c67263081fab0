"""What one connection has received and not started: whole frames, the partly received one, and their memory."""

from collections import deque
from collections.abc import Callable

from bridge.connection.budget import Budget, Lease
from bridge.kafka.frames import MIN_FRAME, FrameReceiver

READ_AHEAD_BYTES = 1024 * 1024
_SLOWEST_BYTES_A_SECOND = 16 * 1024


def is_produce(frame: memoryview) -> bool:
    """Whether this request appends records."""
    return len(frame) > 1 and not (frame[0] or frame[1])  # its API key, 0


def _nothing() -> None:
    pass


class Intake:
    """The frames of one socket, counted in the budget of all."""

    __slots__ = (
        "_budget",
        "_denied",
        "_granted",
        "_lease",
        "_receiver",
        "_scratch",
        "_unused",
        "begun_at",
        "frames",
        "reads",
        "received_at",
        "waiting",
    )

    def __init__(
        self,
        most_bytes: int,
        budget: Budget,
        scratch: memoryview,
        granted: Callable[[], None],
        denied: Callable[[], None],
        least_bytes: int = MIN_FRAME,
    ) -> None:
        """`granted` is called when there is memory that was not granted when it was requested, `denied` when the
        process cannot have what the budget has granted. Either may be in the midst of another connection's work."""
        self.frames: deque[tuple[memoryview, float]] = deque()
        """Whole requests, each with the time of its last byte."""
        self.waiting = 0
        """Their bytes."""
        self.begun_at = 0.0
        """When the partly received request began to arrive, or when reading was resumed."""
        self.received_at = 0.0
        """When bytes last came, or when memory was granted that they waited for."""
        self.reads = 0
        """How many times bytes were received."""
        self._receiver = FrameReceiver(most_bytes, least_bytes)
        self._scratch = scratch
        self._budget = budget
        self._granted, self._denied = granted, denied
        self._lease = Lease(self._on_granted)
        self._unused = 0
        """Of its bytes: granted, and not to be had."""

    @property
    def midway(self) -> bool:
        """Whether a request is partly received."""
        return self._receiver.midway

    @property
    def has_partial(self) -> bool:
        """Whether a request is partly received that has memory: more of it brings nothing of others."""
        return self._receiver.capacity > 0

    @property
    def is_ahead(self) -> bool:
        """Whether so much is received and not started that nothing more is to be read."""
        return self.waiting >= READ_AHEAD_BYTES

    def is_slow(self, now: float, timeout: float) -> bool:
        """Whether a request takes longer to arrive than `timeout` and what its size allows on top."""
        allowed = timeout + self._receiver.size / _SLOWEST_BYTES_A_SECOND
        return self.midway and now - self.begun_at >= allowed

    def buffer(self) -> memoryview:
        """Where the next bytes shall go: the begun frame's own memory, or scratch shared by all connections.

        Sharing is sound because the loop fills the buffer and calls `received` without a pause between.
        """
        return self._receiver.buffer(self._scratch)

    def received(self, count: int, now: float) -> None:
        """So many bytes are in the buffer; raises FrameError."""
        self.reads += 1
        self.received_at = now
        receiver = self._receiver
        held, midway, size = receiver.capacity, receiver.midway, 0
        complete = receiver.received(count, self._scratch)
        for frame in complete:
            self.frames.append((frame, now))
            size += len(frame)
        if complete or not midway:
            self.begun_at = now
        self.waiting += size
        self._budget.take(self._lease, size + receiver.capacity - held)

    def next(self) -> tuple[memoryview, float]:
        """Remove and return the first of the frames."""
        first = self.frames.popleft()
        self.waiting -= len(first[0])
        return first

    def has_memory(self) -> bool:
        """Whether more may be received; if not, `granted` is called when it may."""
        if not self._receiver.capacity:  # no frame is begun
            return self._budget.may_read(self._lease)
        more = self._receiver.wanted()
        if not more:
            return True
        if not self._budget.request(self._lease, more, self._receiver.capacity + more):
            return False
        self._receiver.grow(more)
        return True

    def release(self, count: int) -> None:
        """Return the memory of a request that is answered."""
        self._budget.release(self._lease, count)

    def admit(self, most_bytes: int, budget: Budget) -> None:
        """From now on requests may be longer, and count in another budget."""
        held = self._lease.held
        self._budget.withdraw(self._lease)
        self._budget.release(self._lease, held)
        self._budget = budget
        budget.take(self._lease, held)
        self._receiver.allow(most_bytes)

    def drop(self) -> None:
        """Forget everything."""
        self.frames.clear()
        self._budget.release(self._lease, self.waiting)
        self.waiting = 0
        self.drop_partial()

    def drop_partial(self) -> None:
        """Forget the partly received request, and wait for no memory."""
        self._budget.withdraw(self._lease)
        self._budget.release(self._lease, self._receiver.capacity + self._unused)
        self._unused = 0
        self._receiver.forget()

    def let_go(self) -> None:
        """The connection is gone, and nothing is to be called any more."""
        self._granted = self._denied = self._lease.granted = _nothing

    def _on_granted(self) -> None:
        try:
            self._receiver.grow(self._lease.wanted)
        except MemoryError:
            self._unused = self._lease.wanted
            self._denied()
        else:
            self._granted()
