"""The high watermark of one partition, and who waits for it to grow."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from bridge.pulsar.types import Position, Receipt
from bridge.runtime.futures import Waiter
from bridge.storage.offsets import Anchor
from bridge.storage.read.batches import Batch
from bridge.storage.time_marks import TimeMarks

_MAX_SEEN_ENTRIES = 1024
"""Entries read at the tail whose receipts may still come; far more than are ever in flight."""
_TAIL_TIMEOUT_SECONDS = 1.0
"""The tail reads an entry within a millisecond or two, unless its connection is lost."""


def _nobody(_: Batch) -> None:
    """No one asks."""


class LogEnd:
    """The end of one partition's log, and who waits for it to grow.

    `offset` is the high watermark: the offset after the last record known to be stored. It never decreases. In one
    Pulsar topic all entries before a stored one are stored.
    """

    def __init__(self) -> None:
        self.offset = 0
        self.time_marks = TimeMarks()
        self.anchor = Anchor()
        self.reached: Position | None = None
        """The last entry that the reader at the tail has read; None without such a reader."""
        self.on_transaction: Callable[[Batch], None] = _nobody
        """Called for each entry of a transaction that is read at the tail."""
        self._own_anchor = Anchor()
        """Of own appends alone. It may be behind `anchor`, which also moves when other writers have stored entries."""
        self._seen: dict[Position, int] = {}
        self._expected: dict[Position, asyncio.Future[None]] = {}
        self._waiters: dict[Waiter, None] = {}  # in the order in which they came

    def advance(self, offset: int) -> None:
        """The partition is known to reach up to `offset` (exclusive); wakes the waiters."""
        if offset > self.offset:
            self.offset = offset
            self.wake_waiters()

    def advance_readable(self, offset: int) -> None:
        """Wake the waiters: what is stored before `offset` can now be read from memory."""
        self.offset = max(self.offset, offset)
        self.wake_waiters()

    def wake_waiters(self) -> None:
        """Let all waiters look again."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.woken(self)

    def add_waiter(self, waiter: Waiter) -> None:
        """Wake it when the partition grows, once; the same one may wait for many partitions."""
        self._waiters[waiter] = None

    def remove_waiter(self, waiter: Waiter) -> None:
        """Forget it."""
        self._waiters.pop(waiter, None)

    @property
    def has_waiters(self) -> bool:
        """Whether a request waits for the partition to grow."""
        return bool(self._waiters)

    def observe_entry(self, batch: Batch) -> None:
        """Note an entry that was read at the tail."""
        if batch.transaction is not None:
            self.on_transaction(batch)
        self._seen[batch.position] = batch.base
        if len(self._seen) > _MAX_SEEN_ENTRIES:
            del self._seen[next(iter(self._seen))]
        expected = self._expected.pop(batch.position, None)
        if expected is not None and not expected.done():
            expected.set_result(None)

    async def wait_for_entry(self, position: Position) -> bool:
        """Wait until the tail has read an entry that is stored; False if it cannot be told whether it has."""
        if position in self._seen:
            return True
        if self.reached is None or position <= self.reached:
            return False
        expected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._expected[position] = expected
        with suppress(TimeoutError):
            await asyncio.wait_for(expected, _TAIL_TIMEOUT_SECONDS)
        self._expected.pop(position, None)
        return position in self._seen

    def base_offset(self, receipt: Receipt, count: int) -> int | None:
        """The base offset of what a receipt acknowledges; None if the broker has to be asked."""
        if receipt.duplicate:
            return None
        position = receipt.position
        base = self.anchor.extend(position.ledger, position.entry, count)
        if base is None:
            base = self._own_anchor.extend(position.ledger, position.entry, count)
        if base is None:
            base = self._seen.get(position)
        if base is not None:
            self.observe_append(position, base + count)
        return base

    def observe_append(self, position: Position, next_offset: int) -> None:
        """The offset after an own entry is known: the offsets of what directly follows it can be counted."""
        self.anchor.observe(position.ledger, position.entry, next_offset)
        self._own_anchor.observe(position.ledger, position.entry, next_offset)
