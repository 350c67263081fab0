"""Appends batches to one partition, and learns the offset of each from the position in its receipt.

Batches of idempotent producers go through writers of their own; all others through one producer of this process.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeVar

from bridge.codec import NO_PRODUCER
from bridge.errors import KafkaError
from bridge.futures import failed, following
from bridge.kafka.error_codes import ErrorCode
from bridge.metrics import StorageMetrics
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.producer import REFUSALS, Producer, Send
from bridge.pulsar.types import EARLIEST, ClientClosed, Entry, MessageTooLarge, Position, PulsarError
from bridge.storage.append.duplicates import DuplicateFinder
from bridge.storage.append.missing_batches import MissingBatches
from bridge.storage.append.pending_append import PendingAppend, complete_in_order
from bridge.storage.append.preparation import METADATA_BYTES, PreparedEntry
from bridge.storage.append.sequences import SequencePosition, SequenceRange
from bridge.storage.append.writers import ClientSession, ProducerSequence, Writer, Writers
from bridge.storage.error_mapping import translate
from bridge.storage.offsets import span
from bridge.storage.read.log_end import LogEnd

_READ_BACK_TRIES = 3
_INDEX_INTERVAL = 32  # one entry of so many goes into the offset index
_READ_BACK_INTERVAL_SECONDS = 0.5  # where entries are read back more often, a reader at the tail is cheaper
_R = TypeVar("_R")
# So many holes in what is known of timestamps are read in so many seconds: more mean that another writer is busy.
_MAX_HOLES, _HOLES_SECONDS = 10, 10.0


class AppendListener(Protocol):
    """What an appender reports to its partition's log."""

    def on_appended(self, base: int, entry: Entry) -> None:
        """Pulsar has stored this entry. No client and no waiter learns of it before this returns."""

    def on_stored(self, base: int, position: Position) -> None:
        """An entry of this process begins with this offset; called for the first, and then for some."""

    def on_foreign_writers(self) -> None:
        """Others write here so often that a reader at the tail costs less than reading entries back."""

    def on_recreated(self) -> None:
        """The offsets show that this is another topic of the same name."""


class Appender:
    """The appends of one partition. Their offsets are told in the order of the appends."""

    def __init__(
        self,
        topic: str,
        producer_name: str,
        client: PulsarClient,
        end: LogEnd,
        duplicates: DuplicateFinder,
        missing: MissingBatches,
        listener: AppendListener,
        metrics: StorageMetrics,
        may_send: asyncio.Event | None = None,
        has_moved: Callable[[], bool] = lambda: False,
    ) -> None:
        """`producer_name`: of this process's producer for the batches of clients' producers that are not idempotent;
        `may_send`: while it is not set, nothing is sent again after a reconnect; `has_moved`: whether another node led
        the partition a moment ago."""
        self._topic = topic
        self._producer_name = producer_name
        self._client = client
        self._missing = missing
        self._metrics = metrics
        self._end, self._duplicates, self._listener = end, duplicates, listener
        self._may_send, self._has_moved = may_send, has_moved
        self._writers = Writers(topic, client, may_send)
        self._last = (EARLIEST, 0)  # the position of the last append, and the offset after it
        self._in_flight: set[asyncio.Future[int]] = set()
        self._read_back_at = float("-inf")
        self._producer: Producer | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._closed = False
        self._unresolved: deque[PendingAppend] = deque()
        self._resolver: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._filling: asyncio.Task[None] | None = None
        self._filled_at: deque[float] = deque()

    def append(self, prepared: PreparedEntry) -> asyncio.Future[int]:
        """Send one entry; the future is its base offset once Pulsar has stored it, or a KafkaError.

        It takes its place in the partition before this returns. Cancelling the future cancels the append: what was not
        sent is never sent, what was sent may be stored.
        """
        if prepared.producer == NO_PRODUCER:
            pending = self._pending_append(prepared, self._default_producer())
            self._send(pending, self._default_producer(), self._metadata(prepared))
            pending.offset.add_done_callback(partial(self._give_up_if_cancelled, pending, self._default_producer()))
            return pending.offset
        producer_id, epoch, sequence = prepared.producer
        writer = self._writers.get(producer_id)
        if writer is None:  # dropped since `make_ready`, as its sends failed
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "an earlier batch of this producer has failed")
        if self._missing.is_any_before(self._topic, prepared.producer, writer.sequences.last):
            text = "an earlier batch was not stored, and must come again first"
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
        if sequence and writer.sequences.last is None and self._has_moved():
            # stored ahead of those before it, which its client still waits for elsewhere, it would be their end
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "an earlier batch may be under way to another node")
        batch = writer.sequences.check(epoch, sequence, prepared.record_count)
        if not batch.is_duplicate:
            return self._append_next(prepared, batch, writer)
        before = writer.previous_answer(is_retry=True)
        known = writer.offset_of(batch)
        if known is None:
            known = self._background(self._find_repeated(prepared, batch, writer))
        known.add_done_callback(lambda _: prepared.release())
        writer.last_answer = following(known, lambda answer, base: complete_in_order(answer, base, before))
        return writer.last_answer

    def _append_next(self, prepared: PreparedEntry, batch: SequenceRange, writer: Writer) -> "asyncio.Future[int]":
        writer.begin_epoch(batch.first.epoch)
        before = writer.previous_answer(is_retry=False)
        # sent even if the client stops waiting: a gap in its sequences would stop the producer permanently
        pending = self._pending_append(prepared, writer.producer, own_client_future=True, before=before)
        self._send(pending, writer.producer, self._metadata(prepared, batch))
        writer.note_sent(batch, pending.offset)
        pending.offset.add_done_callback(partial(self._drop_failed, prepared.producer, writer))
        writer.last_answer = pending.client_future
        if before is not None and before.done():
            pending.client_future.cancel()
        return pending.client_future

    def _metadata(self, prepared: PreparedEntry, batch: SequenceRange | None = None) -> MessageMetadata:
        metadata = prepared.metadata(self._end.time_marks.start_append(prepared.max_timestamp))
        if batch is not None:
            metadata.sequence_id, metadata.highest_sequence_id = batch.first.to_pulsar(), batch.last.to_pulsar()
        return metadata

    def _pending_append(
        self,
        prepared: PreparedEntry,
        producer: Producer,
        *,
        own_client_future: bool = False,
        before: "asyncio.Future[int] | None" = None,
    ) -> PendingAppend:
        loop = asyncio.get_running_loop()
        offset: asyncio.Future[int] = loop.create_future()
        client_future: asyncio.Future[int] = loop.create_future() if own_client_future else offset
        return PendingAppend(
            prepared, producer.name, Position(*self._end.anchor.position), offset, client_future, before
        )

    def _send(self, pending: PendingAppend, producer: Producer, metadata: MessageMetadata) -> None:
        self._in_flight.add(pending.offset)
        pending.offset.add_done_callback(self._in_flight.discard)
        prepared = pending.entry
        pending.send = producer.enqueue(
            metadata, prepared.data, prepared.record_count, partial(self._on_outcome, pending)
        )

    def _drop_failed(self, whose: tuple[int, int, int], writer: Writer, offset: "asyncio.Future[int]") -> None:
        """After a failed batch, those that follow cannot be judged, unless the producer has a new epoch since."""
        producer_id, epoch, _ = whose
        if failed(offset) and epoch == writer.epoch:
            self._writers.drop(producer_id, writer)

    def _give_up_if_cancelled(self, pending: PendingAppend, producer: Producer, offset: "asyncio.Future[int]") -> None:
        if offset.cancelled() and not pending.send.future.done():
            producer.cancel(pending.send)

    def check(self, batches: list[PreparedEntry]) -> None:
        """Raise MESSAGE_TOO_LARGE if an entry is above the limit of this topic's broker, if that is known."""
        limit = self._default_producer().max_message_size
        for prepared in batches:
            size = len(prepared.data) + METADATA_BYTES
            if limit is not None and size > limit:
                text = f"an entry of {size} bytes is above Pulsar's maximum message size of {limit}"
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)

    def is_ready(self, batch: ProducerSequence, session: ClientSession | None) -> bool:
        """Whether `make_ready` has nothing to wait for."""
        producer = self._producer
        producer_id, epoch, sequence = batch
        if producer_id >= 0:
            writer = self._writers.use(producer_id, session)
            if writer is None or writer.sequences.is_gap(epoch, sequence):
                return False
            producer = writer.producer
        return producer is None or producer.has_capacity

    async def make_ready(self, batch: ProducerSequence, session: ClientSession | None) -> None:
        """Wait until a batch can be appended: its producer takes more, and its past is known."""
        producer = self._producer
        if batch[0] >= 0:
            producer = (await self._writers.open(batch, session)).producer
        if producer is not None:
            await producer.writable()

    def is_taken_elsewhere(self, batch: ProducerSequence) -> bool:
        """Whether another client of Pulsar holds its producer's name."""
        return self._writers.is_taken_elsewhere(batch[0])

    def producers(self) -> list[tuple[int, SequencePosition]]:
        """The idempotent producers that write here, and the last position of each."""
        return self._writers.last_positions()

    def sweep(self, now: float) -> None:
        """Close idle writers; `now`: loop time."""
        self._writers.sweep(now)

    async def opened(self) -> None:
        """Wait until the broker has accepted the producer."""
        await self._default_producer().opened()

    async def close(self, timeout_seconds: float = 0) -> None:
        """Close all producers; appends in flight fail unless they have their outcome within `timeout_seconds`."""
        self._closed = True
        await self._wait_for_outcomes(timeout_seconds)
        if self._producer is not None:
            await self._producer.close(flush=False)
        await self._writers.close()
        if self._leaving is not None:
            await asyncio.wait((self._leaving,))
        for task in (self._resolver, *self._tasks):
            if task is not None:
                task.cancel()
        while self._unresolved:
            self._fail(self._unresolved.popleft(), ClientClosed("the partition"))

    def hand_over(self, seconds: float) -> Coroutine[Any, Any, None]:
        """Let another node go on, at once even before the coroutine runs.

        What is on its way to Pulsar has so many seconds for its outcome, all else fails. Each producer is closed as
        soon as nothing of it is on its way; `close` waits until Pulsar knows of it.
        """
        self._closed = True
        self._writers.hand_over(seconds)
        if self._producer is not None:
            self._leaving = asyncio.get_running_loop().create_task(self._producer.hand_over(seconds))
        return self._wait_for_outcomes(seconds)

    async def _wait_for_outcomes(self, seconds: float) -> None:
        if self._in_flight and seconds:
            await asyncio.wait(self._in_flight, timeout=seconds)

    def _default_producer(self) -> Producer:
        if self._producer is None:
            if self._closed:  # this one would stay open, and keep others from its name
                raise ClientClosed("the partition")
            self._producer = self._client.producer(
                self._topic, name=self._producer_name, must_exist=True, may_send=self._may_send
            )
        return self._producer

    # --- from a receipt to an offset ------------------------------------------------------------------------------

    def _on_outcome(self, pending: PendingAppend, send: Send) -> None:
        pending.entry.release()
        error = send.future.exception()
        if error is not None:
            if self._producer is not None and self._producer.closing:
                self._producer = None  # it is refused permanently; the next append opens another
            self._end.time_marks.note_failed(pending.entry.max_timestamp, maybe_stored=send.maybe_stored)
            self._fail(pending, error)
            return
        pending.receipt = receipt = send.future.result()
        if receipt.duplicate:  # its position is not in the order of the others in flight
            self._background(self._resolve_one(pending))
        elif self._unresolved or not self._finish_nowait(pending):
            self._unresolved.append(pending)
            if self._resolver is None or self._resolver.done():
                self._resolver = asyncio.get_running_loop().create_task(self._resolve())

    def _finish_nowait(self, pending: PendingAppend) -> bool:
        """Finish an append whose offset can be counted; False if Pulsar has to be asked."""
        receipt = pending.receipt
        base = None if receipt is None else self._end.base_offset_nowait(receipt, pending.entry.record_count)
        if base is None:
            return False
        self._finish(pending, base)
        return True

    async def _resolve(self) -> None:
        while self._unresolved:
            pending = self._unresolved[0]
            await self._resolve_one(pending)
            if self._unresolved and self._unresolved[0] is pending:  # close() takes them all
                self._unresolved.popleft()

    async def _resolve_one(self, pending: PendingAppend) -> None:
        try:
            if not self._finish_nowait(pending):
                self._finish(pending, await self._look_up_offset(pending))
        except Exception as error:  # noqa: BLE001 — this append's client must get it, whatever it is
            self._end.time_marks.note_failed(pending.entry.max_timestamp, maybe_stored=True)
            self._fail(pending, error)

    def _finish(self, pending: PendingAppend, base: int) -> None:
        receipt, prepared = pending.receipt, pending.entry
        end = base + prepared.record_count
        stored = None if receipt is None or receipt.duplicate else receipt.position
        if stored is not None and self._end.reached is not None:
            size = len(prepared.data) + METADATA_BYTES
            entry = Entry(stored, end - 1, None, pending.send.metadata, memoryview(prepared.data), size)
            self._listener.on_appended(base, entry)
        self._end.advance(end)
        self._end.time_marks.note_stored(prepared.max_timestamp, base, end)
        if prepared.producer != NO_PRODUCER:
            self._missing.note_stored(self._topic, *prepared.producer)
        if not pending.offset.done():
            pending.offset.set_result(base)
        complete_in_order(pending.client_future, base, pending.previous_answer)
        if stored is None:  # a duplicate's entry was counted when it was stored
            return
        position, next_offset = self._last
        if stored > position:
            if base < next_offset:
                self._listener.on_recreated()  # offsets never go back in one topic
            if position == EARLIEST or not stored.entry % _INDEX_INTERVAL:
                self._listener.on_stored(base, stored)
            self._last = stored, end
        if self._end.time_marks.hole is not None:
            self._fill_hole(stored, base)

    def _fail(self, pending: PendingAppend, error: BaseException) -> None:
        if pending.entry.producer != NO_PRODUCER:
            refused = isinstance(error, MessageTooLarge) or (type(error) is PulsarError and error.code in REFUSALS)
            self._missing.note_missing(self._topic, *pending.entry.producer, refused=refused)
        for offset in (pending.offset, pending.client_future):
            if not offset.done():
                offset.set_exception(translate(error))

    async def _look_up_offset(self, pending: PendingAppend) -> int:
        """The base offset of an append that does not directly follow the last known one: read it back."""
        receipt, count = pending.receipt, pending.entry.record_count
        assert receipt is not None  # noqa: S101 — only appends with one get here
        self._metrics.reanchors.inc()
        if receipt.duplicate:
            return await self._duplicates.find_duplicate(
                pending.entry, pending.last_known, pending.producer, receipt.sequence_id
            )
        now = asyncio.get_running_loop().time()
        if now - self._read_back_at < _READ_BACK_INTERVAL_SECONDS:
            self._listener.on_foreign_writers()
        self._read_back_at = now
        position = receipt.position
        if await self._end.wait_for_entry(position):
            base = self._end.base_offset_nowait(receipt, count)
            if base is not None:
                return base
        for _ in range(_READ_BACK_TRIES):
            entry = await self._client.read_entry(self._topic, position)
            if entry is not None and entry.position == position and entry.index is not None:
                found = span(entry.index, count)
                self._end.observe_append(position, found.next)
                return found.base
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the entry at {position} was stored and cannot be read back")

    async def _find_repeated(self, prepared: PreparedEntry, batch: SequenceRange, writer: Writer) -> int:
        """The offset of a duplicate that this process does not remember.

        What Pulsar told when the writer was opened counts also what it had taken and not stored yet. So it gets the
        batch again, under its own sequences: it then says that it holds it, or stores it.
        """
        near = await self._duplicates.find_near(prepared)
        if near is not None:
            self._missing.note_stored(self._topic, *prepared.producer)
            return near
        pending = self._pending_append(prepared, writer.producer)
        self._send(pending, writer.producer, self._metadata(prepared, batch))
        return await pending.offset

    # --- in the background ----------------------------------------------------------------------------------------

    def _fill_hole(self, position: Position, base: int) -> None:
        """Read what others have stored between the entries of this process: its time marks promise for those, too."""
        if self._filling is not None and not self._filling.done():
            return
        now = asyncio.get_running_loop().time()
        self._filled_at.append(now)
        if len(self._filled_at) > _MAX_HOLES and now - self._filled_at.popleft() < _HOLES_SECONDS:
            self._end.time_marks.give_up()
        else:
            self._filling = self._background(self._duplicates.fill_holes(self._end.time_marks, position, base))

    def _background(self, work: Coroutine[Any, Any, _R]) -> "asyncio.Task[_R]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
