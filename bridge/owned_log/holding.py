"""A slot while this process has it: its producer, what is written, and what is read to notice another holder."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, NoReturn

from bridge.owned_log.batch import Record, pack
from bridge.owned_log.compacted_view import read_compacted
from bridge.owned_log.compaction import Compaction
from bridge.owned_log.dependencies import SlotDependencies
from bridge.owned_log.errors import SlotNotOwned, SlotUnavailable
from bridge.owned_log.journal import Journal
from bridge.owned_log.read_back import ReadBack
from bridge.owned_log.slot_reader import Found, SlotReader
from bridge.owned_log.succession import Succession, marker
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import EARLIEST, Position
from bridge.runtime.futures import SharedQuery
from bridge.telemetry.log import Log

_READ_TIMEOUT: Final = 30.0  # for one entry, while loading
_CLOSE_TIMEOUT: Final = 5.0


class Holding:
    """From the opening of the producer to its end. It may be read only once `load` has returned."""

    def __init__(
        self, index: int, producer: Producer, compaction: Compaction, dependencies: SlotDependencies, log: Log
    ) -> None:
        self._index = index
        self._producer = producer
        self._compaction = compaction
        self._dependencies = dependencies
        self._log = log
        self._succession = Succession()  # of the reading that counts
        self._tail: SlotReader | None = None
        self._read_back = ReadBack(EARLIEST)
        self._read = asyncio.Event()
        self._query = SharedQuery(self._read_to_the_end)
        self._watching: asyncio.Task[NoReturn] | None = None
        self.journal: Journal | None = None

    @property
    def attached(self) -> bool:
        """Whether the producer is connected."""
        return self._producer.attached

    async def reattached(self) -> None:
        """Wait until the producer is connected; PulsarError if it never will be again."""
        await self._producer.opened()

    async def load(self) -> None:
        """Write the marker, and read the slot up to it; SlotNotOwned if another one lies behind it by then."""
        metadata, payload = pack([marker(self._dependencies.owner)])
        placed = (await self._producer.send(metadata, payload, 1)).position
        admin, topic = self._dependencies.admin, self._producer.topic
        known = await read_compacted(topic, admin, self._log, partial(self._load, placed))
        self._check_holder()
        self._read_back = ReadBack(known)
        # the tail is read as it was written: compaction drops a deletion, and then nothing would come in its place
        reader = await self._dependencies.client.reader(self._producer.topic, known, inclusive=False)
        self._tail = SlotReader(reader, self._succession, self._dependencies.metrics, self._log)
        self.journal = Journal(self._producer, self._read_back, self._stored, self._dependencies)
        self._watching = asyncio.get_running_loop().create_task(self._watch(self._tail))

    async def ended(self) -> BaseException:
        """Wait until it is over; why."""
        watching, journal, terminated = self._watching, self.journal, self._producer.terminated
        if watching is None or journal is None:
            return SlotUnavailable("the slot is not loaded")
        await asyncio.wait((terminated, watching, journal.doubt), return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            return _ending(watching)
        return terminated.result() if terminated.done() else journal.doubt.result()

    async def confirm(self) -> None:
        """Return when all is read that the slot had at the call; raises if another holder's marker is in it."""
        await self._query.look()

    async def close(self) -> None:
        """Let what was written have its outcome, and let the slot go."""
        try:
            if self.journal is not None and self._producer.attached:
                await self.journal.drain(_CLOSE_TIMEOUT)
        finally:
            await self._producer.close(flush=False)
            if self._watching is not None:
                self._watching.cancel()
                await asyncio.gather(self._watching, return_exceptions=True)
            if self._tail is not None:
                await self._tail.close()

    # --- reading --------------------------------------------------------------------------------------------------

    async def _load(self, end: Position) -> Position:
        """Read up to our marker; where it is."""
        client, state = self._dependencies.client, self._dependencies.state
        self._succession = Succession()
        reader = await client.reader(self._producer.topic, EARLIEST, read_compacted=True)
        slot = SlotReader(reader, self._succession, self._dependencies.metrics, self._log)
        try:
            state.reset(self._index)
            if end == EARLIEST:
                # sent again after a lost connection, it was known to deduplication: it is stored, somewhere
                end = await slot.last_position()
            count = 0
            position: Position | None = None
            while position is None or position < end:
                found = await slot.next_within(_READ_TIMEOUT)
                position = found.position
                count += found.count
                self._dependencies.metrics.records_read.inc(found.count)
                self._apply(found.records, replaying=True)
        finally:
            await slot.close()
        self._compaction.loaded(count, state.live_records(self._index))
        return position

    async def _watch(self, tail: SlotReader) -> NoReturn:
        """Read on until another holder's marker: a broker tells a fenced producer when it sends, not before."""
        try:
            while True:
                found = await tail.next(self._producer.name)
                own = found.producer == self._producer.name
                if not own and found.producer:
                    self._foreign(found)
                self._read_back.read(found.position, found.sequence if own else None)
                self._read.set()
        finally:
            self._read.set()

    def _foreign(self, found: Found) -> None:
        """An entry of another producer: SlotNotOwned if it is a marker, and else it does not count."""
        self._check_holder()
        self._log.warning(
            "! entry of a former holder left out", extra={"position": str(found.position), "producer": found.producer}
        )

    def _check_holder(self) -> None:
        """Raise SlotNotOwned unless our marker is the latest."""
        holder = self._succession.holder
        if holder is None or holder.producer == self._producer.name:
            return
        raise SlotNotOwned(f"{holder.owner} has taken the slot")

    async def _read_to_the_end(self) -> None:
        tail, watching = self._tail, self._watching
        if tail is None or watching is None:
            raise SlotUnavailable("the slot is not loaded")
        end = await tail.last_position()
        while self._read_back.known < end:
            self._read.clear()
            if watching.done():
                raise _ending(watching)
            await self._read.wait()

    # --- records --------------------------------------------------------------------------------------------------

    def _stored(self, records: Sequence[Record]) -> None:
        """These are stored, and count."""
        self._apply(records, replaying=False)
        self._read.set()
        self._compaction.written(len(records))

    def _apply(self, records: Sequence[Record], *, replaying: bool) -> None:
        apply, index = self._dependencies.state.apply, self._index
        for key, value in records:
            apply(index, key, value, replaying=replaying)


def _ending(watching: "asyncio.Task[NoReturn]") -> BaseException:
    """Why nothing is read any more."""
    error = None if watching.cancelled() else watching.exception()
    return error or SlotUnavailable("the slot is being lost")
