"""Reads of one client that take time: side by side, and left to its next Fetch where one is answered before."""

import asyncio
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from bridge.futures import seen
from bridge.storage.partition import PartitionLog

_MAX_READS: Final = 64  # of one client; what they read waits in memory for its next Fetch


class ReadRequest(NamedTuple):
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
        """Bytes that are reserved of the room that answers have."""
        self._reads: dict[ReadRequest, tuple[asyncio.Task[list[bytes]], int]] = {}
        self._waiter: asyncio.Future[None] | None = None

    def __contains__(self, wanted: ReadRequest) -> bool:
        return wanted in self._reads

    @property
    def can_start(self) -> bool:
        """Whether another one may be started."""
        return len(self._reads) < _MAX_READS

    def start(self, wanted: ReadRequest, log: PartitionLog, limit: int, first_timeout: float, most: int) -> None:
        """Begin to read up to `limit` bytes, `first_timeout` seconds for the first; `most`: of all reads together, as
        their client gets no more in one answer."""
        reserved = max(min(limit, most - self.reserved), 0)
        self._reserve_bytes(reserved)
        read = asyncio.get_running_loop().create_task(log.read(wanted.offset, limit, first_timeout))
        read.add_done_callback(self._done)
        self._reads[wanted] = read, reserved

    def set_waiter(self, waiter: "asyncio.Future[None]") -> None:
        """Set this future when another one is done."""
        self._waiter = waiter

    def take(self, wanted: ReadRequest) -> list[bytes] | None:
        """What a read has found, once; None while it is under way. Raises what it ended with."""
        read, reserved = self._reads[wanted]
        if not read.done():
            return None
        del self._reads[wanted]
        self._reserve_bytes(-reserved)
        return read.result()

    def keep_only(self, wanted: Collection[ReadRequest]) -> None:
        """Give up what the client does not want any more."""
        for other in [one for one in self._reads if one not in wanted]:
            read, reserved = self._reads.pop(other)
            read.cancel()
            self._reserve_bytes(-reserved)

    def close(self) -> None:
        """Give up everything."""
        self.keep_only(())

    def _reserve_bytes(self, count: int) -> None:
        self.reserved += count
        self._reserve(count)

    def _done(self, read: "asyncio.Task[list[bytes]]") -> None:
        seen(read)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
