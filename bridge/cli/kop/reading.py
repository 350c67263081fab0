"""Reads KoP's `__consumer_offsets`: what Pulsar has of the log itself, and before it what only compaction has kept.

Compaction keeps the last message of a group, which may be about one partition of many. So the log itself is read,
though KoP reads the compacted one. Where its beginning was deleted, compaction has the last of older groups.

KoP ends transactions by entries with a marker of Pulsar's, which brokers keep from readers. They are asked for one by
one, of the admin interface, where a transaction is open and entries do not come.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from bridge.cli.kop.records import KopOffsets
from bridge.errors import BridgeError, CorruptEntry, StartupError
from bridge.pulsar import Admin, PulsarClient
from bridge.pulsar.admin import InternalStats, NotFound
from bridge.pulsar.consumer import Reader
from bridge.pulsar.pb import PulsarApi_pb2 as pb
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


class _Unreadable(NamedTuple):
    """Where an entry lies that cannot be decoded."""

    position: Position


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
        end = await Markers(self._topic, self._admin, self._client).last_visible(stats.last_confirmed)
        if end >= start:
            await self._read_log(stats, end)

    async def _read_log(self, stats: InternalStats, end: Position) -> None:
        position = EARLIEST
        async with self._reading(compacted=False) as reader:
            while position < end:
                entry = await self._receive(reader, _READ_SECONDS)
                await self._end_transactions(stats, position, entry.position)
                position = entry.position
                self._fold(entry)
        await self._end_transactions(stats, position, stats.last_confirmed.after)

    async def _end_transactions(self, stats: InternalStats, after: Position, before: Position) -> None:
        """By the markers between two entries."""
        for ledger in stats.ledgers:
            first = max(after.after, Position(ledger.ledger_id, 0))
            for number in range(first.entry, ledger.entries) if first.ledger == ledger.ledger_id else ():
                position = Position(ledger.ledger_id, number)
                if position >= before or not self._found.is_open(self._number):
                    return
                if found := await self._admin.transaction_end(self._topic, position):
                    producer_id, kind = found
                    self._found.end(self._number, producer_id, committed=kind == pb.TXN_COMMIT)

    async def _read_compacted(self, stats: InternalStats, start: Position | None) -> None:
        """What lies before the log's first entry. What the broker keeps from readers is counted as missed."""
        before = LATEST if start is None else start.before
        async with self._reading(compacted=True) as reader:
            for left in range(stats.compacted_entries, 0, -1):
                try:
                    entry = await self._receive(reader, _COMPACTED_SECONDS)
                except TimeoutError:
                    self._found.counts["missed"] += left
                    return
                if entry.position > before:
                    return
                self._fold(entry)

    async def _receive(self, reader: Reader, seconds: float) -> Entry | _Unreadable:
        """The next entry; TimeoutError where none comes."""
        try:
            async with asyncio.timeout(seconds):
                return await reader.receive()
        except CorruptEntry as error:
            return _Unreadable(error.args[1])

    def _fold(self, entry: Entry | _Unreadable) -> None:
        if isinstance(entry, _Unreadable):
            self._found.counts["unreadable"] += 1
            return
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
