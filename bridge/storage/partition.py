"""One partition's log: append, read, watermarks, offset for a time."""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from math import inf
from typing import Any, TypeAlias

from bridge.codec import NO_PRODUCER
from bridge.errors import BridgeError, KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.consumer import Reader
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import Entry, Position, PulsarError
from bridge.runtime.futures import loop_time, retrieve_exception
from bridge.security.left_out import LeftOut
from bridge.storage import topic_properties
from bridge.storage.append.appender import Appender
from bridge.storage.append.duplicates import DuplicateFinder
from bridge.storage.append.group_commit import OpenEntry
from bridge.storage.append.pace import Pace
from bridge.storage.append.preparation import Plan, PreparedEntry
from bridge.storage.append.sequences import SequencePosition
from bridge.storage.append.writers import ClientSession, ProducerSequence
from bridge.storage.error_mapping import translated
from bridge.storage.mark_signer import MarkSigner
from bridge.storage.offsets import OffsetIndex
from bridge.storage.read.batches import Batch
from bridge.storage.read.log_end import LogEnd
from bridge.storage.read.log_reader import LogReader
from bridge.storage.read.log_start import LogStart
from bridge.storage.read.search import Search
from bridge.storage.read.stable_offset import OpenHere, StableOffset
from bridge.storage.read.tail import TopicRecreated
from bridge.storage.read.tail_owner import TailOwner
from bridge.storage.read.time_lookup import TimeLookup, TimeOffset
from bridge.storage.services import Storage
from bridge.telemetry.traffic import Traffic

_BOUNDS_FRESH_SECONDS = 1.0
_CATCH_UP_BUFFERS = 4
"""So many times its buffer a reader of older records may hold, while few read: Pulsar reads 5 MB at a time from disk,
and should do so while the last 5 MB are on their way to the client."""
_CHUNKS_AT_ONCE = 2
"""Of a large record, that are on their way to Pulsar: what others send to the partition goes between them."""
_HAND_OVER_SECONDS = 2.0
"""How long what is on its way to Pulsar may take when another node goes on."""


_Asked: TypeAlias = Callable[[], bool]


def _yes() -> bool:
    return True


def _no() -> bool:
    return False


class PartitionLog:
    """The log of one partition; it is opened step by step, by what is asked of it.

    Appending needs a producer and the end of the log. Reading and asking for the end keep a reader at the tail, which
    is closed if there was no read for `storage.tail_idle_seconds`.
    """

    def __init__(
        self,
        topic: str,
        storage: Storage,
        on_gone: Callable[[], None],
        is_led: _Asked = _yes,
        has_moved: _Asked = _no,
        topic_id: bytes = b"",
        index: int = 0,
    ) -> None:
        """`is_led`: whether this node leads it, and so may open producers; `has_moved`: whether another just did;
        `topic_id`, `index`: of the topic that it is a partition of, and which."""
        self.topic = topic
        self._is_led = is_led
        self.end = LogEnd()
        self.traffic = Traffic()
        """Where the topic's records are counted."""
        self._storage = storage
        self._on_gone = on_gone
        self._index = OffsetIndex()
        signer = MarkSigner(storage.mark_secret, topic, topic_id)
        make_maker = partial(storage.maker, topic, signer)
        self._search = Search(
            topic, storage.client, storage.admin, storage.metrics, make_maker(), self._index, storage.threads, signer
        )
        duplicates = DuplicateFinder(topic, self._search, signer, storage.far_searches)
        self._appender = Appender(
            topic=topic,
            producer_name=storage.writer,
            client=storage.client,
            end=self.end,
            duplicates=duplicates,
            signer=signer,
            missing=storage.missing,
            listener=self,
            metrics=storage.metrics,
            limit=storage.repetition_limit,
            settings=storage.settings.storage,
            may_send=storage.may_send,
            has_moved=has_moved,
        )
        self._tails = TailOwner(
            self.end, self._search, self._open_reader, self._tail_failed,
            storage.cache, make_maker, storage.threads, storage.settings,
        )  # fmt: skip
        self._start = LogStart(topic, self._search, self.end, self._tails.load_end, self._tails.open_at_start)
        self._stable = StableOffset(
            storage.outcomes,
            self.end,
            lambda: self.known_start,
            lambda: self._tails.met_from,
            self._search,
            topic_id.hex(),
            index,
            partial(storage.left_out, topic_id.hex(), index),
        )
        self.end.on_transaction = self._stable.met
        self._log_reader = LogReader(
            start=self._start,
            end=self.end,
            stable=self._stable,
            earliest=self.earliest,
            tails=self._tails,
            search=self._search,
            index=self._index,
            catch_up_readers=storage.catch_up_readers,
            open_reader=partial(self._open_reader, times_buffer=_CATCH_UP_BUFFERS),
            make_maker=make_maker,
            threads=storage.threads,
            metrics=storage.metrics,
        )
        read_stored = partial(self._log_reader.read_stored, timeout_seconds=self._operation_timeout)
        self._times = TimeLookup(self._search, self.end, self.earliest, read_stored, storage.threads)
        self._closed = False
        self._making_ready: dict[asyncio.Timeout, None] = {}  # in the order in which they came
        self.apply_configs({})

    # --- what is kept with the topic ---

    def apply_configs(self, configs: Mapping[str, str]) -> None:
        """Go by these configs of the topic from now on."""
        self.plan = Plan(
            self._storage.largest_entry,
            topic_properties.entry_format(configs, self._storage.settings.storage.entry_format),
            topic_properties.codec(configs),
            topic_properties.is_compacted(configs),
            *topic_properties.max_timestamp_distances(configs),
            self._storage.largest_message(topic_properties.max_message_bytes(configs)),
            self._storage.largest_batch,
        )

    def raise_start(self, offset: int) -> None:
        """Hide what is before `offset`, even if Pulsar still has it."""
        self._start.raise_to(offset)

    def mark_empty(self) -> None:
        """Go by it that the partition was just created: there is nothing to ask for before the first append."""
        self._tails.mark_empty()

    # --- appending ---

    def is_ready(self, batches: Collection[ProducerSequence], session: ClientSession | None = None) -> bool:
        """Whether `make_ready` has nothing to wait for."""
        return self._tails.end_loaded and all(self._appender.is_ready(batch, session) for batch in batches)

    async def make_ready(
        self,
        batches: Collection[ProducerSequence] = (),
        session: ClientSession | None = None,
        deadline: float | None = None,
    ) -> None:
        """Learn where the log ends and wait until producers take more, so that `append_all` can be called.

        `batches`: the first of each producer among them, whose past must be known; `session`: of the client that sends
        them; `deadline`: the loop time at which a KafkaError says what there is to wait for.
        """
        waiting = asyncio.timeout_at(deadline)
        self._making_ready[waiting] = None
        try:
            async with waiting:
                await self._make_ready(batches, session)
        except TimeoutError:
            self._check_open()
            errors = [error for batch in batches if (error := self._appender.last_error(batch[0])) is not None]
            if any(error.code == pb.ProducerBusy for error in errors):
                text = "another node writes for this producer, or still holds its name"
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text) from None
            text = ": ".join(["Pulsar takes no more for this partition at present", *map(str, errors[:1])])
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None
        finally:
            del self._making_ready[waiting]

    async def _make_ready(self, batches: Collection[ProducerSequence], session: ClientSession | None) -> None:
        with translated():
            self._check_open()
            await self._storage.may_send.wait()  # what was held back before goes first
            if not self._is_led():
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node does not lead the partition")
            await self._tails.load_end()
            for batch in batches:
                if batch[0] >= 0:
                    await self._storage.deduplication.ensure(self.topic)
                await self._appender.make_ready(batch, session)

    def append_all(self, batches: list[PreparedEntry], pace: Pace | None = None) -> list[asyncio.Future[int]]:
        """Send batches: each one's base offset once Pulsar holds it, or a KafkaError; `pace`: of the client.

        Order is the order of the calls. Raises KafkaError, having sent none, if one is too large for this Pulsar.
        """
        self._check_open()
        self._appender.check(batches)
        return [self._appender.append(batch, pace) for batch in batches]

    async def store_chunks(self, large: PreparedEntry, first: PreparedEntry) -> PreparedEntry:
        """Store a large record but for its last chunk, which is returned: with it the record takes its place.

        What is stored before is no record to anyone, and stays so if the last chunk never comes. Raises KafkaError. A
        repetition whose offset is at hand, and what will be refused, is returned as it is. `first`: of its batch.
        """
        if not self._appender.will_send(large, first):
            return large
        with translated():  # a last chunk that is stored twice is a record once, and its receipt tells the second place
            await self._storage.deduplication.ensure(self.topic)
        *before, last = large.chunks(secrets.token_hex(8))
        under_way: deque[asyncio.Future[int]] = deque()
        try:
            for chunk in before:
                if len(under_way) == _CHUNKS_AT_ONCE:
                    await under_way.popleft()
                await self.make_ready((NO_PRODUCER,))
                (sent,) = self.append_all([chunk])
                sent.add_done_callback(retrieve_exception)  # it may fail after another has
                under_way.append(sent)
            while under_way:
                await under_way.popleft()
        finally:
            for one in under_way:
                one.cancel()
        return last

    def open_entry(self, entry: PreparedEntry) -> OpenEntry | None:
        """Where a small plain batch goes that has nothing to wait for; added at once, it has its place.

        None where it has, or must not share an entry.
        """
        if self._closed or not self._tails.end_loaded:
            return None
        return self._appender.open_entry(entry)

    async def writable(self) -> None:
        """Wait until a Produce would succeed."""
        with translated():
            await self.make_ready()
            self._check_open()
            await self._appender.opened()

    @property
    def last_error(self) -> PulsarError | None:
        """Why Pulsar does not let this process write at present, if it has said so."""
        return self._appender.last_error()

    def producers(self) -> list[tuple[int, SequencePosition]]:
        """The idempotent producers that write here through this process: their ids, and the last position of each."""
        return self._appender.producers()

    # --- reading ---

    @property
    def is_led(self) -> bool:
        """Whether this node leads it."""
        return self._is_led()

    @property
    def known_start(self) -> int:
        """The log start as last asked of Pulsar; it may have moved up since."""
        return self._start.offset

    @property
    def learnt_start(self) -> int | None:
        """The same; None where Pulsar was never asked."""
        return self._start.known

    @property
    def known_end(self) -> int | None:
        """The end as far as it is known without asking; None where it was never asked for."""
        return self.end.offset if self._tails.end_loaded else None

    @property
    def is_followed(self) -> bool:
        """Whether a reader is at the tail: `end` wakes who waits whatever comes, and when the reader ends."""
        return self._tails.running is not None and not self._closed

    @property
    def is_current(self) -> bool:
        """Whether `known_end` is of this moment: a reader at the tail gets all that is written."""
        tail = self._tails.running
        return tail is not None and tail.is_attached and self._tails.end_loaded and not self._closed

    def published_at(self, offset: int) -> int | None:
        """When the record at this offset was published (ms), if it is in memory."""
        tail = self._tails.running
        if tail is None:
            return None
        batches = tail.slice(offset, 1)
        batch = batches[0] if batches else tail.older.look(offset)
        return None if batch is None else batch.published_at

    def read(
        self, offset: int, max_bytes: int, timeout_seconds: float, *, committed: bool = False
    ) -> Coroutine[Any, Any, list[bytes]]:
        """Kafka batches from the one that holds `offset` on, as `LogReader.read`."""
        if self._closed:
            return self._refused()
        return self._log_reader.read(offset, max_bytes, timeout_seconds, committed=committed)

    def read_nowait(
        self, offset: int, max_bytes: int, until: float = inf, *, committed: bool = False
    ) -> list[bytes] | None:
        """As `read`, from memory alone; None where that does not have it, or may be old."""
        return None if self._closed else self._log_reader.read_nowait(offset, max_bytes, until, committed=committed)

    @property
    def last_stable(self) -> int:
        """The last stable offset as far as it is known: before it no transaction is open."""
        return self._stable.offset

    @property
    def left_out(self) -> LeftOut | None:
        """The offsets that KoP aborted, as far as that was imported."""
        return self._stable.left_out()

    def held_for(self, now: float) -> float:
        """How long the last stable offset has been held back at the same place; `now`: loop time."""
        return self._stable.held_for(now)

    async def open_transactions(self) -> list[OpenHere]:
        """The open transactions that have written here, or may have, of all that is stored now."""
        await self.latest(committed=True)
        return self._stable.open_here

    async def _refused(self) -> list[bytes]:
        self._check_open()
        return []

    def needs_conversion(self, offset: int) -> bool:
        """Whether what is at the offset is in memory, and `read_nowait` leaves it to `read` for the time it takes."""
        tail = self._tails.running
        batches = None if tail is None else tail.slice(offset, 1)
        return batches is not None and not all(batch.is_converted for batch in batches)

    async def latest(self, *, committed: bool = False) -> int:
        """The high watermark, asked of Pulsar: others write here, too, and what they have acknowledged is in it.

        `committed`: the last stable offset instead.
        """
        with translated(reading=True):
            await self._tails.refresh_end()
            return await self._stable.ask() if committed else self.end.offset

    async def earliest(self) -> int:
        """The offset of the first record still there; from memory, refreshed in the background."""
        with translated(reading=True):
            self._check_open()
            return await self._start.get()

    async def bounds(self, offset: int) -> tuple[int, int]:
        """Where the log starts, a second ago at most, and where it ends, if `offset` is beyond what is known: for a
        client that will read elsewhere, so no reader is kept."""
        with translated(reading=True):
            self._check_open()
            await self._tails.load_end()
            if offset > self.end.offset:
                await self._tails.refresh_end()
            return await self._start.get_fresh(_BOUNDS_FRESH_SECONDS), self.end.offset

    async def start_from(self, offset: int) -> int:
        """Where the log would start if all before `offset` (−1: the end) were gone; OFFSET_OUT_OF_RANGE above it."""
        with translated(reading=True):
            await self._tails.open()
            if offset < 0 or offset > self.end.offset:
                await self._tails.refresh_end()
            start = await self.earliest()
            if not -1 <= offset <= self.end.offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is not in {start} … {self.end.offset}")
            return max(start, self.end.offset if offset == -1 else offset)

    async def at_time(self, timestamp: int) -> TimeOffset | None:
        """The first record at or after `timestamp` (ms), as Kafka's time index finds it; None if there is none."""
        with translated(reading=True):
            await self._tails.refresh_end()
            return await self._times.at(timestamp)

    async def newest(self) -> TimeOffset | None:
        """The record with the highest timestamp (KIP-734); None in an empty log."""
        with translated(reading=True):
            await self._tails.refresh_end()
            return await self._times.newest() if self.end.offset else None

    async def consumed_before(self, offset: int) -> Position | None:
        """The last entry of which every record lies before `offset`, or the place before the first; None for 0."""
        if offset <= 0:
            return None
        with translated(reading=True):
            batch = await self._batch_of(offset - 1)
            if batch is None:
                return await self._search.last_position()
            return batch.position if batch.next <= offset else batch.position.before

    async def entries_within(self, first: int, last: int) -> list[Position]:
        """The entries of which every record lies from `first` to `last`, both within."""
        with translated(reading=True):
            batch = await self._batch_of(first)
            end = await self.consumed_before(last + 1)
            if batch is None or end is None:
                return []
            begin = batch.position if batch.base >= first else batch.position.after
            return await self._search.positions(begin, end)

    async def _batch_of(self, offset: int) -> Batch | None:
        """The entry that holds `offset`, or the first after it; None beyond the end."""
        found = None if self._tails.running is None else self._tails.running.slice(offset, 1)
        return found[0] if found else await self._search.find_offset(offset)

    # --- life ---

    async def sweep(self, now: float) -> None:
        """Close the tail and the writers if they are idle; `now`: loop time."""
        self._appender.sweep(now)
        await self._tails.sweep(now)

    async def close(self, *, flush: bool = False) -> None:
        """Close everything; what is in flight fails, but with `flush` appends have their outcome first.

        What is being opened at this moment is closed by the caller that opens it. Nothing is opened afterwards.
        """
        self._refuse()
        await self._appender.close(self._operation_timeout if flush else 0)
        await self._close_readers()
        self.end.wake_waiters()

    def hand_over(self, *, flush: bool) -> Coroutine[Any, Any, None]:
        """As `close`, to another node: at once even before the coroutine runs, nothing more is sent to Pulsar.

        `flush`: what is on its way has its outcome first, if that comes soon. Who waits for anything else is told.
        """
        self._refuse()
        for waiting in self._making_ready:
            if not waiting.expired():
                waiting.reschedule(loop_time())
        self.end.wake_waiters()
        return self._finish_hand_over(self._appender.hand_over(_HAND_OVER_SECONDS if flush else 0))

    async def _finish_hand_over(self, outcomes: Coroutine[Any, Any, None]) -> None:
        await outcomes
        await asyncio.gather(self._appender.close(), self._close_readers())
        self.end.wake_waiters()

    def _refuse(self) -> None:
        """No request is served from now on."""
        self._closed = True
        self._storage.deduplication.forget(self.topic)
        self._start.close()

    async def _close_readers(self) -> None:
        await asyncio.gather(self._log_reader.close(), self._tails.close())

    # --- within ---

    @property
    def _operation_timeout(self) -> float:
        return self._storage.settings.pulsar.operation_timeout_seconds

    async def _open_reader(self, position: Position, times_buffer: int = 1) -> Reader:
        self._check_open()
        settings = self._storage.settings.storage
        buffer = settings.reader_buffer_bytes
        reader = await self._storage.client.reader(
            self.topic,
            position,
            permits=settings.reader_queue_messages,
            max_buffer=buffer,
            more_buffer=(times_buffer - 1) * buffer,
        )
        if self._closed:
            await reader.close()
        self._check_open()
        return reader

    def _check_open(self) -> None:
        """Nothing is opened after the end: it would stay open, and its name would keep the next log out."""
        if self._closed:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition was closed here: refresh the metadata")

    def on_appended(self, base: int, entry: Entry) -> None:
        """Serve what this process has written from memory, without waiting to read it back."""
        if self._tails.running is not None:
            self._tails.running.add_appended(base, entry)

    def on_stored(self, base: int, position: Position) -> None:
        """Later searches near what this process has written are shorter, and a short log is read by its tail alone."""
        self._index.add(base, (position.ledger, position.entry))

    def on_foreign_writers(self) -> None:
        """Others write here as well: entries read at the tail tell their offsets, none has to be read back."""
        if not self._closed:
            self._tails.keep_open()

    def on_recreated(self) -> None:
        """What is known here is of a deleted topic."""
        self._on_gone()

    def _tail_failed(self, error: BridgeError) -> None:
        if isinstance(error, PulsarError) and error.refusal is not None:
            return  # the topic is there: the next read is told
        if isinstance(error, TopicRecreated) or (isinstance(error, PulsarError) and not error.retriable):
            self._on_gone()
