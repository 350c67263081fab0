"""Finds in the log what was stored already: batches sent again whose receipts, or whose offsets, were lost."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from bridge.codec import NO_PRODUCER, NO_TIMESTAMP
from bridge.errors import BridgeError, KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.types import EARLIEST, Entry, Position
from bridge.storage import entries
from bridge.storage.append.preparation import PreparedEntry
from bridge.storage.error_mapping import translated
from bridge.storage.mark_signer import MarkSigner
from bridge.storage.offsets import span
from bridge.storage.read.search import Search
from bridge.storage.time_marks import TimeMarks
from bridge.telemetry import log

_log = log.get(__name__)

_SEARCH_TIMEOUT_SECONDS = 10.0  # for a batch far back in the log
_NEAR_ENTRIES, _FAR_ENTRIES = 32, 2048  # entries looked back over


@dataclass(slots=True)
class _SequenceScan:
    """What the entries read so far say of the sequences `first` … `last` of one idempotent producer."""

    signer: MarkSigner
    producer: tuple[int, int]
    first: int
    last: int
    base: int | None = None
    """The offset of `first`, even if the batch was split otherwise: sequences are as consecutive as offsets."""
    earlier_seen: bool = False
    later_seen: bool = False
    end_seen: bool = False
    """Whether all up to `last` is stored: of what was sent as one entry, another process may have stored a part."""

    @property
    def is_missing(self) -> bool:
        """Whether they are certainly not stored: those before and after them are."""
        return self.base is None and self.earlier_seen and self.later_seen

    def take(self, entry: Entry) -> bool:
        """Look at the next entry of the log; True if further ones tell nothing more."""
        if entry.index is None or not self.signer.has_signed(entry.metadata):
            return False
        producer_id, epoch, sequence = entries.producer_of(entry.metadata)
        if (producer_id, epoch) != self.producer:
            return False
        count = entries.message_count(entry.metadata)
        if 0 <= self.first - sequence < count:
            self.base = span(entry.index, count).base + self.first - sequence
        self.earlier_seen |= sequence < self.first
        self.later_seen |= sequence > self.last
        self.end_seen |= sequence + count > self.last
        return self.end_seen


class DuplicateFinder:
    """Searches one partition, entry by entry."""

    def __init__(
        self,
        topic: str,
        search: Search,
        signer: MarkSigner,
        far_searches: asyncio.Semaphore,
    ) -> None:
        """`far_searches` bounds how many searches go far back at once."""
        self._topic = topic
        self._search = search
        self._signer = signer
        self._far_searches = far_searches

    async def find_near(self, prepared: PreparedEntry) -> int | None:
        """The base offset of an idempotent producer's batch that is among the last entries; None where it is not."""
        with translated():
            return await self._find(await self._search.position_before_last(_NEAR_ENTRIES), self._scan(prepared))

    async def find_duplicate(self, prepared: PreparedEntry, after: Position, producer: str, sequence_id: int) -> int:
        """The base offset of a batch that Pulsar says it holds, sent as `producer` with `sequence_id`.

        It was most likely sent a moment ago, its receipt lost, and stands behind `after`. An idempotent producer's may
        be one of long ago: that is looked for by its time, and not for longer than some seconds. Raises
        DUPLICATE_SEQUENCE_NUMBER then, which clients take for success, as Kafka does where it does not remember, and
        OUT_OF_ORDER_SEQUENCE_NUMBER where it is certainly not stored.
        """
        with translated():
            if prepared.producer == NO_PRODUCER:
                base = await self._find_plain(after, producer, sequence_id)
            else:
                base = await self._find(after, self._scan(prepared))
                if base is None:
                    base = await self._find_far(prepared)
        if base is not None:
            return base
        if prepared.producer == NO_PRODUCER:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "Pulsar holds this batch already, at an unknown offset")
        raise KafkaError(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, "stored already, at an offset no longer known")

    async def fill_holes(self, marks: TimeMarks, position: Position, base: int) -> None:
        """Read what is stored in the holes of what `marks` know, up to the entry at `position` with this base."""
        try:
            async with asyncio.timeout(_SEARCH_TIMEOUT_SECONDS):
                while (hole := marks.hole) is not None and hole[1] <= base:
                    await self._fill_hole(
                        marks, hole, Position(position.ledger, max(position.entry - base + hole[0], 0))
                    )
        except (BridgeError, TimeoutError) as error:
            _log.info("= times are not promised", extra={"topic": self._topic, "reason": str(error)})
            marks.give_up()

    async def first_matching(self, start: Position, wanted: Callable[[Entry], bool]) -> Entry | None:
        """The first entry behind `start` that is wanted; None when the last one stored by now is not."""
        async with aclosing(self._search.behind(start)) as found:
            async for entry in found:
                if wanted(entry):
                    return entry
        return None

    async def _find(self, start: Position, scan: _SequenceScan) -> int | None:
        await self.first_matching(start, scan.take)
        if scan.is_missing:
            text = f"sequence {scan.first} was not stored, though later ones are"
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
        if scan.base is not None and not scan.end_seen:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"sequences up to {scan.last} are stored in part")
        return scan.base

    async def _find_plain(self, after: Position, producer: str, sequence_id: int) -> int | None:
        def ours(entry: Entry) -> bool:
            return entry.metadata.producer_name == producer and entry.metadata.sequence_id == sequence_id

        entry = await self.first_matching(after, ours)
        if entry is None or entry.index is None:
            return None
        return span(entry.index, entries.message_count(entry.metadata)).base

    async def _find_far(self, prepared: PreparedEntry) -> int | None:
        try:
            async with self._far_searches, asyncio.timeout(_SEARCH_TIMEOUT_SECONDS):
                base = await self._find(await self._search.position_before_last(_FAR_ENTRIES), self._scan(prepared))
                if base is not None:
                    return base
                # the batch is not before the first entry up to which a record is as new as its newest
                start = EARLIEST
                if prepared.max_timestamp != NO_TIMESTAMP:
                    begin = await self._search.find_time(prepared.max_timestamp)
                    start = EARLIEST if begin is None else begin.position.before
                base = await self._find(start, self._scan(prepared))
                first = await self._search.read_batch(EARLIEST)
        except TimeoutError:
            return None
        is_whole = first is not None and (first.base == 0 or first.position <= start)
        if base is None and is_whole and self._signer.knows_all_nodes:
            # it would be in what was searched: another client has written under the producer's name, and higher
            text = "Pulsar takes it for stored already, and it is not: another client has used its producer's name"
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
        return base

    async def _fill_hole(self, marks: TimeMarks, hole: tuple[int, int], start: Position) -> None:
        begin, end = hole
        first = await self._search.read_batch(start)
        if first is None or first.base > begin:  # an earlier ledger's
            first = await self._search.find_offset(begin)
        at = begin
        if first is not None:
            async with aclosing(self._search.behind(first.position.before)) as found:
                async for entry in found:
                    batch = self._search.make(entry)
                    if batch is None:
                        continue
                    if batch.base >= end:
                        break
                    if batch.next > at:
                        marks.fill((await self._search.time_mark(batch)).newest, at, min(batch.next, end))
                        at = batch.next
        if at < end:  # offsets that Pulsar has skipped
            marks.fill(NO_TIMESTAMP, at, end)

    def _scan(self, prepared: PreparedEntry) -> _SequenceScan:
        producer_id, epoch, first = prepared.producer
        return _SequenceScan(self._signer, (producer_id, epoch), first, first + prepared.record_count - 1)
