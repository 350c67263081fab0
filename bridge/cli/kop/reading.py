"""Reads KoP's `__consumer_offsets`: what Pulsar has of the log itself, and before it what only compaction has kept.

Compaction keeps the last message of a group, which may be about one partition of many. So the log itself is read,
though KoP reads the compacted one. Where its beginning was deleted, compaction has the last of older groups.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from bridge.cli.kop.records import KopOffsets
from bridge.errors import BridgeError, CorruptEntry, StartupError
from bridge.pulsar import Admin, PulsarClient
from bridge.pulsar.admin import InternalStats, NotFound
from bridge.pulsar.consumer import Reader
from bridge.pulsar.types import EARLIEST, LATEST, Entry, Position
from bridge.storage import entries
from bridge.storage.read.markers import Markers

TOPIC: Final = "__consumer_offsets"
_READ_SECONDS: Final = 30.0
_COMPACTED_SECONDS: Final = 10.0
_MAX_ENTRY_BYTES: Final = 1 << 24
_MAX_PARTITIONS: Final = 10_000


async def read_offsets(client: PulsarClient, admin: Admin, namespace: str) -> KopOffsets:
    """All that KoP has of groups' offsets in its metadata namespace; StartupError where there is no such topic."""
    topic = f"persistent://{namespace}/{TOPIC}"
    try:
        count = (await admin.partitioned_metadata(topic)).partitions
    except NotFound:
        count = 0
    if not 0 < count <= _MAX_PARTITIONS:
        raise StartupError(
            f"there is no partitioned topic {topic}: name KoP's kafkaMetadataTenant and kafkaMetadataNamespace with "
            "--metadata-namespace"
        )
    found = KopOffsets(count)
    for number in range(count):
        await _Partition(client, admin, f"{topic}-partition-{number}", number, found).read()
    return found


class _Partition:
    """One partition's pass."""

    def __init__(self, client: PulsarClient, admin: Admin, topic: str, number: int, found: KopOffsets) -> None:
        self._client = client
        self._admin = admin
        self._topic = topic
        self._number = number
        self._found = found

    async def read(self) -> None:
        """Fold it; nothing where the partition was never made: a reader would make it."""
        try:
            stats = await self._admin.internal_stats(self._topic)
        except NotFound:
            return
        start = next((Position(one.ledger_id, 0) for one in stats.ledgers if one.entries), None)
        if stats.compacted_ledger >= 0:
            await self._read_compacted(stats, start)
        if start is None:
            return
        end = await Markers(self._topic, self._admin).last_visible(stats.last_confirmed)
        if end >= start:
            await self._read_log(end)

    async def _read_log(self, end: Position) -> None:
        async with self._reading(compacted=False) as reader:
            position = EARLIEST
            while position < end:
                position = await self._next(reader, end)

    async def _read_compacted(self, stats: InternalStats, start: Position | None) -> None:
        """What lies before the log's first entry. What the broker keeps from readers is counted as missed."""
        before = LATEST if start is None else start.before
        async with self._reading(compacted=True) as reader:
            for left in range(stats.compacted_entries, 0, -1):
                try:
                    if await self._next(reader, before, _COMPACTED_SECONDS) > before:
                        return
                except TimeoutError:
                    self._found.counts["missed"] += left
                    return

    async def _next(self, reader: Reader, end: Position, seconds: float = _READ_SECONDS) -> Position:
        """Fold the next entry, unless it lies behind `end`; where it lies."""
        try:
            async with asyncio.timeout(seconds):
                entry = await reader.receive()
        except CorruptEntry as error:
            self._found.counts["unreadable"] += 1
            position: Position = error.args[1]
            return position
        if entry.position <= end:
            self._fold(entry)
        return entry.position

    def _fold(self, entry: Entry) -> None:
        try:
            batches = entries.to_kafka(entry, 0, entry.payload, _MAX_ENTRY_BYTES)
            messages = entries.records_of(batches, _MAX_ENTRY_BYTES)
        except BridgeError:
            self._found.counts["unreadable"] += 1
            return
        for message in messages:
            self._found.fold(self._number, message)

    @asynccontextmanager
    async def _reading(self, *, compacted: bool) -> AsyncIterator[Reader]:
        reader = await self._client.reader(self._topic, EARLIEST, read_compacted=compacted)
        try:
            yield reader
        finally:
            await reader.close()
