"""What Pulsar holds where a record of an idempotent producer is twice: who sent each entry, as what, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from bridge.config import Settings
from bridge.pulsar import EARLIEST, PulsarClient
from bridge.pulsar.types import Entry
from bridge.storage import entries
from bridge.storage.offsets import span
from bridge.telemetry.metrics import PulsarMetrics


def entries_at(settings: Settings, partition: str, offsets: Collection[int]) -> list[str]:
    """The entries of a partition (its full name in Pulsar) with these offsets, each in a line."""
    return asyncio.run(_entries_at(settings, partition, offsets))


async def _entries_at(settings: Settings, partition: str, offsets: Collection[int]) -> list[str]:
    client = PulsarClient(settings.pulsar, PulsarMetrics())
    found: list[str] = []
    try:
        last = await client.last_position(partition)
        reader = await client.reader(partition, EARLIEST)
        position = EARLIEST
        while position < last:
            entry = await reader.receive()
            position = entry.position
            found += _told(partition, entry, offsets)
    finally:
        await client.close()
    return found


def _told(partition: str, entry: Entry, offsets: Collection[int]) -> Iterable[str]:
    if entry.index is None:
        return
    metadata, at = entry.metadata, span(entry.index, entries.message_count(entry.metadata))
    if any(at.base <= offset < at.next for offset in offsets):
        yield (
            f"{partition.rpartition('-')[2]}/{at.base}…{at.next - 1} is {entry.position}, sent by "
            f"{metadata.producer_name} as {metadata.sequence_id}…{metadata.highest_sequence_id} (Kafka's id, epoch and "
            f"sequence {entries.producer_of(metadata)}) at {metadata.publish_time}, stored at {entry.broker_timestamp}"
        )
