"""Writes records to one slot: many writes at a time in few Pulsar entries, each answered when all of it counts.

Writes that come while entries are on their way go together into the next one (group commit). So batches grow with the
load, and a lone write is sent at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from bridge.owned_log.batch import OVERHEAD, Record, pack
from bridge.owned_log.dependencies import SlotDependencies
from bridge.owned_log.errors import OwnedLogError, RecordTooLarge, WriteTimedOut, error_of_send
from bridge.owned_log.read_back import ReadBack
from bridge.pulsar.producer import Producer, Send
from bridge.pulsar.types import Receipt, SendCancelled
from bridge.runtime.futures import retrieve_exception

WRITE_TIMEOUT: Final = 5.0
"""Seconds that a write may take: Kafka's offsets.commit.timeout.ms."""
_MAX_IN_FLIGHT: Final = 4
_MAX_RECORDS: Final = 1000  # Pulsar's own clients put as many into a batch
_MAX_BYTES: Final = 1 << 20
_METADATA_BYTES: Final = 1024  # of an entry, for the broker's limit


class Stored:
    """What becomes of the records of one call."""

    __slots__ = ("done", "left", "settled")

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = loop.create_future()
        """Done when all records are stored and applied; fails when that takes too long or will never be."""
        self.done.add_done_callback(retrieve_exception)
        self.settled: asyncio.Future[None] = loop.create_future()
        """Done, and never failed, when it is known whether the records are stored.

        They are and have been applied; or they never will be; or the slot is lost, and its next owner reads what is.
        Not yet where `done` has failed and a receipt may still come.
        """
        self.left = 0
        """Parts without a known outcome."""

    def fail(self, error: Exception) -> None:
        """Not all is stored, or not known to be in time."""
        if not self.done.done():
            self.done.set_exception(error)

    def settle(self) -> None:
        """The outcome of one part, or of no part at all, is known; one that is not stored has failed before."""
        self.left -= 1
        if self.left > 0:
            return
        if not self.done.done():
            self.done.set_result(None)
        if not self.settled.done():
            self.settled.set_result(None)


class _Part(list[Record]):
    """Records of one call that go into one entry."""

    def __init__(self, stored: Stored) -> None:
        super().__init__()
        self.stored = stored
        self.size = 0


@dataclass(slots=True, eq=False)
class _Entry:
    """One entry on its way: its parts' records together, its send, and what fails them if it takes too long."""

    parts: list[_Part]
    records: list[Record]
    send: Send
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
        self._unsettled: set[_Entry] = set()  # sent, and not known whether they are stored and count
        self._ended = False
        self._scheduled = False
        self._progress_at = self._loop.time()
        self._last: asyncio.Future[None] | None = None
        self.pending_bytes = 0
        self.doubt: asyncio.Future[OwnedLogError] = self._loop.create_future()
        """Done when nothing but reading the slot again can tell whether an entry is stored: it is to be given up."""

    def waiting_for(self) -> float:
        """For how many seconds a receipt has been due while none has come."""
        return self._loop.time() - self._progress_at if self._in_flight else 0.0

    def write(self, records: Sequence[Record], *, together: bool, spare: int = 0) -> Stored:
        """Take a place in the order. `together`: in one entry or not at all; RecordTooLarge where that is too small,
        also where it has not so many bytes to `spare`.

        Cancelling the futures takes nothing back.
        """
        stored = Stored()
        if not records:
            stored.settle()
            return stored
        parts = self._parts(stored, records)
        if together and (len(parts) > 1 or parts[0].size + spare > self._limit):
            raise self._translate(RecordTooLarge("the records do not fit into one entry"))
        self._last = stored.done
        stored.left = len(parts)
        self.pending_bytes += sum(part.size for part in parts)
        self._queue += parts
        self._schedule()
        return stored

    async def drain(self, timeout: float) -> None:  # noqa: ASYNC109 - running out of time is no error
        """Wait so many seconds for the outcome of everything written so far."""
        if self._last is not None:
            await asyncio.wait([self._last], timeout=timeout)

    def end(self, error: OwnedLogError) -> None:
        """The slot is lost: fail what has no outcome yet. What has been sent may be stored: its next owner reads it."""
        self._ended = True
        self._fail_queue(error)
        unsettled, self._unsettled = self._unsettled, set()
        for entry in unsettled:
            entry.watchdog.cancel()
            self._fail(entry.parts, error)
            _settle(entry.parts)

    def _fail_queue(self, error: OwnedLogError) -> None:
        queue, self._queue = self._queue, deque()
        self.pending_bytes -= sum(part.size for part in queue)
        self._fail(queue, error)
        _settle(queue)  # they are not sent

    @property
    def _limit(self) -> int:
        broker = self._producer.max_message_size
        return _MAX_BYTES if broker is None else max(1, min(_MAX_BYTES, broker - _METADATA_BYTES))

    def _parts(self, stored: Stored, records: Sequence[Record]) -> list[_Part]:
        """Usually one; what does not fit into one entry goes into several, in order."""
        limit = self._limit
        parts = [_Part(stored)]
        for record in records:
            size = 4 * len(record.key) + len(record.value or b"") + OVERHEAD
            last = parts[-1]
            if last and (last.size + size > limit or len(last) >= _MAX_RECORDS):
                last = _Part(stored)
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
            send = self._producer.enqueue(metadata, payload, len(records))
            watchdog = self._loop.call_later(WRITE_TIMEOUT, self._stalled, parts)
            entry = _Entry(parts, records, send, watchdog)
            self._unsettled.add(entry)
            send.future.add_done_callback(partial(self._sent, entry))

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
        if self._ended:
            return
        if error is None:
            self._read_back.stored(sent.result(), partial(self._confirmed, entry))
            return
        self._landed(entry)
        failure = error_of_send(error)
        self._fail(entry.parts, failure)
        if not entry.send.maybe_stored:
            self._unsettled.remove(entry)
            _settle(entry.parts)
        elif not self.doubt.done():
            self.doubt.set_result(failure)

    def _confirmed(self, entry: _Entry) -> None:
        """It is stored, and counts."""
        if self._ended:
            return
        self._landed(entry)
        self._metrics.write_seconds.observe(self._loop.time() - (entry.watchdog.when() - WRITE_TIMEOUT))
        self._metrics.entries_written.inc()
        self._metrics.records_written.inc(len(entry.records))
        self._stored(entry.records)
        self._unsettled.remove(entry)
        _settle(entry.parts)

    def _landed(self, entry: _Entry) -> None:
        """It is not on its way any more."""
        entry.watchdog.cancel()
        self._in_flight -= 1
        self._progress_at = self._loop.time()
        self.pending_bytes -= sum(part.size for part in entry.parts)
        if self._queue:
            self._schedule()

    def _fail(self, parts: Iterable[_Part], error: OwnedLogError) -> None:
        for part in parts:
            part.stored.fail(self._translate(error))  # one each: an exception collects tracebacks


def _settle(parts: Iterable[_Part]) -> None:
    for part in parts:
        part.stored.settle()
