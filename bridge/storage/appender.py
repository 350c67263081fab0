"""Appends batches to one partition, and learns the offset of each from the position in its receipt."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.metrics import StorageMetrics
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import ClientClosed, MessageTooLarge, Position, PulsarError, Receipt
from bridge.storage import entries
from bridge.storage.entries import Sealed
from bridge.storage.faults import translate
from bridge.storage.log_end import LogEnd
from bridge.storage.offsets import span

_READ_BACK_TRIES = 3
_CROWDED = 0.5  # seconds between two entries read back, below which a reader at the tail is the cheaper way
_METADATA_BYTES = 512  # what the entry's metadata may take, which counts for the broker's limit as well


@dataclass(slots=True)
class _Slot:
    """One append between its receipt and its offset."""

    count: int
    offset: asyncio.Future[int]
    receipt: Receipt | None = field(default=None)


class Appender:
    """One partition's producer. Offsets come out in the order of the appends."""

    def __init__(
        self,
        topic: str,
        name: str,
        client: PulsarClient,
        end: LogEnd,
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
        self._metrics = metrics
        self._crowded = crowded
        self._recreated = recreated
        self._next = 0  # the offset after the last append
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
        end = self._end
        end.newest_timestamp = max(end.newest_timestamp, sealed.payload.max_timestamp)
        sent = self._open().send(sealed.metadata(end.newest_timestamp), sealed.payload.data, sealed.record_count)
        slot = _Slot(sealed.record_count, asyncio.get_running_loop().create_future())
        self._under_way.add(slot.offset)
        sent.add_done_callback(partial(self._settle, slot))
        slot.offset.add_done_callback(partial(self._settled, sent))
        return slot.offset

    def check(self, batches: list[Sealed]) -> None:
        """Raise MESSAGE_TOO_LARGE if one of the batches is above the broker's limit, where it is known."""
        limit = self._open().max_message_size
        for sealed in batches:
            size = len(sealed.payload.data) + _METADATA_BYTES
            if limit is not None and size > limit:
                text = f"a batch of {size} bytes (uncompressed) is above Pulsar's maximum message size of {limit}"
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)

    async def room(self) -> None:
        """Wait until Pulsar has acknowledged enough for more to be sent (`pulsar.max_pending_bytes`)."""
        if self._producer is not None:
            await self._producer.writable()

    async def opened(self) -> None:
        """Wait until the broker has taken the producer."""
        await self._open().opened()

    async def close(self, patience: float = 0) -> None:
        """Give the producer back; appends under way fail unless they have their outcome within `patience` seconds."""
        if self._under_way and patience:
            await asyncio.wait(self._under_way, timeout=patience)
        if self._producer is not None:
            await self._producer.close(flush=False)
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
        if sent.cancelled():
            if not slot.offset.done():
                slot.offset.cancel()
            return
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
                    base = await self._look_up(receipt, slot.count)
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
        receipt = slot.receipt
        if receipt is None or receipt.duplicate:  # a repeated one's offset was given long ago
            return
        if base < self._next:
            self._recreated()  # offsets never go back in one topic
        self._next = base + slot.count

    async def _look_up(self, receipt: Receipt, count: int) -> int:
        """The base offset of an append that does not directly follow the last known one: read it back."""
        self._metrics.reanchors.inc()
        if receipt.duplicate:
            return await self._find_duplicate(receipt)
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

    async def _find_duplicate(self, receipt: Receipt) -> int:
        """Find what the broker says it holds already: a send repeated after a reconnect whose receipt was lost.

        It was stored after the last known position, under our producer's name and this sequence.
        """
        producer = self._open()
        start = Position(*self._end.anchor.position)
        reader = await self._client.reader(self._topic, start, inclusive=False)
        try:
            last = await reader.last_position()
            position = start
            while position < last:
                entry = await reader.receive()
                position = entry.position
                metadata = entry.metadata
                if entry.index is None:
                    break
                found = span(entry.index, entries.message_count(metadata))
                if metadata.producer_name == producer.name and metadata.sequence_id == receipt.sequence_id:
                    self._end.anchor.observe(position.ledger, position.entry, found.next)
                    return found.base
        finally:
            await reader.close()
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "Pulsar holds this batch already, at an unknown offset")


def _fail(slot: _Slot, error: BaseException) -> None:
    if not slot.offset.done():
        slot.offset.set_exception(translate(error))
