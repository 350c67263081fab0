"""Reads the entries of a slot in their order."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bridge.errors import CorruptEntry
from bridge.owned_log.batch import NotABatch, Record, unpack
from bridge.owned_log.dependencies import OwnedLogMetrics
from bridge.owned_log.succession import Succession
from bridge.pulsar.consumer import Reader
from bridge.pulsar.types import Entry, Position
from bridge.telemetry.log import Log


@dataclass(slots=True)
class Found:
    """What one entry of a slot holds."""

    position: Position
    producer: str = ""
    sequence: int = -1
    count: int = 0
    """How many records it has."""
    records: Sequence[Record] = ()
    """Those that count; without the log's own."""


class SlotReader:
    """One pass over a slot. A second pass, from another place on, may go on with its succession."""

    def __init__(self, reader: Reader, succession: Succession, metrics: OwnedLogMetrics, logger: Log) -> None:
        self.succession = succession
        self._reader = reader
        self._metrics = metrics
        self._log = logger

    async def next(self, own: str = "") -> Found:
        """The next entry; without records if it is none of an owned log's, or by this producer, who knows them."""
        entry: Entry | None = None
        try:
            entry = await self._reader.receive()
            if entry.metadata.producer_name == own:
                return Found(entry.position, own, entry.metadata.sequence_id)
            records = list(unpack(entry.metadata, entry.payload))
        except (CorruptEntry, NotABatch) as error:
            position = entry.position if entry is not None else error.args[1]
            self._metrics.records_unreadable.inc()
            self._log.error("! entry is unreadable", extra={"position": str(position), "reason": str(error)})
            return Found(position)
        producer = entry.metadata.producer_name
        counting = self.succession.read(producer, records)
        return Found(entry.position, producer, entry.metadata.sequence_id, len(records), counting)

    async def next_within(self, seconds: float) -> Found:
        """The same; TimeoutError if it takes longer."""
        async with asyncio.timeout(seconds):
            return await self.next()

    async def last_position(self) -> Position:
        """Where the slot ends now; EARLIEST if it is empty."""
        return await self._reader.last_position()

    async def close(self) -> None:
        """Read no more."""
        await self._reader.close()
