"""Where the ledgers of a partition begin: the one place where Pulsar's own index may leave offsets out."""

from __future__ import annotations

import asyncio
from typing import cast

from bridge.config import PulsarSettings
from bridge.pulsar import Position, PulsarClient
from bridge.storage.entries import message_count
from bridge.storage.offsets import span
from bridge.telemetry.metrics import PulsarMetrics
from tests.support.pulsar import PulsarAddress


def ledger_starts(pulsar: PulsarAddress, namespace: str, topic: str, partitions: int) -> set[tuple[int, int]]:
    """The (partition, offset) of each ledger's first entry, as Pulsar holds it."""
    return asyncio.run(_starts(pulsar, [f"{namespace}/{topic}-partition-{number}" for number in range(partitions)]))


async def _starts(pulsar: PulsarAddress, topics: list[str]) -> set[tuple[int, int]]:
    client = PulsarClient(PulsarSettings(service_url=pulsar.service_url, admin_url=pulsar.admin_url), PulsarMetrics())
    starts: set[tuple[int, int]] = set()
    try:
        for number, topic in enumerate(topics):
            told = await asyncio.to_thread(pulsar.admin, "GET", f"persistent/{topic}/internalStats")
            for ledger in cast("dict[str, list[dict[str, int]]]", told)["ledgers"]:
                first = Position(ledger["ledgerId"], 0)
                entry = await client.read_entry(f"persistent://{topic}", first)
                if entry is not None and entry.position == first and entry.index is not None:
                    starts.add((number, span(entry.index, message_count(entry.metadata)).base))
    finally:
        await client.close()
    return starts
