"""Sends consumers to the node of their own rack that serves a partition which this node leads (KIP-392)."""

import asyncio
from collections.abc import Sequence
from typing import Final

from bridge.errors import KafkaError
from bridge.fetch.partitions import FetchPartition, PreferredReplica
from bridge.requests.api import Broker
from bridge.runtime.futures import gathered, in_turns

_MOST_SECONDS: Final = 2.0
"""A Fetch is served here if Pulsar takes longer to tell where a log begins and ends."""


async def prefer(rack: str, parts: Sequence[FetchPartition], broker: Broker) -> None:
    """Say of each partition that this node leads whether a node in `rack` should serve it (`RackAwareReplicaSelector`).

    It stays here if its offset is not in the log. Clients come back to the leader when a follower says
    OFFSET_OUT_OF_RANGE, and must not be sent away again.
    """
    away = [part async for part in in_turns(parts) if part.log is not None and _reader(rack, part, broker) is not None]
    if away:
        await gathered(_prefer(rack, part, broker) for part in away)


def _reader(rack: str, part: FetchPartition, broker: Broker) -> int | None:
    cluster, index = broker.cluster.snapshot, part.wanted.partition
    if not cluster.leads(broker.cluster.node_id, part.topic, index):
        return None  # a follower sends no client away
    return cluster.reader_in(rack, part.topic, index)


async def _prefer(rack: str, part: FetchPartition, broker: Broker) -> None:
    assert part.log is not None  # noqa: S101 - it was looked at
    try:
        async with asyncio.timeout(_MOST_SECONDS):
            start, end = await part.log.bounds(part.wanted.fetch_offset)
    except (KafkaError, TimeoutError):
        return  # what is in memory can be read here
    node = _reader(rack, part, broker)
    if node is not None and start <= part.wanted.fetch_offset <= end:
        part.preferred, part.log = PreferredReplica(node, start, end), None
        broker.metrics.preferred_replicas.inc()
