"""One partition's log: append, read, watermarks, offset for a time."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from bridge.errors import BridgeError, KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.consumer import Reader
from bridge.pulsar.types import EARLIEST, Position, PulsarError
from bridge.storage import entries, kept
from bridge.storage.appender import Appender
from bridge.storage.batches import Batch, converted, within
from bridge.storage.catchup import Cursor
from bridge.storage.faults import translated
from bridge.storage.log_end import LogEnd
from bridge.storage.log_start import LogStart
from bridge.storage.offsets import OffsetIndex
from bridge.storage.repeated import Stored
from bridge.storage.sealing import Plan, Sealed
from bridge.storage.search import Search
from bridge.storage.sequences import Place
from bridge.storage.services import Storage
from bridge.storage.tail import Recreated, Tail

_MEMORY_IS_FRESH = 1.0  # seconds that older records are shown from memory before Pulsar is asked what it has deleted
_SCAN_BYTES = 1 << 20
_SILENCE = 1.0  # seconds that the tail may take before it is asked whether what it waits for will ever come


class TimeOffset(NamedTuple):
    """A record found by its time."""

    offset: int
    timestamp: int


class PartitionLog:
    """One partition; opened step by step, by what is asked of it.

    Appending needs a producer and the end of the log. Reading and asking for the end keep a reader at the tail, which
    is closed when nobody has read for `storage.tail_idle_seconds`.
    """

    def __init__(self, topic: str, storage: Storage, gone: Callable[[], None]) -> None:
        self.topic = topic
        self.end = LogEnd()
        self._storage = storage
        self._gone = gone
        self._index = OffsetIndex()
        self._watching: asyncio.Task[None] | None = None
        self._search = Search(topic, storage.client, storage.admin, storage.metrics, storage.largest_batch, self._index)
        self._start = LogStart(topic, self._search, self.end)
        stored = Stored(topic, storage.client, self._search)
        self._appender = Appender(
            topic, storage.writer, storage.client, self.end, stored, storage.metrics, self._watch_the_tail, gone
        )
        self._tail: Tail | None = None
        self._opening = asyncio.Lock()
        self._loaded = False
        self.max_batch_bytes: int | None = None
        self.plan = Plan(storage.largest_entry, storage.settings.storage.entry_format)
        self._used_at = _now()

    # --- what is kept with the topic ---

    def learn(self, configs: Mapping[str, str]) -> None:
        """Go by these configs of the topic from now on."""
        self.max_batch_bytes = kept.max_message_bytes(configs)
        self.plan = Plan(
            self._storage.largest_entry,
            kept.entry_format(configs, self._storage.settings.storage.entry_format),
            kept.codec(configs),
            kept.is_compacted(configs),
        )

    def raise_start(self, offset: int) -> None:
        """Let nobody read what is before `offset`, though Pulsar may still have it."""
        self._start.raise_to(offset)

    def check_size(self, size: int) -> None:
        """Raise MESSAGE_TOO_LARGE for a batch, as the client sent it, above the topic's max.message.bytes."""
        if self.max_batch_bytes is not None and size > self.max_batch_bytes:
            text = f"a batch of {size} bytes is above the topic's max.message.bytes of {self.max_batch_bytes}"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)

    # --- appending ---

    def is_ready(self, producer_ids: Collection[int]) -> bool:
        """Whether `prepare` has nothing to wait for."""
        return self._loaded and all(map(self._appender.is_ready, producer_ids))

    async def prepare(self, producer_ids: Collection[int] = ()) -> None:
        """Learn where the log ends and wait until there is room, so that `append_all` can be called.

        `producer_ids`: of the idempotent producers among the batches' (−1: none), whose past must be known.
        """
        with translated():
            if not self._loaded:
                async with self._opening:
                    await self._load()
            for producer_id in producer_ids:
                if producer_id >= 0:
                    await self._storage.deduplication.ensure(self.topic)
                await self._appender.prepare(producer_id)

    def append_all(self, batches: list[Sealed]) -> list[asyncio.Future[int]]:
        """Send batches: each one's base offset once Pulsar holds it, or a KafkaError.

        Order is the order of the calls. Raises KafkaError, having sent none, if one is too large for this Pulsar.
        """
        self._appender.check(batches)
        return [self._appender.append(batch) for batch in batches]

    async def writable(self) -> None:
        """Wait until a produce would work."""
        with translated():
            await self.prepare()
            await self._appender.opened()

    def producers(self) -> list[tuple[int, Place]]:
        """The idempotent producers that write here through this process: their ids, and the last place of each."""
        return self._appender.producers()

    # --- reading ---

    @property
    def known_start(self) -> int:
        """The log start as last asked of Pulsar; it may have moved up since."""
        return self._start.offset

    @property
    def known_end(self) -> int | None:
        """The end as far as it is known without asking; None where it was never asked for."""
        return self.end.offset if self._loaded else None

    def published_at(self, offset: int) -> int | None:
        """When the record at this offset was published (ms), if it is in memory."""
        batches = self._tail.slice(offset, 1) if self._tail is not None and self._tail.live else None
        return batches[0].published_at if batches else None

    def read_nowait(self, offset: int, max_bytes: int) -> list[bytes] | None:
        """As `read`, from what is in memory; None where that is not enough to tell."""
        tail = self._tail
        if tail is None or not tail.live or not self._start.offset <= offset <= self.end.offset:
            return None
        self._used_at = _now()
        if offset == self.end.offset:
            self._storage.catchups.passed(self, offset)
            return []
        batches = self._remembered(tail, offset, max_bytes)
        if not batches or any(batch.is_slow for batch in batches):
            return None
        return within(batches, max_bytes) or None

    async def read(self, offset: int, max_bytes: int, patience: float) -> list[bytes]:
        """Kafka batches from the one that holds `offset` on: up to `max_bytes`, one at least, none at the end.

        The first may begin before `offset`. Waits up to `patience` seconds for what is stored but not received yet.
        Raises KafkaError: OFFSET_OUT_OF_RANGE below the log start and above the end.
        """
        with translated():
            await self._check_range(offset)
            found: list[bytes] = []
            while not found and offset < self.end.offset:
                batches = await self._batches(offset, max_bytes, patience)
                if not batches:
                    break
                offset = batches[-1].next  # where to go on if these hold no record (chunks of a large message)
                found = await converted(batches, max_bytes)
            return found

    async def latest(self) -> int:
        """The high watermark: from memory while the tail is open."""
        with translated():
            await self._open_tail()
            return self.end.offset

    async def earliest(self) -> int:
        """The offset of the first record still there; from memory, refreshed in the background."""
        with translated():
            await self._open_tail()
            return await self._start.get()

    async def start_from(self, offset: int) -> int:
        """Where the log would start if all before `offset` (−1: the end) were gone; OFFSET_OUT_OF_RANGE above it."""
        with translated():
            await self._open_tail()
            if offset < 0 or offset > self.end.offset:
                await self._reach_end()
            start = await self.earliest()
            if not -1 <= offset <= self.end.offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is not in {start} … {self.end.offset}")
            return max(start, self.end.offset if offset == -1 else offset)

    async def at_time(self, timestamp: int) -> TimeOffset | None:
        """The first record at or after `timestamp` (ms), as Kafka's time index finds it; None if there is none."""
        with translated():
            await self._open_tail()
            batch = await self._search.time(timestamp)
            start = await self.earliest()
            offset = self.end.offset if batch is None else max(batch.base, start)
            while offset < self.end.offset:
                found = await self.read(offset, _SCAN_BYTES, self._patience)
                if not found:
                    break
                for data in found:
                    for record in entries.records_of(data):
                        if record.timestamp >= timestamp and record.offset >= start:
                            return TimeOffset(record.offset, record.timestamp)
                        offset = record.offset + 1
            return None

    async def newest(self) -> TimeOffset | None:
        """The record with the highest timestamp (KIP-734); None in an empty log."""
        with translated():
            await self._open_tail()
            last = await self._search.last(await self._search.last_position()) if self.end.offset else None
            return None if last is None else await self.at_time(last.newest_timestamp())

    async def consumed_before(self, offset: int) -> Position | None:
        """The last entry of which every record lies before `offset`, or the place before the first; None for 0."""
        if offset <= 0:
            return None
        with translated():
            found = self._tail.slice(offset - 1, 1) if self._tail is not None and self._tail.live else None
            batch = found[0] if found else await self._search.offset(offset - 1)
            if batch is None:
                return await self._search.last_position()
            return batch.position if batch.next <= offset else batch.position.before

    # --- life ---

    async def sweep(self) -> None:
        """Close the tail that nobody reads, and the writers that nobody uses."""
        self._appender.sweep()
        idle = _now() - self._used_at > self._storage.settings.storage.tail_idle_seconds
        if idle and not self._opening.locked():
            await self._close_tail()

    async def close(self, *, flush: bool = False) -> None:
        """Give everything back; what is under way fails, with `flush` appends have their outcome first."""
        self._start.close()
        if self._watching is not None:
            self._watching.cancel()
        await self._appender.close(self._patience if flush else 0)
        await self._storage.catchups.close(self)
        await self._close_tail()
        self.end.wake()

    # --- within ---

    @property
    def _patience(self) -> float:
        return self._storage.settings.pulsar.operation_timeout_seconds

    async def _check_range(self, offset: int) -> None:
        tail = await self._open_tail()
        if offset > self.end.offset:  # another node or a native producer may have got there first
            await self._reach_end()
        start = await self.earliest()
        if tail.older:
            start = await self._start.within(_MEMORY_IS_FRESH)
        if not start <= offset <= max(self.end.offset, self._search.markers.end):
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is not in {start} … {self.end.offset}")

    async def _batches(self, offset: int, max_bytes: int, patience: float) -> list[Batch]:
        tail = await self._open_tail()
        found = self._remembered(tail, offset, max_bytes)
        if found is None:
            self._storage.metrics.cache_misses.inc()
            found = await self._storage.catchups.read(self, offset, max_bytes, patience, partial(self._cursor, offset))
            if found and found[0].base > offset and offset < await self._start.find():
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is below the log start {self._start.offset}")
            if self._tail is tail:  # else it is closed
                tail.older.keep(offset, found)
        return found

    def _remembered(self, tail: Tail, offset: int, max_bytes: int) -> list[Batch] | None:
        """What is in memory from `offset` on; None where nothing is, or where a reader is that may as well go on."""
        found = tail.slice(offset, max_bytes)
        if found is not None:
            self._storage.catchups.passed(self, offset)
        elif self._start.known_within(_MEMORY_IS_FRESH) and not self._storage.catchups.covers(self, offset):
            found = tail.older.slice(offset, max_bytes) or None
        if found is not None:
            self._storage.metrics.cache_hits.inc()
        return found

    async def _cursor(self, offset: int) -> Cursor:
        batch = await self._search.offset(offset)
        if batch is None:
            before, _ = self._index.around(offset)
            position = EARLIEST if before is None else Position(*before)
        else:
            position = batch.position
            if batch.is_chunk:
                position = await self._search.chunks_start(position)
        return Cursor(await self._reader(position), offset, self._storage.maker())

    async def _reader(self, position: Position) -> Reader:
        settings = self._storage.settings.storage
        return await self._storage.client.reader(
            self.topic, position, permits=settings.reader_queue_messages, max_buffer=settings.reader_buffer_bytes
        )

    async def _open_tail(self) -> Tail:
        self._used_at = _now()
        if self._tail is not None and self._tail.live:
            return self._tail
        async with self._opening:
            if self._tail is not None:
                if self._tail.live:
                    return self._tail
                await self._close_tail()
            await self._load()
            last = await self._search.last_position()
            reader = await self._reader(last)
            tail = Tail(reader, self.end, self._storage.cache, self._storage.maker(), self._tail_failed)
            tail.reached = max(last.before, EARLIEST)
            self._tail = tail
        await self._reach(tail, last)
        return tail

    async def _close_tail(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            await tail.close()

    def _watch_the_tail(self) -> None:
        """Others write here as well: entries met at the tail tell their offsets, none has to be read back."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._try_open_tail())

    async def _try_open_tail(self) -> None:
        with suppress(BridgeError, TimeoutError):  # it only saves work
            await self._open_tail()

    def _tail_failed(self, error: BridgeError) -> None:
        if isinstance(error, Recreated) or (isinstance(error, PulsarError) and not error.retriable):
            self._gone()

    async def _reach_end(self) -> None:
        tail = await self._open_tail()
        await self._reach(tail, await tail.last_stored())

    async def _reach(self, tail: Tail, position: Position) -> None:
        """Wait until the tail has met the entry at `position`."""
        markers = self._search.markers
        async with asyncio.timeout(self._patience):
            while tail.live and tail.reached < position and not markers.known(tail.reached.after, position):
                grown: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                tail.notify(grown)
                done, _ = await asyncio.wait((grown,), timeout=_SILENCE)
                if not done:
                    await markers.only(tail.reached.after, position)
        if not tail.live:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the reader at the tail ended")

    async def _load(self) -> None:
        """Read the last entry: it anchors the offsets to come. Called with `_opening` held."""
        if self._loaded:
            return
        last = await self._search.last_position()
        batch = None if last == EARLIEST else await self._search.last(last)
        if batch is None:  # all that was before is deleted
            self.end.advance(max(await self._search.offset_of_empty(), self._start.offset))
        else:
            self.end.anchor.observe(batch.position.ledger, batch.position.entry, batch.next)
            self.end.newest_timestamp = max(self.end.newest_timestamp, batch.newest_timestamp())
            self.end.advance(batch.next)
        self._loaded = True


def _now() -> float:
    return asyncio.get_running_loop().time()
