"""Reads the entries of a slot in their order."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bridge.errors import CorruptEntry
from bridge.owned_log.batch import NotABatch, Record, unpack
from bridge.owned_log.dependencies import OwnedLogMetrics
from bridge.owned_log.succession import Succession
from bridge.pulsar.consumer import Reader
from bridge.pulsar.types import Position
from bridge.telemetry.log import Log


@dataclass(slots=True)
class Found:
    """What one entry of a slot holds."""

    position: Position
    producer: str = ""
    sequence: int = -1
    count: int = 0
    """How many records it has."""
    messages: int = 0
    """How many the broker counts for it, also those that are none of ours or were compacted out."""
    index: int | None = None
    """The broker's, of its last message; None where the entry does not come whole."""
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
        try:
            entry = await self._reader.receive()
        except CorruptEntry as error:
            return self._unreadable(Found(error.args[1]), error)
        metadata = entry.metadata
        found = Found(entry.position, index=entry.index, messages=max(metadata.num_messages_in_batch, 1))
        try:
            records = () if metadata.producer_name == own else list(unpack(metadata, entry.payload))
        except NotABatch as error:
            return self._unreadable(found, error)
        found.producer, found.sequence, found.count = metadata.producer_name, metadata.sequence_id, len(records)
        if found.producer != own:
            found.records = self.succession.read(found.producer, records)
        return found

    def _unreadable(self, found: Found, error: Exception) -> Found:
        self._metrics.records_unreadable.inc()
        self._log.error("! entry is unreadable", extra={"position": str(found.position), "reason": str(error)})
        return found

    async def next_within(self, seconds: float) -> Found:
        """The same; TimeoutError if it takes longer."""
        async with asyncio.timeout(seconds):
            return await self.next()

    async def last_position(self) -> Position:
        """Where the slot ends now; EARLIEST if it is empty."""
        return await self._reader.last_position()

    async def checked_last_position(self) -> Position:
        """The same, from a session that the broker is known not to have forgotten; that may take some seconds."""
        return await self._reader.checked_last_position()

    async def close(self) -> None:
        """Read no more."""
        await self._reader.close()
