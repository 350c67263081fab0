"""Entries as a reader meets them, each with its offsets and, when somebody asks, as a Kafka batch."""

import asyncio

from bridge import codec
from bridge.codec import NO_TIMESTAMP
from bridge.errors import CorruptEntry
from bridge.futures import give_way
from bridge.pulsar.types import Entry, Position
from bridge.storage import entries
from bridge.storage.entries import NO_PROMISE, TimeMark
from bridge.storage.offsets import span
from bridge.storage.read.chunks import ChunkAssembler, is_chunk
from bridge.worker_threads import WorkerThreads

# What a thread turns over; bytes uncompressed, of compressed data and of other.
_SLOW_COMPRESSED_BYTES, _SLOW_BYTES = 128 * 1024, 256 * 1024
_SLOW_MESSAGES = 10_000 if codec.TWIN == "native" else 1000


class Batch:
    """One entry of a partition; turned into a Kafka batch once, however many consumers read it."""

    __slots__ = (
        "_compress",
        "_converting",
        "_entry",
        "_kafka",
        "_limit",
        "_mark",
        "_payload",
        "base",
        "next",
        "position",
        "published_at",
        "size",
    )

    def __init__(self, entry: Entry, payload: bytes | memoryview | None, limit: int, *, compress: bool = False) -> None:
        if entry.index is None:
            raise CorruptEntry(f"the entry at {entry.position} has no index: the broker does not expose it")
        self.base, self.next = span(entry.index, entries.message_count(entry.metadata))
        self.position: Position = entry.position
        self.size = entry.size if payload is None else max(entry.size, len(payload))  # about what it takes in memory
        if not compress and entry.metadata.compression:
            self.size = max(self.size, min(entry.metadata.uncompressed_size, limit))
        self.published_at = entry.broker_timestamp or entry.metadata.publish_time  # ms, of Pulsar's clock if it tells
        self._entry: Entry | None = entry
        self._payload = payload
        self._kafka: bytes | None = None
        self._limit = limit
        self._mark: TimeMark | None = None
        self._compress = compress
        self._converting: asyncio.Task[None] | None = None

    @property
    def is_chunk(self) -> bool:
        """Whether it is a piece of a chunked message, met alone."""
        return self._entry is not None and self._payload is None

    def kafka(self) -> bytes:
        """The entry as Kafka batches; empty where it holds no record of its own (a chunk but the last)."""
        if self._kafka is None:
            self._set_kafka(self._to_kafka())
        return self._kafka or b""

    @property
    def is_converted(self) -> bool:
        """Whether `kafka` has nothing to do."""
        return self._entry is None or self._payload is None

    @property
    def is_slow(self) -> bool:
        """Whether `kafka` would take long: `convert` lets others go on meanwhile."""
        if self._entry is None or self._payload is None:
            return False
        metadata, payload = self._entry.metadata, self._payload
        if entries.is_kafka(metadata):
            return not entries.is_one_batch(payload)
        if entries.message_count(metadata) > _SLOW_MESSAGES:
            return True
        if metadata.compression:  # no more is opened than its writer has said
            return metadata.uncompressed_size > _SLOW_COMPRESSED_BYTES
        return len(payload) > _SLOW_BYTES

    async def convert(self, threads: WorkerThreads) -> None:
        """Have the Kafka batches made, in a thread where that takes long; once, however many wait for them."""
        if not self.is_slow:
            await give_way()
            self.kafka()
            return
        if self._converting is None:
            self._converting = asyncio.get_running_loop().create_task(self._convert(threads))
        await asyncio.shield(self._converting)

    async def _convert(self, threads: WorkerThreads) -> None:
        self._set_kafka(await threads.run(self._to_kafka))

    def _to_kafka(self) -> bytes:
        entry, payload = self._entry, self._payload
        if entry is None or payload is None:
            return b""
        try:
            return entries.to_kafka(entry, self.base, payload, self._limit, compress=self._compress)
        except CorruptEntry as error:
            raise CorruptEntry(f"the entry at {self.position} cannot be read: {error}") from error

    def _set_kafka(self, kafka: bytes) -> None:
        """Let go of the entry for what became of it."""
        if self._entry is not None:
            self._kafka = kafka
            self._mark = entries.time_mark(self._entry.metadata)
            self._entry = self._payload = None

    async def time_mark(self, threads: WorkerThreads) -> TimeMark:
        """What is known of the timestamps before the end of this entry, by itself alone."""
        if self._mark is None and self._entry is not None:
            metadata = self._entry.metadata
            self._mark = entries.time_mark(metadata)
            if self._payload is None:  # a chunk, alone
                return TimeMark(metadata.event_time or metadata.publish_time, NO_PROMISE)
        if self._mark is None:
            await self.convert(threads)
            newest = entries.summary(self.kafka())[0] if self.kafka() else NO_TIMESTAMP
            self._mark = TimeMark(newest, NO_PROMISE)
        return self._mark


class BatchMaker:
    """Makes the batches of one reader; chunks need those before them."""

    def __init__(self, limit: int, *, compress: bool = False) -> None:
        self._limit = limit
        self._compress = compress
        self._chunks = ChunkAssembler(limit)

    def make_single(self, entry: Entry) -> Batch:
        """An entry met by itself: a chunk has no record then, and still tells its offsets."""
        payload = None if is_chunk(entry.metadata) else entry.payload
        return Batch(entry, payload, self._limit, compress=self._compress)

    def make(self, entry: Entry) -> Batch | None:
        """The entry's batch; None for a chunk whose beginning lies before this reader's."""
        if not is_chunk(entry.metadata):
            return Batch(entry, entry.payload, self._limit, compress=self._compress)
        if not self._chunks.has_earlier_chunks(entry):
            return None
        return Batch(entry, self._chunks.feed(entry), self._limit, compress=self._compress)


def kafka_batches(batches: list[Batch], max_bytes: int) -> list[bytes]:
    """The batches' bytes up to `max_bytes`, but of one at least."""
    found: list[bytes] = []
    size = 0
    for batch in batches:
        data = batch.kafka()
        size += len(data)
        if found and size > max_bytes:
            break
        if data:
            found.append(data)
    return found


def kafka_batches_nowait(batches: list[Batch], max_bytes: int, deadline: float) -> list[bytes] | None:
    """As `kafka_batches`, if all of that can be had at once: without a thread, and by `deadline` (loop time)."""
    time = asyncio.get_running_loop().time
    size = 0
    for batch in batches:
        if not batch.is_converted and (batch.is_slow or time() > deadline):
            return None
        size += len(batch.kafka())
        if size > max_bytes:
            break
    return kafka_batches(batches, max_bytes)


async def convert_batches(batches: list[Batch], max_bytes: int, threads: WorkerThreads) -> list[bytes]:
    """As `kafka_batches`; what takes long is done in threads, and after every few batches others get their turn."""
    size = 0
    for batch in batches:
        if not batch.is_converted:
            await batch.convert(threads)
        size += len(batch.kafka())
        if size > max_bytes:
            break
    return kafka_batches(batches, max_bytes)
