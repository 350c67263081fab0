"""Writes records to one slot: many writes at a time in few Pulsar entries, each answered when all of it is stored.

What comes while entries are on their way goes with the next one, so that batches grow with the load and a lone write
waits for nobody.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from bridge.errors import KafkaError
from bridge.futures import seen
from bridge.kafka.error_codes import ErrorCode
from bridge.metrics import GroupMetrics
from bridge.owned_log.batch import OVERHEAD, Record, pack
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import MessageTooLarge, PulsarError, Receipt

PATIENCE: Final = 5.0
"""Seconds that a write may take: Kafka's offsets.commit.timeout.ms."""
_IN_FLIGHT: Final = 4
_MOST_RECORDS: Final = 1000  # Pulsar's own clients put as many into a batch
_MOST_BYTES: Final = 1 << 20
_METADATA_BYTES: Final = 1024  # of an entry, for the broker's limit


class _Write:
    """One call, until all its records are stored."""

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


class Journal:
    """The order of the records is that of the calls. `stored` is called with them before the write is answered."""

    def __init__(self, producer: Producer, stored: Callable[[Sequence[Record]], None], metrics: GroupMetrics) -> None:
        self._producer = producer
        self._stored = stored
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Part] = deque()
        self._in_flight = 0
        self._scheduled = False
        self._progress_at = self._loop.time()
        self._last: asyncio.Future[None] | None = None
        self.pending_bytes = 0

    def waiting_for(self) -> float:
        """Since how many seconds Pulsar owes a receipt and has given none."""
        return self._loop.time() - self._progress_at if self._in_flight else 0.0

    def write(self, records: Sequence[Record]) -> "asyncio.Future[None]":
        """Take a place in the order; the future fails with KafkaError. Cancelling it takes nothing back."""
        future: asyncio.Future[None] = self._loop.create_future()
        future.add_done_callback(seen)
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

    async def drain(self, patience: float) -> None:
        """Wait so many seconds for the outcome of everything written so far."""
        if self._last is not None:
            await asyncio.wait([self._last], timeout=patience)

    def fail(self, error: KafkaError) -> None:
        """Whatever is not stored yet will not be by us; some of it may be."""
        queue, self._queue = self._queue, deque()
        for part in queue:
            self.pending_bytes -= part.size
            _fail(part.write, error)

    @property
    def _limit(self) -> int:
        broker = self._producer.max_message_size
        return _MOST_BYTES if broker is None else max(1, min(_MOST_BYTES, broker - _METADATA_BYTES))

    def _parts(self, write: _Write, records: Sequence[Record]) -> list[_Part]:
        """Usually one; what does not fit into one entry goes into several, in order."""
        limit = self._limit
        parts = [_Part(write, (), 0)]
        for record in records:
            size = 4 * len(record.key) + len(record.value or b"") + OVERHEAD
            last = parts[-1]
            if last and (last.size + size > limit or len(last) >= _MOST_RECORDS):
                last = _Part(write, (), 0)
                parts.append(last)
            last.append(record)
            last.size += size
        return parts

    def _schedule(self) -> None:
        if not self._scheduled and self._in_flight < _IN_FLIGHT:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        while self._queue and self._in_flight < _IN_FLIGHT:
            parts = self._take()
            records = [record for part in parts for record in part]
            if not self._in_flight:
                self._progress_at = self._loop.time()
            self._in_flight += 1
            metadata, payload = pack(records)
            sent = self._producer.send(metadata, payload, len(records))
            watchdog = self._loop.call_later(PATIENCE, self._stalled, parts)
            sent.add_done_callback(partial(self._sent, parts, records, watchdog))

    def _take(self) -> list[_Part]:
        """The parts of the next entry."""
        limit = self._limit
        parts = [self._queue.popleft()]
        size, count = parts[0].size, len(parts[0])
        while self._queue:
            part = self._queue[0]
            size += part.size
            count += len(part)
            if size > limit or count > _MOST_RECORDS:
                break
            parts.append(self._queue.popleft())
        return parts

    def _stalled(self, parts: list[_Part]) -> None:
        """Nobody waits longer than clients do. What is on its way may be stored yet; what is not will not be sent."""
        error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "Pulsar has not acknowledged the write in time")
        for part in parts:
            _fail(part.write, error)
        self.fail(error)

    def _sent(
        self, parts: list[_Part], records: list[Record], watchdog: asyncio.TimerHandle, sent: "asyncio.Future[Receipt]"
    ) -> None:
        watchdog.cancel()
        self._in_flight -= 1
        self._progress_at = self._loop.time()
        self.pending_bytes -= sum(part.size for part in parts)
        error = ClosedEarly() if sent.cancelled() else sent.exception()
        if error is not None:
            refused = refusal(error)
            for part in parts:
                _fail(part.write, refused)
        else:
            self._metrics.write_seconds.observe(self._loop.time() - (watchdog.when() - PATIENCE))
            self._metrics.entries_written.inc()
            self._metrics.records_written.inc(len(records))
            self._stored(records)
            for part in parts:
                part.write.left -= 1
                if not part.write.left and not part.write.future.done():
                    part.write.future.set_result(None)
        if self._queue:
            self._schedule()


class ClosedEarly(PulsarError):
    """The send was given up here."""

    def __init__(self) -> None:
        super().__init__(pb.UnknownError, "given up")


def refusal(error: BaseException) -> KafkaError:
    """What a client is told of a write that failed: to look for the coordinator, or that it asks too much."""
    if isinstance(error, MessageTooLarge):
        return KafkaError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, str(error))
    if isinstance(error, PulsarError) and error.code == pb.ProducerFenced:
        return KafkaError(ErrorCode.NOT_COORDINATOR, "another node coordinates this group now")
    return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))


def _fail(write: _Write, error: KafkaError) -> None:
    if not write.future.done():
        write.future.set_exception(KafkaError(error.code, str(error)))  # one each: an exception collects tracebacks
