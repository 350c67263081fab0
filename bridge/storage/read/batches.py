"""Entries that were read from Pulsar, each with its offsets and, once a client asks for it, as a Kafka batch."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from bridge import codec
from bridge.codec import CONTROL, NO_PRODUCER, NO_TIMESTAMP, TRANSACTIONAL, Rebuild, Record, timestamp_of
from bridge.errors import CorruptEntry
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import Entry, Position
from bridge.runtime.futures import TURN, loop_time, own_task, yield_turn
from bridge.runtime.threads import WorkerThreads
from bridge.storage import entries
from bridge.storage.mark_signer import MarkSigner
from bridge.storage.offsets import span
from bridge.storage.read.chunks import ChunkAssembler, ChunkMemory, is_chunk, is_last_chunk
from bridge.storage.visibility import Transaction
from bridge.telemetry import log

_log = log.get(__name__)
_passed_over = log.Flood()

# Entries above these are converted in a thread: uncompressed bytes of compressed entries, bytes of others, messages.
_SLOW_COMPRESSED_BYTES, _SLOW_BYTES = 128 * 1024, 256 * 1024
_MAX_NAME = 100  # of a producer, in the log
_COMMIT_KEY, _COMMIT_VALUE = bytes((0, 0, 0, 1)), bytes(6)
"""Versions 0 of a control record's key and of the end of a transaction (KIP-98)."""
_SLOW_MESSAGES = 10_000 if codec.TWIN == "native" else 1000
_CHUNK_BYTES = 1024
"""About what a chunk takes in memory at least whose bytes are elsewhere."""

EarlierChunks: TypeAlias = Callable[[Entry], Awaitable[Sequence[Entry]]]
"""Reads the chunks before the last one of a message, in their order."""


class ForeignEntries:
    """Judges what of a partition's entries cannot be read.

    Any client that may produce can store what no client can decode. Pulsar's clients go past it, and so do Kafka's:
    they would stop there for good. What the bridge has signed is never left out: an error stops who reads it.
    """

    def __init__(self, topic: str, signer: MarkSigner, count: Callable[[], None]) -> None:
        """`count` is called for each entry that cannot be read."""
        self._topic = topic
        self._signer = signer
        self._count = count

    def is_own_chunk(self, metadata: MessageMetadata) -> bool:
        """Whether the bridge has written a chunk of a message."""
        return self._signer.has_signed(metadata) and entries.is_marked_chunk(metadata)

    def has_written(self, metadata: MessageMetadata) -> bool:
        """Whether it is certain that no node of the bridge has written an entry with a mark.

        A transaction that it names is not its own: it would stop readers forever if there never was one.
        """
        return self._signer.knows_all_nodes and not self._signer.has_signed(metadata)

    def pass_over(self, entry: Entry, reason: str) -> bool:
        """Whether this entry is left out, since a stranger wrote it."""
        if self._signer.has_signed(entry.metadata):
            self._count()
            return False
        self.note(entry, reason)
        return True

    def note(self, entry: Entry, reason: str) -> None:
        """Log and count an entry that is left out."""
        self._count()
        more = _passed_over.next_line()
        if more is None:
            return
        producer = entry.metadata.producer_name[:_MAX_NAME]
        where = {"topic": self._topic, "position": entry.position, "producer": producer}
        _log.warning("! entry passed over", extra={**where, "reason": reason, **more})


class Batch:
    """One entry of a partition; converted to Kafka batches once, however many consumers read it."""

    __slots__ = (
        "_compress",
        "_converting",
        "_entry",
        "_fault",
        "_kafka",
        "_limit",
        "_payload",
        "_strangers",
        "base",
        "certain_from",
        "next",
        "position",
        "published_at",
        "size",
        "transaction",
    )

    def __init__(
        self,
        entry: Entry,
        payload: memoryview | None,
        limit: int,
        *,
        compress: bool = False,
        strangers: ForeignEntries | None = None,
        fault: str = "",
    ) -> None:
        """`payload`: the entry's, or that of a whole message; None for a chunk without it. `fault`: why it is None,
        where it should not be."""
        if entry.index is None:
            raise CorruptEntry(f"the entry at {entry.position} has no index: the broker does not expose it")
        self.base, self.next = span(entry.index, entries.message_count(entry.metadata))
        self.certain_from = self.base if self.base == 0 else self.next - 1
        """From here to `next` the offsets are its own, whatever its writer says of how many it takes: the broker counts
        the messages of the command, and not those that the entry's metadata claim."""
        self.position: Position = entry.position
        self.size = max(entry.size, len(payload or b""))  # about what it occupies in memory
        if not compress and entry.metadata.compression:
            self.size = max(self.size, min(entry.metadata.uncompressed_size, limit))
        self.published_at = (
            entry.broker_timestamp or entry.metadata.publish_time
        )  # ms, by the broker's clock if the entry has it
        self.transaction = entries.transaction_of(entry.metadata)
        """Whose outcome decides whether readers of committed records get it."""
        if self.transaction is not None and strangers is not None and strangers.has_written(entry.metadata):
            self.transaction = None
        self._entry: Entry | None = entry
        self._payload = payload
        self._kafka: bytes | None = None
        self._limit = limit
        self._compress = compress
        self._strangers = strangers
        self._fault = fault
        self._converting: asyncio.Task[None] | None = None
        if self.base < 0:
            self.follow(self.certain_from)

    @property
    def is_chunk(self) -> bool:
        """Whether it is a chunk of a message, without the others."""
        return self._entry is not None and self._payload is None

    def kafka(self) -> bytes:
        """The entry as Kafka batches; empty if it has no record of its own (a chunk but the last, or one of a message
        whose first chunks Pulsar has deleted)."""
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
        if metadata.compression and metadata.uncompressed_size > _SLOW_COMPRESSED_BYTES:
            return True  # decompression stops at the size that its writer has stated
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
        if entry is None or (payload is None and not self._fault):
            return b""
        try:
            if payload is None:
                raise CorruptEntry(self._fault)
            return entries.to_kafka(entry, self.base, payload, self._limit, compress=self._compress)
        except CorruptEntry as error:
            if self._strangers is not None and self._strangers.pass_over(entry, str(error)):
                return self._without_records()
            raise CorruptEntry(f"the entry at {self.position} cannot be read: {error}") from error

    def follow(self, offset: int) -> None:
        """The entry before this one ends at `offset`. One that claims more offsets than it takes has no record."""
        if self.base < offset < self.next:
            if self._entry is not None and self._strangers is not None:
                self._strangers.note(
                    self._entry, f"it claims {self.next - self.base} messages, not {self.next - offset}"
                )
            self.base = offset
            self._set_kafka(self._without_records())
        if offset <= self.base:
            self.certain_from = self.base

    def _without_records(self) -> bytes:
        """A batch whose records are all gone, as Kafka's compaction leaves them: consumers go on behind it."""
        return codec.build_batch([], Rebuild(self.base, self.next - self.base, NO_TIMESTAMP))

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
            metadata = self._entry.metadata
            return timestamp_of(metadata.event_time, Rebuild(self.base, 1, metadata.publish_time))
        await self.convert(threads)
        return entries.summary(self.kafka())[0] if self.kafka() else NO_TIMESTAMP


class ControlBatch:
    """What stands for entries without records behind which nothing follows, of aborted transactions and chunks: a
    commit over all their offsets.

    To a client it says nothing but that there is nothing up to its last offset, whatever was aborted there.
    """

    __slots__ = ("_kafka", "base", "next", "published_at", "transaction")

    is_converted = True
    is_slow = False

    base: int
    next: int
    transaction: Transaction | None
    published_at: int

    def __init__(self, first: "Batch | ControlBatch", last: "Batch | ControlBatch") -> None:
        """From the first entry that is left out to the last."""
        self.base, self.next = first.base, last.next
        self.transaction, self.published_at = last.transaction, last.published_at
        producer = NO_PRODUCER if last.transaction is None else (*last.transaction.identity[:2], -1)
        record = Record(self.next - 1, last.published_at, _COMMIT_KEY, _COMMIT_VALUE, ())
        rebuild = Rebuild(
            self.base, self.next - self.base, NO_TIMESTAMP, True, False, producer, TRANSACTIONAL | CONTROL
        )
        self._kafka = codec.build_batch([record], rebuild)

    def kafka(self) -> bytes:
        """As Kafka has it."""
        return self._kafka

    async def convert(self, threads: WorkerThreads) -> None:
        """There is nothing to do."""


class BatchMaker:
    """Makes the batches of one reader. The record of a chunked message is with its last chunk, and needs the others."""

    def __init__(
        self,
        limit: int,
        *,
        compress: bool = False,
        strangers: ForeignEntries | None = None,
        memory: ChunkMemory | None = None,
    ) -> None:
        """`strangers`: judges entries that cannot be read; without it all are errors. `memory`: for chunks, of all
        readers."""
        self._limit = limit
        self._compress = compress
        self._strangers = strangers
        self.next = -1
        """Where the last entry that it made ended; −1 before the first."""
        self._chunks = (
            ChunkAssembler(limit, memory=memory)
            if strangers is None
            else ChunkAssembler(limit, strangers.is_own_chunk, memory)
        )

    def make_single(self, entry: Entry) -> Batch | None:
        """The batch of an entry that was read by itself: a chunk has no record then, but it has its offsets; None of an
        entry without offsets."""
        if self._has_no_offset(entry):
            return None
        return self._chunk(entry, None) if is_chunk(entry.metadata) else self._batch(entry, entry.payload)

    def _has_no_offset(self, entry: Entry) -> bool:
        """Whether the broker has counted no message for a stranger's entry: the command that brought it named none, and
        such entries get no index (`ManagedLedgerInterceptorImpl.beforeAddEntry`)."""
        return entry.index is None and self._strangers is not None and self._strangers.pass_over(entry, "no index")

    def lacks_earlier(self, entry: Entry) -> bool:
        """Whether the reader's next entry is the last chunk of a message of which others were not read:
        `read_earlier` has to come first."""
        return entry.index is not None and self._chunks.lacks_earlier(entry)

    async def read_earlier(self, entry: Entry, read: EarlierChunks) -> None:
        """Take in the chunks before this last one, as far as they are still there."""
        async with self._chunks.memory.reads:
            self._chunks.looked_back(entry, await self._earlier(entry, read))

    async def _earlier(self, entry: Entry, read: EarlierChunks) -> Sequence[Entry]:
        """The chunks before a last one; none where a stranger's are not found: no reader would get past it."""
        try:
            return await read(entry)
        except CorruptEntry as error:
            if self._strangers is None or self._strangers.is_own_chunk(entry.metadata):
                raise
            self._strangers.note(entry, str(error))
            return ()

    def make(self, entry: Entry) -> Batch | None:
        """The batch of the reader's next entry; a chunk has a record if it is the last, and all before it are read.
        None of an entry without offsets."""
        if self._has_no_offset(entry):
            return None
        if is_chunk(entry.metadata):
            batch = self._chunk(entry, self._chunks.feed(entry))
        else:
            batch = self._batch(entry, entry.payload)
        if self.next >= 0:
            batch.follow(self.next)
        self.next = batch.next
        return batch

    def _chunk(self, entry: Entry, payload: memoryview | None) -> Batch:
        """Its bytes are not kept beside those of the whole message; what its metadata has is."""
        size = max(entry.size - len(entry.payload), _CHUNK_BYTES)
        light = replace(entry, payload=memoryview(b""), size=size)
        total = entry.metadata.total_chunk_msg_size
        is_above = payload is None and is_last_chunk(entry.metadata) and total > self._limit
        fault = f"a message of {total} bytes in chunks, {self._limit} are the most" if is_above else ""
        return self._batch(light, payload, fault)

    def _batch(self, entry: Entry, payload: memoryview | None, fault: str = "") -> Batch:
        return Batch(entry, payload, self._limit, compress=self._compress, strangers=self._strangers, fault=fault)


async def kafka_batches(
    batches: Sequence[Batch | ControlBatch], max_bytes: int, threads: WorkerThreads, until: float
) -> list[bytes]:
    """The Kafka batches up to `max_bytes`, but at least one, unless there are none.

    It waits, before anything else is begun, where a conversion needs a thread, and after `until` (loop time), so that
    other requests get their turn. It ends before an entry that cannot be read; where no record stands before it, it
    waits, too, and raises CorruptEntry.
    For chunks behind which nothing follows stands what stands for aborted transactions: who reads goes on behind them,
    and is at the end where the log is.
    """
    found: list[bytes] = []
    silent: list[Batch | ControlBatch] = []
    size = 0
    for batch in batches:
        try:
            if not batch.is_converted and (batch.is_slow or loop_time() > until):
                await own_task()
                await batch.convert(threads)
                until = loop_time() + TURN
            data = batch.kafka()
        except CorruptEntry:
            if found:
                break
            await own_task()
            raise
        if not data:
            silent.append(batch)
            continue
        size += len(data)
        if not found or size <= max_bytes:
            found.append(data)
            silent = []
        if size > max_bytes:
            return found
    if silent:
        found.append(ControlBatch(silent[0], silent[-1]).kafka())
    return found
