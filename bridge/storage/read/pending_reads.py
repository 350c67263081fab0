"""Reads of one client that take time: side by side, and left to its next Fetch where one is answered before."""

import asyncio
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from bridge.futures import seen
from bridge.storage.partition import PartitionLog

_AT_ONCE: Final = 64  # of one client; what they read waits in memory for its next Fetch


class Wanted(NamedTuple):
    """What is read: a partition, from an offset on."""

    topic: str
    partition: int
    offset: int


class PendingReads:
    """Made for each connection; `close` when it is gone."""

    def __init__(self, reserve: Callable[[int], None]) -> None:
        """`reserve` takes so many bytes of the room that answers have, or gives them back."""
        self._reserve = reserve
        self.reserved = 0
        """Bytes that are held of the room that answers have."""
        self._reads: dict[Wanted, tuple[asyncio.Task[list[bytes]], int]] = {}
        self._waiter: asyncio.Future[None] | None = None

    def __contains__(self, wanted: Wanted) -> bool:
        return wanted in self._reads

    @property
    def has_room(self) -> bool:
        """Whether another one may be started."""
        return len(self._reads) < _AT_ONCE

    def start(self, wanted: Wanted, log: PartitionLog, limit: int, patience: float, most: int) -> None:
        """Begin to read up to `limit` bytes, with `patience` seconds for the first; `most`: of all of them together, as
        their client gets no more in one answer."""
        held = max(min(limit, most - self.reserved), 0)
        self._hold(held)
        read = asyncio.get_running_loop().create_task(log.read(wanted.offset, limit, patience))
        read.add_done_callback(self._done)
        self._reads[wanted] = read, held

    def notify(self, waiter: "asyncio.Future[None]") -> None:
        """Set this future when another one is done."""
        self._waiter = waiter

    def take(self, wanted: Wanted) -> list[bytes] | None:
        """What a read has found, once; None while it is under way. Raises what it ended with."""
        read, held = self._reads[wanted]
        if not read.done():
            return None
        del self._reads[wanted]
        self._hold(-held)
        return read.result()

    def keep_only(self, wanted: Collection[Wanted]) -> None:
        """Give up what the client does not want any more."""
        for other in [one for one in self._reads if one not in wanted]:
            read, held = self._reads.pop(other)
            read.cancel()
            self._hold(-held)

    def close(self) -> None:
        """Give up everything."""
        self.keep_only(())

    def _hold(self, count: int) -> None:
        self.reserved += count
        self._reserve(count)

    def _done(self, read: "asyncio.Task[list[bytes]]") -> None:
        seen(read)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
