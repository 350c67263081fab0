"""Appends batches to one partition, and learns the offset of each from the position in its receipt.

Batches of idempotent producers go through writers of their own; all others through one producer of this process.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from bridge.codec import NO_PRODUCER
from bridge.errors import KafkaError
from bridge.futures import following
from bridge.kafka.error_codes import ErrorCode
from bridge.metrics import StorageMetrics
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import EARLIEST, ClientClosed, Entry, MessageTooLarge, Position, PulsarError, Receipt
from bridge.storage import entries
from bridge.storage.faults import translate
from bridge.storage.log_end import LogEnd
from bridge.storage.offsets import span
from bridge.storage.repeated import NotStoredYet, Stored
from bridge.storage.sealing import METADATA_BYTES, Sealed
from bridge.storage.sequences import Place
from bridge.storage.writers import Writer, Writers, failed

_READ_BACK_TRIES = 3
_CROWDED = 0.5  # seconds between two entries read back, below which a reader at the tail is the cheaper way


@dataclass(slots=True)
class _Slot:
    """One append between its receipt and its offset."""

    count: int
    producer: str  # the Pulsar producer's name
    after: Position  # the last position known when it was sent
    offset: asyncio.Future[int]
    given: asyncio.Future[int]  # the same to the client; another where what the client gives up must go on
    before: asyncio.Future[int] | None  # the client's answer to the batch before, where it has none yet
    receipt: Receipt | None = field(default=None)


class Appender:
    """One partition's producer. Offsets come out in the order of the appends."""

    def __init__(
        self,
        topic: str,
        name: str,
        client: PulsarClient,
        end: LogEnd,
        stored: Stored,
        metrics: StorageMetrics,
        crowded: Callable[[], None],
        recreated: Callable[[], None],
    ) -> None:
        """`crowded` is called when others write here so much that a reader at the tail costs less than reading back;
        `recreated` when the offsets show that this is another topic of the same name."""
        self._topic = topic
        self._name = name
        self._client = client
        self._end = end
        self._stored = stored
        self._metrics = metrics
        self._crowded = crowded
        self._recreated = recreated
        self._writers = Writers(topic, client)
        self._last = (EARLIEST, 0)  # the position of the last append, and the offset after it
        self._under_way: set[asyncio.Future[int]] = set()
        self._read_back_at = float("-inf")
        self._producer: Producer | None = None
        self._unresolved: deque[_Slot] = deque()
        self._resolver: asyncio.Task[None] | None = None

    def append(self, sealed: Sealed) -> asyncio.Future[int]:
        """Send one batch; the future is its base offset once Pulsar holds it, or a KafkaError.

        It takes its place in the partition before this returns. Cancelling the future gives the append up: what was
        not sent is not sent any more, what was may be stored.
        """
        if sealed.producer == NO_PRODUCER:
            return self._send(sealed, self._open(), sealed.metadata(self._newest(sealed))).offset
        producer_id, epoch, sequence = sealed.producer
        writer = self._writers.get(producer_id)
        if writer is None:  # dropped since `prepare`, for its sends failed
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "an earlier batch of this producer has failed")
        batch = writer.sequences.check(epoch, sequence, sealed.record_count)
        before = writer.before(again=batch.repeated)
        if batch.repeated:
            known = writer.offset_of(batch) or asyncio.ensure_future(self._find_repeated(sealed, writer))
            writer.answer = following(known, lambda answer, base: _give(answer, base, before))
            return writer.answer
        metadata = sealed.metadata(self._newest(sealed))
        metadata.sequence_id, metadata.highest_sequence_id = batch.first.to_pulsar(), batch.last.to_pulsar()
        # what a client gives up waiting for is sent all the same: a gap in its sequences would stop it for good
        slot = self._send(sealed, writer.producer, metadata, apart=True, before=before)
        writer.remember(batch, slot.offset)
        slot.offset.add_done_callback(partial(self._drop_failed, producer_id, writer))
        writer.answer = slot.given
        if before is not None and before.done():
            slot.given.cancel()
        return slot.given

    def _newest(self, sealed: Sealed) -> int:
        end = self._end
        end.newest_timestamp = max(end.newest_timestamp, sealed.max_timestamp)
        return end.newest_timestamp

    def _send(
        self,
        sealed: Sealed,
        producer: Producer,
        metadata: MessageMetadata,
        *,
        apart: bool = False,
        before: "asyncio.Future[int] | None" = None,
    ) -> _Slot:
        loop = asyncio.get_running_loop()
        offset: asyncio.Future[int] = loop.create_future()
        given: asyncio.Future[int] = loop.create_future() if apart else offset
        slot = _Slot(sealed.record_count, producer.name, Position(*self._end.anchor.position), offset, given, before)
        self._under_way.add(offset)
        sent = producer.send(metadata, sealed.data, sealed.record_count, partial(self._settle, slot))
        offset.add_done_callback(partial(self._settled, sent))
        return slot

    def _drop_failed(self, producer_id: int, writer: Writer, offset: "asyncio.Future[int]") -> None:
        if offset.cancelled() or offset.exception() is not None:
            self._writers.drop(producer_id, writer)

    def check(self, batches: list[Sealed]) -> None:
        """Raise MESSAGE_TOO_LARGE if an entry is above the limit of this topic's broker, where it is known."""
        limit = self._open().max_message_size
        for sealed in batches:
            size = len(sealed.data) + METADATA_BYTES
            if limit is not None and size > limit:
                text = f"an entry of {size} bytes is above Pulsar's maximum message size of {limit}"
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)

    def is_ready(self, producer_id: int) -> bool:
        """Whether `prepare` has nothing to wait for."""
        producer = self._producer
        if producer_id >= 0:
            writer = self._writers.use(producer_id)
            if writer is None:
                return False
            producer = writer.producer
        return producer is None or producer.has_room

    async def prepare(self, producer_id: int) -> None:
        """Wait until a batch of this producer (−1: none) can be appended: there is room, and its past is known."""
        producer = self._producer
        if producer_id >= 0:
            producer = (await self._writers.open(producer_id)).producer
        if producer is not None:
            await producer.writable()

    def producers(self) -> list[tuple[int, Place]]:
        """The idempotent producers that write here, and the last place of each."""
        return self._writers.last()

    def sweep(self) -> None:
        """Close the writers that nobody uses."""
        self._writers.sweep()

    async def opened(self) -> None:
        """Wait until the broker has taken the producer."""
        await self._open().opened()

    async def close(self, patience: float = 0) -> None:
        """Give the producer back; appends under way fail unless they have their outcome within `patience` seconds."""
        if self._under_way and patience:
            await asyncio.wait(self._under_way, timeout=patience)
        if self._producer is not None:
            await self._producer.close(flush=False)
        await self._writers.close()
        if self._resolver is not None:
            self._resolver.cancel()
        while self._unresolved:
            _fail(self._unresolved.popleft(), ClientClosed("the partition"))

    def _open(self) -> Producer:
        if self._producer is None:
            self._producer = self._client.producer(self._topic, name=self._name, must_exist=True)
        return self._producer

    def _settled(self, sent: "asyncio.Future[Receipt]", offset: "asyncio.Future[int]") -> None:
        self._under_way.discard(offset)
        if offset.cancelled():
            sent.cancel()

    def _settle(self, slot: _Slot, sent: "asyncio.Future[Receipt]") -> None:
        error = sent.exception()
        if error is not None:
            if isinstance(error, PulsarError) and not error.retriable and not isinstance(error, MessageTooLarge):
                self._producer = None  # it is refused for good; the next append asks anew
            _fail(slot, error)
            return
        slot.receipt = receipt = sent.result()
        if not self._unresolved:
            base = self._end.base_now(receipt, slot.count)
            if base is not None:
                self._finish(slot, base)
                return
        self._unresolved.append(slot)
        if self._resolver is None or self._resolver.done():
            self._resolver = asyncio.get_running_loop().create_task(self._resolve())

    async def _resolve(self) -> None:
        while self._unresolved:
            slot = self._unresolved[0]
            receipt = slot.receipt
            assert receipt is not None  # noqa: S101 — only slots with one are queued
            try:
                base = self._end.base_now(receipt, slot.count)
                if base is None:
                    base = await self._look_up(slot, receipt)
            except Exception as error:  # noqa: BLE001 — whatever it is, this append's client must be told
                _fail(slot, error)
            else:
                self._finish(slot, base)
            if self._unresolved and self._unresolved[0] is slot:  # close() takes them all
                self._unresolved.popleft()

    def _finish(self, slot: _Slot, base: int) -> None:
        self._end.advance(base + slot.count)
        if not slot.offset.done():
            slot.offset.set_result(base)
        _give(slot.given, base, slot.before)
        receipt = slot.receipt
        if receipt is None or receipt.duplicate:  # a repeated one's offset was given long ago
            return
        position, next_offset = self._last
        if receipt.position > position:
            if base < next_offset:
                self._recreated()  # offsets never go back in one topic
            self._last = receipt.position, base + slot.count

    async def _look_up(self, slot: _Slot, receipt: Receipt) -> int:
        """The base offset of an append that does not directly follow the last known one: read it back."""
        self._metrics.reanchors.inc()
        count = slot.count
        if receipt.duplicate:
            return await self._find_duplicate(slot, receipt)
        now = asyncio.get_running_loop().time()
        if now - self._read_back_at < _CROWDED:
            self._crowded()
        self._read_back_at = now
        position = receipt.position
        if await self._end.sees(position):
            base = self._end.base_now(receipt, count)
            if base is not None:
                return base
        for _ in range(_READ_BACK_TRIES):
            entry = await self._client.read_entry(self._topic, position)
            if entry is not None and entry.position == position and entry.index is not None:
                found = span(entry.index, count)
                self._end.anchor.observe(position.ledger, position.entry, found.next)
                return found.base
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the entry at {position} was stored and cannot be read back")

    async def _find_duplicate(self, slot: _Slot, receipt: Receipt) -> int:
        """Find what the broker says it holds already: a send repeated after a reconnect whose receipt was lost.

        It was stored after what was known when it was first sent, under our producer's name and this sequence.
        """

        def ours(entry: Entry) -> bool:
            metadata = entry.metadata
            return metadata.producer_name == slot.producer and metadata.sequence_id == receipt.sequence_id

        entry = await self._stored.first(slot.after, ours)
        if entry is None or entry.index is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "Pulsar holds this batch already, at an unknown offset")
        return span(entry.index, entries.message_count(entry.metadata)).base

    async def _find_repeated(self, sealed: Sealed, writer: Writer) -> int:
        try:
            return await self._stored.repeated(sealed)
        except NotStoredYet:
            self._writers.drop(sealed.producer[0], writer)  # Pulsar is asked anew what it knows
            raise


def _give(answer: "asyncio.Future[int]", base: int, before: "asyncio.Future[int] | None") -> None:
    """Answer with an offset, after the batch before, and only if that had one too.

    Clients take the success of a batch for that of all before it: librdkafka would tell of those as delivered, without
    their offsets. Given up, the batch is sent again as they are, and found.
    """
    if answer.done():
        return
    if before is None:
        answer.set_result(base)
    elif not before.done():
        before.add_done_callback(lambda before: _give(answer, base, before))
    elif failed(before):
        answer.cancel()
    else:
        answer.set_result(base)


def _fail(slot: _Slot, error: BaseException) -> None:
    for offset in (slot.offset, slot.given):
        if not offset.done():
            offset.set_exception(translate(error))
