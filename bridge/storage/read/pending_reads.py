"""Slow reads of one client: they run concurrently, and the next Fetch takes up those that outlast an answer."""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from bridge.runtime.futures import Waiter, retrieve_exception

_MAX_READS: Final = 64  # of one client; what they read stays in memory until its next Fetch


class ReadableLog(Protocol):
    """A partition's log, as far as it is read here."""

    def read(
        self, offset: int, max_bytes: int, timeout_seconds: float, *, committed: bool = False
    ) -> Coroutine[Any, Any, list[bytes]]:
        """Kafka batches from the one that holds `offset` on; `timeout_seconds` for the first of them."""


class ReadRequest(NamedTuple):
    """A partition's log, and the offset to read from; another topic of the same name has other logs."""

    log: ReadableLog | None
    offset: int
    committed: bool = False
    """Whether only records of committed transactions, and of none, are wanted."""


class PendingReads:
    """The reads of one connection; `close` them when it is closed."""

    def __init__(self, reserve: Callable[[int], None]) -> None:
        """`reserve` takes bytes of the memory that answers may use; a negative number returns them."""
        self._reserve = reserve
        self.reserved = 0
        """Bytes reserved of the memory that answers may use."""
        self._reads: dict[ReadRequest, tuple[asyncio.Task[list[bytes]], int]] = {}
        self._waiter: Waiter | None = None

    def __contains__(self, wanted: ReadRequest) -> bool:
        return wanted in self._reads

    @property
    def can_start(self) -> bool:
        """Whether another read may be started."""
        return len(self._reads) < _MAX_READS

    def start(self, wanted: ReadRequest, log: ReadableLog, limit: int, first_timeout: float, max_reserved: int) -> None:
        """Begin to read up to `limit` bytes; `first_timeout`: the seconds that the first of them may take.

        `max_reserved`: the bytes that all reads together reserve at most until they end, as one answer has no more.
        """
        reserved = max(min(limit, max_reserved - self.reserved), 0)
        self._reserve_bytes(reserved)
        reading = log.read(wanted.offset, limit, first_timeout, committed=wanted.committed)
        read = asyncio.get_running_loop().create_task(reading)
        read.add_done_callback(partial(self._done, wanted))
        self._reads[wanted] = read, reserved

    def __len__(self) -> int:
        return len(self._reads)

    def set_waiter(self, waiter: Waiter | None) -> None:
        """Wake it when another read is done."""
        self._waiter = waiter

    def take(self, wanted: ReadRequest) -> list[bytes] | None:
        """The result of a read, which is forgotten then; None while it is under way. Raises what the read raised."""
        read, reserved = self._reads[wanted]
        if not read.done():
            return None
        del self._reads[wanted]
        self._reserve_bytes(-reserved)
        return read.result()

    def keep_only(self, wanted: Collection[ReadRequest]) -> None:
        """Cancel the reads that the client no longer asks for."""
        for other in [one for one in self._reads if one not in wanted]:
            read, reserved = self._reads.pop(other)
            read.cancel()
            self._reserve_bytes(-reserved)

    def close(self) -> None:
        """Cancel all reads."""
        self.keep_only(())

    def _reserve_bytes(self, count: int) -> None:
        self.reserved += count
        self._reserve(count)

    def _done(self, wanted: ReadRequest, read: "asyncio.Task[list[bytes]]") -> None:
        retrieve_exception(read)
        present, reserved = self._reads.get(wanted, (None, 0))
        if present is read:  # what it has found is held from now on: it may be more than was left to be reserved
            found = () if read.cancelled() or read.exception() is not None else read.result()
            size = sum(map(len, found))
            self._reads[wanted] = read, size
            self._reserve_bytes(size - reserved)
        if self._waiter is not None:
            self._waiter.woken(self)
