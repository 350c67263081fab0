"""A produce request's records on their way to the logs of their partitions: one append for each partition.

Entries are prepared on the event loop where that is quick, else in a thread. Entries that are much larger than the
records received need conversion memory, which others hold until Pulsar has stored theirs. So that no two requests wait
for each other, one that finds too little of it releases what it holds, and waits for all that it needs at once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import Buffer
from bridge.runtime.futures import gathered, retrieve_exception
from bridge.runtime.threads import WorkerThreads
from bridge.storage.append.conversion_memory import MAX_EXCESS_BYTES, ConversionMemory
from bridge.storage.append.pace import Pace
from bridge.storage.append.plain import prepare_plain
from bridge.storage.append.preparation import (
    NeedsThread,
    Plan,
    PreparedEntry,
    excess_bytes,
    prepare_records,
    with_reservations,
)
from bridge.storage.append.writers import ProducerSequence
from bridge.storage.partition import PartitionLog
from bridge.storage.visibility import Transaction


@dataclass(slots=True)
class PartitionAppend:
    """The records for one partition: their entries, then their offsets, or why there are none."""

    topic: str
    index: int
    records: Buffer | None
    error: KafkaError | None = None
    transaction: Transaction | None = None
    """Whose the batches are that say that they are of one."""
    log: PartitionLog | None = None
    entries: list[PreparedEntry] = field(default_factory=list)
    """Prepared and not sent yet."""
    excess_bytes: int = 0
    """The conversion memory that the entries need, whether it is reserved yet or not."""
    offsets: list[asyncio.Future[int]] = field(default_factory=list)
    record_count: int = 0
    size: int = 0
    """Of what was sent: its records, and the bytes received for them."""

    def first_sequences(self) -> Collection[ProducerSequence]:
        """Where the batches of each producer begin."""
        if len(self.entries) == 1:
            return (self.entries[0].producer,)
        first = {entry.producer[0]: entry.producer for entry in reversed(self.entries)}
        return first.values()

    @property
    def has_large(self) -> bool:
        """Whether a record among its own has to be stored in chunks."""
        return any(entry.is_large for entry in self.entries)

    async def store_chunks(self) -> None:
        """Store the large records but for their last chunks, which take their places with all else; raises KafkaError.

        So the records of a batch have consecutive offsets, whatever their sizes: no chunk of one is between them.
        """
        first = self.entries[0]
        for number, entry in enumerate(self.entries):
            if entry.is_large and self.log is not None:
                self.entries[number] = await self.log.store_chunks(entry, first)

    def send(self, pace: Pace | None = None) -> None:
        """Give the entries their places in the log, unless there is an error; nothing of them is held afterwards."""
        if self.error is None and self.log is not None:
            try:
                self.offsets = self.log.append_all(self.entries, pace)
                for offset in self.offsets[1:]:  # of several that fail the first alone is told
                    offset.add_done_callback(retrieve_exception)
                self.record_count = sum([entry.record_count for entry in self.entries])
                self.size = len(self.records or b"")
                self.entries = []
            except KafkaError as error:
                self.error = error.bare()
        if self.error is not None:
            self.release()

    def count(self) -> None:
        """It is stored: count it for its topic."""
        if self.log is not None:
            traffic = self.log.traffic
            traffic.records_in += self.record_count
            traffic.bytes_in += self.size

    def failure(self) -> KafkaError | None:
        """Why the records have no offsets, if they have none; what has no outcome yet has none in time."""
        if self.error is not None:
            return self.error
        for offset in self.offsets:
            if offset.cancelled() or not offset.done():
                return not_in_time(self.log)
            error = offset.exception()
            if error is not None:
                return as_kafka_error(error)
        return None

    def release(self) -> None:
        """Drop the entries with the memory that is reserved for them."""
        for entry in self.entries:
            entry.release()
        self.entries = []


def not_in_time(log: PartitionLog | None) -> KafkaError:
    """What a client is told whose batch has no outcome yet."""
    why = None if log is None else log.last_error
    text = "Pulsar has not acknowledged the batch in time" + ("" if why is None else f": {why}")
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)


def as_kafka_error(error: BaseException) -> KafkaError:
    """What a client is told of this failure of an append."""
    return error if isinstance(error, KafkaError) else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))


async def for_each(step: Callable[[PartitionAppend], Awaitable[None]], appends: Collection[PartitionAppend]) -> None:
    """Run a step for all appends without an error, side by side; what it raises becomes the append's error."""

    async def run(append: PartitionAppend) -> None:
        try:
            await step(append)
        except TimeoutError:
            append.error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Pulsar takes no more for this partition at present")
        except KafkaError as error:
            append.error = error.bare()

    await gathered(run(append) for append in appends if append.error is None)


class RequestPreparation:
    """Prepares the entries of one request."""

    __slots__ = ("_allow_zstd", "_appends", "_deadline", "_excess", "_memory", "_memory_acquired", "_now", "_threads")

    def __init__(
        self,
        appends: Collection[PartitionAppend],
        threads: WorkerThreads,
        memory: ConversionMemory,
        deadline: float,
        *,
        allow_zstd: bool,
    ) -> None:
        """`appends`: all of the request; `deadline`: the loop time at which waiting ends."""
        self._appends = appends
        self._threads = threads
        self._memory = memory
        self._deadline = deadline
        self._allow_zstd = allow_zstd
        self._now = time.time_ns() // 1_000_000
        self._memory_acquired = False
        self._excess = 0  # of all appends

    def prepare_plain(self, append: PartitionAppend, plan: Plan) -> bool:
        """Prepare an append that is one plain batch; False where it may be anything else."""
        records = append.records
        if not isinstance(records, memoryview):
            return False
        entry = prepare_plain(records, plan, self._now, append.transaction)
        if entry is None or excess_bytes([entry], len(records)):
            return False
        append.entries = [entry]
        return True

    def prepare_on_loop(self, append: PartitionAppend, plan: Plan, *, decompress: bool) -> bool:
        """Prepare one append's entries on the event loop; False where that takes long, or memory is not free.

        `decompress`: whether the event loop has time for it.
        """
        records = memoryview(append.records or b"")
        try:
            entries = prepare_records(
                records, plan, self._now, self._allow_zstd, append.transaction, on_loop=True, decompress=decompress
            )
        except NeedsThread:
            return False
        if entries[0].is_large or (len(entries) > 1 and any(one.is_large for one in entries)):
            return False  # more has to be waited for
        return self._take(append, entries, len(records))

    async def prepare(self, slow: Collection[PartitionAppend]) -> None:
        """Prepare the others, in threads: afterwards each has its entries, or its error."""
        await for_each(self._prepare_in_thread, [append for append in slow if not append.entries])
        large = [append for append in self._appends if append.excess_bytes and append.error is None]
        if not all(append.entries for append in large):
            await self._prepare_with_memory(large)

    async def _prepare_in_thread(self, append: PartitionAppend) -> None:
        assert append.log is not None  # noqa: S101 — without a log there is an error
        records = memoryview(append.records or b"")
        async with asyncio.timeout_at(self._deadline):
            entries = await self._threads.run(
                prepare_records, records, append.log.plan, self._now, self._allow_zstd, append.transaction
            )
        self._take(append, entries, len(records))

    def _take(self, append: PartitionAppend, entries: list[PreparedEntry], received: int) -> bool:
        """Give an append its entries, with their memory; False where it is not free."""
        excess, acquired = excess_bytes(entries, received), append.excess_bytes
        if excess or acquired:
            append.excess_bytes = excess
            self._excess += excess - acquired
            if self._memory_acquired:
                self._memory.release(acquired - excess)  # the topic's configs may have changed meanwhile
            elif self._excess > MAX_EXCESS_BYTES:
                self._excess -= excess
                append.excess_bytes = 0
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "the request's records take too much by compression.type")
            elif not self._memory.try_acquire(excess):
                return False
            entries = with_reservations(entries, received, self._memory)
        append.entries = entries
        return True

    async def _prepare_with_memory(self, appends: list[PartitionAppend]) -> None:
        """Wait for the memory of all of them, holding none, and prepare them again."""
        for append in appends:
            append.release()
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._memory.acquire(sum(append.excess_bytes for append in appends))
        except TimeoutError:
            for append in appends:
                append.error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Pulsar does not store what came before")
            return
        self._memory_acquired = True
        await for_each(self._prepare_in_thread, appends)
        for append in appends:
            if not append.entries:
                self._memory.release(append.excess_bytes)
