"""Writes records to one slot: many writes at a time in few Pulsar entries, each answered when all of it counts.

Writes that come while entries are on their way go together into the next one (group commit). So batches grow with the
load, and a lone write is sent at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from bridge.owned_log.batch import OVERHEAD, Record, pack
from bridge.owned_log.dependencies import SlotDependencies
from bridge.owned_log.errors import OwnedLogError, WriteTimedOut, error_of_send
from bridge.owned_log.read_back import ReadBack
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import Receipt, SendCancelled
from bridge.runtime.futures import retrieve_exception

WRITE_TIMEOUT: Final = 5.0
"""Seconds that a write may take: Kafka's offsets.commit.timeout.ms."""
_MAX_IN_FLIGHT: Final = 4
_MAX_RECORDS: Final = 1000  # Pulsar's own clients put as many into a batch
_MAX_BYTES: Final = 1 << 20
_METADATA_BYTES: Final = 1024  # of an entry, for the broker's limit


class _Write:
    """One call to write, until all its records are stored."""

    __slots__ = ("future", "left")

    def __init__(self, future: "asyncio.Future[None]", left: int) -> None:
        self.future = future
        self.left = left  # parts that are not stored yet


class _Part(list[Record]):
    """Records of one write that go into one entry."""

    def __init__(self, write: _Write, records: Sequence[Record], size: int) -> None:
        super().__init__(records)
        self.write = write
        self.size = size


class _Entry(NamedTuple):
    """One entry on its way: its parts' records together, and what fails them if it takes too long."""

    parts: list[_Part]
    records: list[Record]
    watchdog: asyncio.TimerHandle


class Journal:
    """The order of the records is that of the calls. `stored` is called with them before the write is answered."""

    def __init__(
        self,
        producer: Producer,
        read_back: ReadBack,
        stored: Callable[[Sequence[Record]], None],
        dependencies: SlotDependencies,
    ) -> None:
        self._producer = producer
        self._read_back = read_back
        self._stored = stored
        self._translate = dependencies.translate
        self._metrics = dependencies.metrics
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Part] = deque()
        self._in_flight = 0
        self._unconfirmed: list[_Entry] = []  # with a receipt, and not known to count
        self._ended = False
        self._scheduled = False
        self._progress_at = self._loop.time()
        self._last: asyncio.Future[None] | None = None
        self.pending_bytes = 0

    def waiting_for(self) -> float:
        """For how many seconds a receipt has been due while none has come."""
        return self._loop.time() - self._progress_at if self._in_flight else 0.0

    def write(self, records: Sequence[Record]) -> "asyncio.Future[None]":
        """Take a place in the order. Cancelling the future takes nothing back."""
        future: asyncio.Future[None] = self._loop.create_future()
        future.add_done_callback(retrieve_exception)
        if not records:
            future.set_result(None)
            return future
        self._last = future
        write = _Write(future, 0)
        for part in self._parts(write, records):
            write.left += 1
            self.pending_bytes += part.size
            self._queue.append(part)
        self._schedule()
        return future

    async def drain(self, timeout: float) -> None:  # noqa: ASYNC109 - running out of time is no error
        """Wait so many seconds for the outcome of everything written so far."""
        if self._last is not None:
            await asyncio.wait([self._last], timeout=timeout)

    def end(self, error: OwnedLogError) -> None:
        """The slot is lost: fail what has no outcome yet; what has been sent may be stored."""
        self._ended = True
        self._fail_queue(error)
        unconfirmed, self._unconfirmed = self._unconfirmed, []
        for entry in unconfirmed:
            entry.watchdog.cancel()
            self._fail(entry.parts, error)

    def _fail_queue(self, error: OwnedLogError) -> None:
        queue, self._queue = self._queue, deque()
        for part in queue:
            self.pending_bytes -= part.size
            self._fail_write(part.write, error)

    @property
    def _limit(self) -> int:
        broker = self._producer.max_message_size
        return _MAX_BYTES if broker is None else max(1, min(_MAX_BYTES, broker - _METADATA_BYTES))

    def _parts(self, write: _Write, records: Sequence[Record]) -> list[_Part]:
        """Usually one; what does not fit into one entry goes into several, in order."""
        limit = self._limit
        parts = [_Part(write, (), 0)]
        for record in records:
            size = 4 * len(record.key) + len(record.value or b"") + OVERHEAD
            last = parts[-1]
            if last and (last.size + size > limit or len(last) >= _MAX_RECORDS):
                last = _Part(write, (), 0)
                parts.append(last)
            last.append(record)
            last.size += size
        return parts

    def _schedule(self) -> None:
        if not self._scheduled and self._in_flight < _MAX_IN_FLIGHT:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        while self._queue and self._in_flight < _MAX_IN_FLIGHT:
            parts = self._take()
            records = [record for part in parts for record in part]
            if not self._in_flight:
                self._progress_at = self._loop.time()
            self._in_flight += 1
            metadata, payload = pack(records)
            sent = self._producer.send(metadata, payload, len(records))
            watchdog = self._loop.call_later(WRITE_TIMEOUT, self._stalled, parts)
            sent.add_done_callback(partial(self._sent, _Entry(parts, records, watchdog)))

    def _take(self) -> list[_Part]:
        """The parts of the next entry."""
        limit = self._limit
        parts = [self._queue.popleft()]
        size, count = parts[0].size, len(parts[0])
        while self._queue:
            part = self._queue[0]
            size += part.size
            count += len(part)
            if size > limit or count > _MAX_RECORDS:
                break
            parts.append(self._queue.popleft())
        return parts

    def _stalled(self, parts: list[_Part]) -> None:
        """Fail what waits. What is on its way may be stored yet; what is not will not be sent."""
        error = WriteTimedOut("Pulsar has not acknowledged the write in time")
        self._fail(parts, error)
        self._fail_queue(error)

    def _sent(self, entry: _Entry, sent: "asyncio.Future[Receipt]") -> None:
        error = SendCancelled() if sent.cancelled() else sent.exception()
        if error is None and not self._ended:
            self._unconfirmed.append(entry)
            self._read_back.stored(sent.result(), partial(self._confirmed, entry))
            return
        self._settled(entry)
        self._fail(entry.parts, error_of_send(error or SendCancelled()))

    def _confirmed(self, entry: _Entry) -> None:
        """It is stored, and counts."""
        if self._ended:
            return
        self._unconfirmed.remove(entry)
        self._settled(entry)
        self._metrics.write_seconds.observe(self._loop.time() - (entry.watchdog.when() - WRITE_TIMEOUT))
        self._metrics.entries_written.inc()
        self._metrics.records_written.inc(len(entry.records))
        self._stored(entry.records)
        for part in entry.parts:
            part.write.left -= 1
            if not part.write.left and not part.write.future.done():
                part.write.future.set_result(None)

    def _settled(self, entry: _Entry) -> None:
        entry.watchdog.cancel()
        self._in_flight -= 1
        self._progress_at = self._loop.time()
        self.pending_bytes -= sum(part.size for part in entry.parts)
        if self._queue:
            self._schedule()

    def _fail(self, parts: Sequence[_Part], error: OwnedLogError) -> None:
        for part in parts:
            self._fail_write(part.write, error)

    def _fail_write(self, write: _Write, error: OwnedLogError) -> None:
        if not write.future.done():
            write.future.set_exception(self._translate(error))  # one each: an exception collects tracebacks
