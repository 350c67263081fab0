"""How many messages a broker may still send to a consumer (Pulsar binary protocol, "Flow control")."""

from typing import Final

from bridge.pulsar.connection.context import QueueMemory

# Permits before the first message has told how large messages are here.
_FIRST_PERMITS: Final = 8
_MOST_OVERSHOT: Final = 4
"""Times its buffer that one subscription may hold, where all together hold little."""


class FlowControl:
    """How many messages the broker may still send: bounded by count and, as far as it can be known, by bytes.

    Permits count messages and not bytes, so their number follows the size of the messages seen. A batch is delivered
    whole: the broker may overshoot, and what is outstanding then goes below zero. Permits cannot be taken back: where
    large messages follow many small ones, `is_overfull` says that the session has to end.
    """

    def __init__(self, permits: int, max_buffer: int, memory: QueueMemory | None = None, more: int = 0) -> None:
        """`memory`: what others hold, too; `more`: the bytes by which the buffer is larger, if it has them to lend."""
        self._permits = permits
        self._max_buffer = self._least_buffer = max_buffer
        self._memory = memory or QueueMemory()
        self._more = more
        self._message_bytes = max_buffer / _FIRST_PERMITS
        self._measured = False
        self.outstanding = 0
        self.queued = 0
        self.queued_bytes = 0

    def received(self, messages: int, size: int) -> None:
        """An entry has come."""
        self.outstanding -= messages
        self.queued += messages
        self.queued_bytes += size
        self._memory.held += size
        each = size / max(messages, 1)  # a broker may say that all of a batch is acknowledged, and send it
        # Quick to believe in large messages, slow to forget them.
        known, self._measured = self._measured, True
        self._message_bytes = max(each, 0.75 * self._message_bytes + 0.25 * each) if known else each

    def consumed(self, messages: int, size: int) -> None:
        """The user has taken an entry, or it was thrown away."""
        self.queued -= messages
        self.queued_bytes -= size
        self._memory.held -= size

    def cleared(self) -> None:
        """All that was queued was thrown away."""
        self._memory.held -= self.queued_bytes
        self.queued = self.queued_bytes = 0

    @property
    def is_overfull(self) -> bool:
        """Whether more is held than was meant to be, and more may come."""
        allowed = self._max_buffer
        if not self._memory.is_full:
            allowed += (_MOST_OVERSHOT - 1) * self._least_buffer
        return self.outstanding > 0 and self.queued_bytes > allowed

    def refill(self) -> int:
        """The permits to give now: none until half of the window is free, or a quarter where the broker has none left.

        It reads up to 100 entries or 5 MB for a single permit, so it owes thousands afterwards. A few for each entry
        that is consumed would only be more commands, for which it sends nothing.
        """
        if self._more and self._measured and self._memory.lend(self._more):
            self._max_buffer += self._more
            self._more = 0
        fitting = int((self._max_buffer - self.queued_bytes) / max(self._message_bytes, 1.0))
        room = min(self._permits - self.queued, fitting)
        if self.queued == 0:
            room = max(room, 1)  # a message larger than the whole buffer must still get through
        missing = room - self.outstanding
        window = min(self._permits, int(self._max_buffer / max(self._message_bytes, 1.0)))
        if missing <= 0 or (missing < window / 2 if self.outstanding > 0 else room < window / 4):
            return 0
        self.outstanding += missing
        return missing

    def close(self) -> None:
        """Nothing is received any more: what was lent is returned."""
        self._memory.lend(self._least_buffer - self._max_buffer)
        self._max_buffer, self._more = self._least_buffer, 0

    def reset(self) -> None:
        """A new session: the broker knows of no permits."""
        self.outstanding = 0
