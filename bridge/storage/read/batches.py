"""Entries that were read from Pulsar, each with its offsets and, once a client asks for it, as a Kafka batch."""

import asyncio

from bridge import codec
from bridge.codec import NO_TIMESTAMP
from bridge.errors import CorruptEntry
from bridge.futures import TURN, yield_turn
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import Entry, Position
from bridge.storage import entries
from bridge.storage.offsets import span
from bridge.storage.read.chunks import ChunkAssembler, is_chunk
from bridge.worker_threads import WorkerThreads

# Entries above these are converted in a thread: uncompressed bytes of compressed entries, bytes of others, messages.
_SLOW_COMPRESSED_BYTES, _SLOW_BYTES = 128 * 1024, 256 * 1024
_SLOW_MESSAGES = 10_000 if codec.TWIN == "native" else 1000


class Batch:
    """One entry of a partition; converted to Kafka batches once, however many consumers read it."""

    __slots__ = (
        "_compress",
        "_converting",
        "_entry",
        "_kafka",
        "_limit",
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
        self.size = entry.size if payload is None else max(entry.size, len(payload))  # about what it occupies in memory
        if not compress and entry.metadata.compression:
            self.size = max(self.size, min(entry.metadata.uncompressed_size, limit))
        self.published_at = (
            entry.broker_timestamp or entry.metadata.publish_time
        )  # ms, by the broker's clock if the entry has it
        self._entry: Entry | None = entry
        self._payload = payload
        self._kafka: bytes | None = None
        self._limit = limit
        self._compress = compress
        self._converting: asyncio.Task[None] | None = None

    @property
    def is_chunk(self) -> bool:
        """Whether it is a chunk of a message, read without the others."""
        return self._entry is not None and self._payload is None

    def kafka(self) -> bytes:
        """The entry as Kafka batches; empty if it has no record of its own (a chunk but the last)."""
        if self._kafka is None:
            self._set_kafka(self._to_kafka())
        return self._kafka or b""

    @property
    def is_converted(self) -> bool:
        """Whether `kafka` has nothing left to do."""
        return self._entry is None or self._payload is None

    @property
    def is_slow(self) -> bool:
        """Whether `kafka` would take long; `convert` does not block the event loop."""
        if self._entry is None or self._payload is None:
            return False
        metadata, payload = self._entry.metadata, self._payload
        if entries.is_kafka(metadata):
            return not entries.is_one_batch(payload)
        if entries.message_count(metadata) > _SLOW_MESSAGES:
            return True
        if metadata.compression:  # decompression stops at the size that its writer has stated
            return metadata.uncompressed_size > _SLOW_COMPRESSED_BYTES
        return len(payload) > _SLOW_BYTES

    async def convert(self, threads: WorkerThreads) -> None:
        """Convert the entry, in a thread if that takes long; once, however many callers wait for it."""
        if not self.is_slow:
            await yield_turn()
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
        """Replace the entry by its Kafka batches."""
        if self._entry is not None:
            self._kafka = kafka
            self._entry = self._payload = None

    @property
    def metadata(self) -> MessageMetadata | None:
        """As its writer set it; None when it is converted."""
        return None if self._entry is None else self._entry.metadata

    async def newest(self, threads: WorkerThreads) -> int:
        """The newest of its records' timestamps."""
        if self._entry is not None and self._payload is None:  # a single chunk
            return self._entry.metadata.event_time or self._entry.metadata.publish_time
        await self.convert(threads)
        return entries.summary(self.kafka())[0] if self.kafka() else NO_TIMESTAMP


class BatchMaker:
    """Makes the batches of one reader; a chunk needs those before it."""

    def __init__(self, limit: int, *, compress: bool = False) -> None:
        self._limit = limit
        self._compress = compress
        self._chunks = ChunkAssembler(limit)

    def make_single(self, entry: Entry) -> Batch:
        """The batch of an entry that was read by itself: a chunk has no record then, but it has its offsets."""
        payload = None if is_chunk(entry.metadata) else entry.payload
        return Batch(entry, payload, self._limit, compress=self._compress)

    def make(self, entry: Entry) -> Batch | None:
        """The entry's batch; None for a chunk of a message that begins before this reader does."""
        if not is_chunk(entry.metadata):
            return Batch(entry, entry.payload, self._limit, compress=self._compress)
        if not self._chunks.has_earlier_chunks(entry):
            return None
        return Batch(entry, self._chunks.feed(entry), self._limit, compress=self._compress)


def kafka_batches(batches: list[Batch], max_bytes: int) -> list[bytes]:
    """The Kafka batches up to `max_bytes`, but at least one."""
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
    """As `kafka_batches`; None if that needs a thread, or takes longer than until `deadline` (loop time)."""
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
    """As `kafka_batches`; slow conversions run in threads, and other requests get their turn between batches."""
    size = 0
    time = asyncio.get_running_loop().time
    until = time() + TURN
    for batch in batches:
        if not batch.is_converted and (batch.is_slow or time() > until):
            await batch.convert(threads)
            until = time() + TURN
        size += len(batch.kafka())
        if size > max_bytes:
            break
    return kafka_batches(batches, max_bytes)
