"""Ways to fill and read topics of a real Pulsar."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from bridge.pulsar import (
    EARLIEST,
    Admin,
    Producer,
    PulsarClient,
    Receipt,
)
from bridge.pulsar.admin import Retention
from bridge.pulsar.pb import PulsarApi_pb2 as pb


def send(producer: Producer, payload: bytes, messages: int = 1) -> "asyncio.Future[Receipt]":
    metadata = pb.MessageMetadata()
    if messages != 1:
        metadata.num_messages_in_batch = messages
    return producer.send(metadata, payload, messages)


async def fill(client: PulsarClient, topic: str, count: int) -> list[Receipt]:
    producer = client.producer(topic)
    receipts = await asyncio.gather(*(send(producer, b"%d" % number) for number in range(count)))
    await producer.close()
    return receipts


async def eventually(probe: Callable[[], Awaitable[bool]]) -> None:
    """Poll for what is not announced."""
    async with asyncio.timeout(10):
        while not await probe():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)


def is_past(milliseconds: int) -> Callable[[], Awaitable[bool]]:
    async def probe() -> bool:
        return time.time() * 1000 > milliseconds

    return probe


async def has_retention(admin: Admin, topic: str) -> bool:
    # Topic policies travel through a topic of their own.
    return await admin.topic_retention(topic) == Retention(10, 20)


async def has_deduplication(admin: Admin, topic: str) -> bool:
    return await admin.topic_deduplication(topic) is True


async def payloads(client: PulsarClient, topic: str) -> list[bytes]:
    """Everything the topic holds."""
    reader = await client.reader(topic, EARLIEST)
    last = await reader.last_position()
    found: list[bytes] = []
    position = EARLIEST
    while position < last:
        entry = await reader.receive()
        position = entry.position
        found.append(bytes(entry.payload))
    await reader.close()
    return found
