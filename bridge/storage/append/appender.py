"""Appends batches to one partition, and learns the offset of each from the position in its receipt.

Batches of idempotent producers go through writers of their own; all others through one producer of this process.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from bridge.codec import NO_PRODUCER
from bridge.config import StorageSettings
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.producer import REFUSALS, Producer, Send
from bridge.pulsar.types import EARLIEST, ClientClosed, Entry, MessageTooLarge, Position, PulsarError, SendCancelled
from bridge.runtime.futures import Outcome, failed, following
from bridge.storage.append.duplicates import DuplicateFinder
from bridge.storage.append.group_commit import GroupCommit, OpenEntry, together
from bridge.storage.append.missing_batches import MissingBatches
from bridge.storage.append.pace import Pace
from bridge.storage.append.pending_append import (
    Member,
    PendingAppend,
    cancel_if_cancelled,
    complete_in_order,
    fail_if_cancelled,
)
from bridge.storage.append.preparation import METADATA_BYTES, PreparedEntry
from bridge.storage.append.repetitions import RepetitionLimit, Repetitions
from bridge.storage.append.sequences import SequencePosition, SequenceRange
from bridge.storage.append.writers import ClientSession, ProducerSequence, Writer, Writers
from bridge.storage.mark_signer import MarkSigner
from bridge.storage.offsets import span
from bridge.storage.read.log_end import LogEnd
from bridge.storage.time_marks import TimeMarks
from bridge.telemetry.metrics import StorageMetrics

_READ_BACK_TRIES = 3
_INDEX_INTERVAL = 32  # one entry of so many goes into the offset index
_READ_BACK_INTERVAL_SECONDS = 0.5  # where entries are read back more often, a reader at the tail is cheaper
# So many holes are read in so many seconds: more mean that another writer is busy.
_MAX_HOLES: Final = 10
_HOLES_SECONDS: Final = 10.0
_R = TypeVar("_R")


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


class _Holes:
    """What others have stored between the entries of this process is read, for the time marks promise for it, too."""

    def __init__(
        self,
        marks: TimeMarks,
        duplicates: DuplicateFinder,
        background: Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"],
    ) -> None:
        """`background`: runs the reading as a task that ends with the partition."""
        self._marks = marks
        self._duplicates = duplicates
        self._background = background
        self._filling: asyncio.Task[None] | None = None
        self._filled_at: deque[float] = deque()

    def look_before(self, position: Position, base: int) -> None:
        """Fill what is not known before the entry at this position, with this base offset."""
        if self._marks.hole is None or (self._filling is not None and not self._filling.done()):
            return
        now = asyncio.get_running_loop().time()
        self._filled_at.append(now)
        if len(self._filled_at) > _MAX_HOLES and now - self._filled_at.popleft() < _HOLES_SECONDS:
            self._marks.give_up()
        else:
            self._filling = self._background(self._duplicates.fill_holes(self._marks, position, base))


class Appender:
    """The appends of one partition. Their offsets are told in the order of the appends."""

    def __init__(
        self,
        *,
        topic: str,
        producer_name: str,
        client: PulsarClient,
        end: LogEnd,
        duplicates: DuplicateFinder,
        signer: MarkSigner,
        missing: MissingBatches,
        listener: AppendListener,
        metrics: StorageMetrics,
        limit: RepetitionLimit,
        settings: StorageSettings,
        may_send: asyncio.Event | None = None,
        has_moved: Callable[[], bool] = lambda: False,
    ) -> None:
        """`producer_name`: of this process's producer for the batches of clients' producers that are not idempotent;
        `may_send`: while it is not set, nothing is sent again after a reconnect; `has_moved`: whether another node led
        the partition a moment ago."""
        self._topic, self._producer_name = topic, producer_name
        self._client = client
        self._missing = missing
        self._metrics = metrics
        self._end, self._duplicates, self._listener = end, duplicates, listener
        self._signer = signer
        self._may_send, self._has_moved = may_send, has_moved
        self._writers = Writers(topic, client, may_send)
        self._repetitions = Repetitions(
            duplicates, self._send_again, partial(missing.note_stored, topic), limit, metrics
        )
        self._groups = GroupCommit(self._send_together, settings.group_commit_bytes, settings.linger_ms / 1000)
        self._last = (EARLIEST, 0)  # the position of the last append, and the offset after it
        self._in_flight: set[asyncio.Future[int]] = set()
        self._read_back_at = float("-inf")
        self._producer: Producer | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._closed = False
        self._unresolved: deque[PendingAppend] = deque()
        self._resolver: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._holes = _Holes(end.time_marks, duplicates, self._background)

    def append(self, prepared: PreparedEntry, pace: Pace | None = None) -> asyncio.Future[int]:
        """Send one entry; the future is its base offset once Pulsar has stored it, or a KafkaError.

        It takes its place in the partition before this returns. `pace`: of the client that sends it. Cancelling the
        future cancels the append: what was not sent is never sent, what was sent may be stored.
        """
        if prepared.producer == NO_PRODUCER:
            pending = self._pending_append(prepared, self._default_producer())
            self._groups.add(pending, self._default_producer(), pace)
            return pending.offset
        producer_id, epoch, sequence = prepared.producer
        writer = self._writers.get(producer_id)
        if writer is None or writer.failed_epoch == epoch == writer.epoch:  # its sends failed
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "an earlier batch of this producer has failed")
        self._missing.check_order(self._topic, prepared.producer, writer.sequences, self._has_moved)
        batch = writer.sequences.check(epoch, sequence, prepared.record_count)
        known = writer.offset_of(batch) if batch.is_duplicate else None
        if known is None and prepared.is_large:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the record's chunks are not stored")
        if not batch.is_duplicate:
            return self._append_next(prepared, batch, writer, pace)
        before = writer.previous_answer(is_retry=True)
        if known is None:
            writer.last_answer = self._repetitions.find(prepared, batch, writer, before)
        else:
            prepared.release()
            writer.last_answer = following(known, lambda answer, base: complete_in_order(answer, base, before))
        return writer.last_answer

    def will_send(self, prepared: PreparedEntry, first: PreparedEntry) -> bool:
        """Whether `append` sends this entry, as far as is known: it is neither refused nor a repetition whose offset is
        at hand. `first`: of the same batch, with which it would be refused."""
        producer_id, epoch, sequence = prepared.producer
        writer = self._writers.get(producer_id) if producer_id >= 0 else None
        if writer is None:
            return True
        try:
            writer.sequences.check(epoch, first.producer[2], first.record_count)
        except KafkaError:
            return False
        try:
            batch = writer.sequences.check(epoch, sequence, prepared.record_count)
        except KafkaError:  # what is between them in the batch comes first
            return True
        return writer.offset_of(batch) is None

    def _append_next(
        self, prepared: PreparedEntry, batch: SequenceRange, writer: Writer, pace: Pace | None
    ) -> "asyncio.Future[int]":
        if batch.first.epoch > writer.epoch:
            self._refuse(self._groups.take(writer.producer), SendCancelled())
        if writer.begin_epoch(batch.first.epoch):
            self._repetitions.forget_producer(prepared.producer[0])
        before = writer.previous_answer(is_retry=False)
        # sent even if the client stops waiting: a gap in its sequences would stop the producer permanently
        pending = self._pending_append(prepared, writer.producer, batch, before, own_client_future=True)
        self._groups.add(pending, writer.producer, pace)
        writer.note_sent(batch, pending.offset)
        pending.offset.call_at_once(partial(self._note_outcome, prepared.producer, writer))
        writer.last_answer = pending.client_future
        if before is not None and before.done():
            pending.client_future.cancel()
        return pending.client_future

    def _pending_append(
        self,
        prepared: PreparedEntry,
        producer: Producer,
        batch: SequenceRange | None = None,
        before: "asyncio.Future[int] | None" = None,
        *,
        own_client_future: bool = False,
    ) -> PendingAppend:
        offset: Outcome[int] = Outcome()
        client_future: Outcome[int] = Outcome() if own_client_future else offset
        self._in_flight.add(offset)
        offset.call_at_once(self._in_flight.discard)
        position = Position(*self._end.anchor.position)
        return PendingAppend(prepared, producer.name, position, offset, client_future, before, batch)

    def open_entry(self, entry: PreparedEntry) -> OpenEntry | None:
        """As `GroupCommit.open_entry`, for a batch of no idempotent producer; None also where it has to wait."""
        producer = self._producer
        if producer is None or not producer.has_capacity:
            return None
        return self._groups.open_entry(entry, producer)

    def _send_together(self, members: Sequence[Member], producer: Producer) -> None:
        """Send batches as one entry."""
        if len(members) == 1 and isinstance(members[0], PendingAppend):
            return self._send(members[0], producer)
        pending = together(members, producer.name, Position(*self._end.anchor.position))
        self._in_flight.add(pending.offset)
        pending.offset.call_at_once(self._in_flight.discard)
        self._send(pending, producer)

    def _send(self, pending: PendingAppend, producer: Producer) -> None:
        prepared, batch = pending.entry, pending.batch
        metadata = prepared.metadata(self._end.time_marks.start_append(prepared.max_timestamp))
        if batch is not None:
            metadata.sequence_id, metadata.highest_sequence_id = batch.first.to_pulsar(), batch.last.to_pulsar()
        self._signer.sign(metadata, producer.name)
        if prepared.message is not None:
            prepared.message.add_headers(metadata)
        pending.send = producer.enqueue(
            metadata, prepared.data, prepared.record_count, partial(self._on_outcome, pending, producer),
            alone=self._groups.is_risky(pending),
        )  # fmt: skip
        if batch is None:
            give_up = partial(self._give_up, pending, producer)
            for one in pending.members or (pending,):
                one.sent(give_up)
        if len(pending.members) > 1:
            self._metrics.grouped_batches.inc(len(pending.members))

    def _refuse(self, unsent: list[Member], error: PulsarError) -> None:
        for append in unsent:
            append.entry.release()
            if append.entry.producer != NO_PRODUCER:
                self._missing.note_missing(self._topic, *append.entry.producer)
            append.fail(error)

    def _note_outcome(self, whose: tuple[int, int, int], writer: Writer, offset: "asyncio.Future[int]") -> None:
        """Not now, if anything follows from it: the batch of a new epoch that ends the older one is not noted yet."""
        has_failed = failed(offset)
        if has_failed:
            writer.failed_epoch = whose[1]
        if has_failed or writer.abandoned:
            asyncio.get_running_loop().call_soon(self._outcome_known, whose, writer, offset)

    def _outcome_known(self, whose: tuple[int, int, int], writer: Writer, offset: "asyncio.Future[int]") -> None:
        """After a failed batch, those that follow cannot be judged, unless the producer has a new epoch since."""
        producer_id, epoch, _ = whose
        if failed(offset) and epoch == writer.epoch:
            self._writers.drop(producer_id, writer)
        elif writer.abandoned:
            self._writers.drop_abandoned(producer_id, writer)

    @staticmethod
    def _give_up(pending: PendingAppend, producer: Producer) -> None:
        """A client waits no more for what is sent."""
        if not pending.is_wanted and not pending.send.future.done():
            producer.cancel(pending.send)

    def check(self, batches: list[PreparedEntry]) -> None:
        """Raise MESSAGE_TOO_LARGE if an entry is above the limit of this topic's broker, if that is known."""
        limit = self._default_producer().max_message_size
        for prepared in batches:
            if prepared.is_large:  # none of it is sent
                continue
            size = len(prepared.data) + METADATA_BYTES
            if prepared.message is not None:
                size += prepared.message.single.ByteSize()
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

    def last_error(self, producer_id: int = -1) -> PulsarError | None:
        """Why the producer of an id, or the one of all others, is not open at present."""
        return self._writers.last_error(producer_id, self._producer)

    def producers(self) -> list[tuple[int, SequencePosition]]:
        """The idempotent producers that write here, and the last position of each."""
        return self._writers.last_positions()

    def sweep(self, now: float) -> None:
        """Close idle writers; `now`: loop time."""
        self._writers.sweep(now)
        self._repetitions.sweep(now)

    async def opened(self) -> None:
        """Wait until the broker has accepted the producer."""
        await self._default_producer().opened()

    async def close(self, timeout_seconds: float = 0) -> None:
        """Close all producers; appends in flight fail unless they have their outcome within `timeout_seconds`."""
        self._closed = True
        self._groups.flush_all()
        await self._wait_for_outcomes(timeout_seconds)
        self._stop_resolving()  # at once: a broker that is cut off does not answer that a producer is closed
        if self._producer is not None:
            await self._producer.close(flush=False)
        await self._writers.close()
        if self._leaving is not None:
            await asyncio.wait((self._leaving,))
        self._stop_resolving()  # what had its receipt meanwhile

    def _stop_resolving(self) -> None:
        """Look for no offset any more; who waits for one is told."""
        self._repetitions.close()
        for task in self._tasks:
            task.cancel()
        while self._unresolved:
            self._fail(self._unresolved.popleft(), ClientClosed("the partition"))

    def hand_over(self, seconds: float) -> Coroutine[Any, Any, None]:
        """Let another node go on, at once even before the coroutine runs.

        What is on its way to Pulsar has so many seconds for its outcome, all else fails. Each producer is closed as
        soon as nothing of it is on its way; `close` waits until Pulsar knows of it.
        """
        self._closed = True
        self._refuse(self._groups.take_all(), ClientClosed("the partition"))
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

    def _on_outcome(self, pending: PendingAppend, producer: Producer, send: Send) -> None:
        pending.entry.release()
        error = send.future.exception()
        self._groups.outcome_known(producer)
        if error is not None:
            if self._producer is not None and self._producer.closing:
                self._producer = None  # it is refused permanently; the next append opens another
            self._end.time_marks.note_failed(pending.entry.max_timestamp, maybe_stored=send.maybe_stored)
            self._fail(pending, error)
            if len(pending.members) > 1 and pending.batch is not None and not producer.closing:
                # its members come again: what waits behind them must not be stored first
                producer.give_up_unwritten()
                self._refuse(self._groups.take(producer), ClientClosed("the producer"))
            return
        pending.receipt = receipt = send.future.result()
        self._groups.note_stored(len(pending.entry.data))
        if receipt.duplicate:  # its position is not in the order of the others in flight
            pending.drop_data()
            pending.send.payload = ()
            resolving = self._background(self._resolve_one(pending))
            resolving.add_done_callback(partial(self._duplicate_resolved, pending))
            if pending.entry.producer != NO_PRODUCER:
                pending.offset.add_done_callback(partial(cancel_if_cancelled, resolving))
        elif self._unresolved or (base := self._end.base_offset(receipt, pending.entry.record_count)) is None:
            self._unresolved.append(pending)
            if self._resolver is None or self._resolver.done():
                self._resolver = self._background(self._resolve())
        else:
            self._finish(pending, base)

    def _duplicate_resolved(self, pending: PendingAppend, resolving: "asyncio.Task[None]") -> None:
        if resolving.cancelled():
            self._end.time_marks.note_failed(pending.entry.max_timestamp, maybe_stored=True)
            fail_if_cancelled(pending, resolving)

    async def _resolve(self) -> None:
        while self._unresolved:
            pending = self._unresolved[0]
            await self._resolve_one(pending)
            if self._unresolved and self._unresolved[0] is pending:  # close() takes them all
                self._unresolved.popleft()

    async def _resolve_one(self, pending: PendingAppend) -> None:
        try:
            self._finish(pending, await self._base_offset(pending))
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
            last = pending.members[-1].entry if pending.members else prepared
            self._missing.note_stored(self._topic, *last.producer)
        if stored is not None:  # a duplicate's entry was counted when it was stored
            self._note_position(stored, base, end)
        pending.succeed(base)  # last of all: it calls who waits for it

    def _note_position(self, stored: Position, base: int, end: int) -> None:
        position, next_offset = self._last
        if stored > position:
            if base < next_offset:
                self._listener.on_recreated()  # offsets never go back in one topic
            if position == EARLIEST or not stored.entry % _INDEX_INTERVAL:
                self._listener.on_stored(base, stored)
            self._last = stored, end
        self._holes.look_before(stored, base)

    def _fail(self, pending: PendingAppend, error: BaseException) -> None:
        if pending.entry.producer != NO_PRODUCER:
            refused = isinstance(error, MessageTooLarge) or (type(error) is PulsarError and error.code in REFUSALS)
            self._missing.note_missing(self._topic, *pending.entry.producer, refused=refused and not pending.members)
        pending.fail(self._groups.error_of(pending, error))

    async def _base_offset(self, pending: PendingAppend) -> int:
        """The base offset of an append; one that does not directly follow the last known one is read back."""
        receipt, count = pending.receipt, pending.entry.record_count
        assert receipt is not None  # noqa: S101 — only appends with one get here
        base = self._end.base_offset(receipt, count)
        if base is not None:
            return base
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
            base = self._end.base_offset(receipt, count)
            if base is not None:
                return base
        for _ in range(_READ_BACK_TRIES):
            entry = await self._client.read_entry(self._topic, position)
            if entry is not None and entry.position == position and entry.index is not None:
                found = span(entry.index, count)
                self._end.observe_append(position, found.next)
                return found.base
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the entry at {position} was stored and cannot be read back")

    def _send_again(self, prepared: PreparedEntry, batch: SequenceRange, writer: Writer) -> "asyncio.Future[int]":
        pending = self._pending_append(prepared, writer.producer, batch)
        self._send(pending, writer.producer)
        self._writers.keep_until(prepared.producer[0], writer, pending.send.future)
        return pending.offset

    # --- in the background ----------------------------------------------------------------------------------------

    def _background(self, work: Coroutine[Any, Any, _R]) -> "asyncio.Task[_R]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
