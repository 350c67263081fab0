"""A broker of a thousand partitions dies: all of them take records again soon after it is back."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import pytest

from bench import wire
from bridge.apis import produce
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.produce_wire import Request
from tests.faults import throttled_load
from tests.faults.figures import report
from tests.support.bridges import BridgeChild
from tests.support.pulsar import PrivatePulsar

_TOGETHER = 50
_TIMEOUT_MS = 120_000
_RETRY_SECONDS = 0.1

Partition = tuple[str, int]


@pytest.mark.soak
@pytest.mark.parametrize(("topics", "partitions"), [(1, 1000), (1000, 1)])
def test_all_partitions_are_written_to_soon_after_their_broker_is_back(
    start_bridge: Callable[..., BridgeChild], broker: PrivatePulsar, topics: int, partitions: int
) -> None:
    """`pytest -s` shows the seconds from when the broker listens, and from when it is healthy, and can store.

    That one connection is tried for all meanwhile is shown by tests/pulsar/connection/test_pool.py.
    """
    bridge = start_bridge()
    names = [f"many-{number}" for number in range(topics)]
    asyncio.run(throttled_load.create(bridge.kafka, names, partitions))
    every = [(name, partition) for name in names for partition in range(partitions)]
    asyncio.run(written(bridge.kafka, every))  # each has its producer
    broker.kill()

    async def back() -> tuple[float, float, list[float]]:
        waiting = asyncio.ensure_future(written(bridge.kafka, every))
        listening = asyncio.ensure_future(listens(broker.service_url))
        await asyncio.to_thread(broker.start)
        healthy = time.monotonic()
        return await listening, healthy, await waiting

    listening, healthy, answered = asyncio.run(back())
    report(
        topics=topics,
        partitions=partitions,
        first=round(min(answered) - listening, 2),
        last=round(max(answered) - listening, 2),
        last_after_healthy=round(max(answered) - healthy, 2),
    )


async def written(bootstrap: str, partitions: Sequence[Partition]) -> list[float]:
    """Write to all at once, some in a request; when the last partition of each request had its record."""

    async def one(wanted: Sequence[Partition]) -> float:
        client = await wire.Client.connect(bootstrap, 1 << 20)
        while wanted:  # a node that was cut off for long leads nothing for a moment
            data = [throttled_load.of_topic(name, 1, [partition]) for name, partition in wanted]
            request = Request(acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=data)
            body = await client.exchange(wire.request(produce.API, 8, request))
            codes = [topic.partition_responses[0].error_code for topic in wire.response(produce.API, 8, body).responses]
            assert set(codes) <= {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}
            wanted = [partition for partition, code in zip(wanted, codes, strict=True) if code != ErrorCode.NONE]
            await asyncio.sleep(_RETRY_SECONDS if wanted else 0)
        client.close()
        return time.monotonic()

    split = [partitions[at : at + _TOGETHER] for at in range(0, len(partitions), _TOGETHER)]
    return await asyncio.gather(*map(one, split))


async def listens(service_url: str) -> float:
    """When the broker takes connections."""
    address = urlsplit(service_url)
    while True:
        try:
            with socket.create_connection((address.hostname, address.port or 0), timeout=0.2):
                return time.monotonic()
        except OSError:
            await asyncio.sleep(0.02)
