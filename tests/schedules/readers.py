"""A consumer that reads a partition to its end while others write."""

import asyncio

from tests.schedules.kafka import NO_ANSWER, Client
from tests.schedules.world import Bridge, World


async def read_all(world: World, bridge: Bridge, over: asyncio.Event) -> dict[int, bytes]:
    """Consume until nothing more comes after the end of all: what was found at each offset."""
    client, offset, found = Client(world, bridge, "consumer", request_seconds=75.0), 0, dict[int, bytes]()
    while True:
        last_look = over.is_set()
        fetched = await client.fetch("t", offset, max_wait=0.5 if last_look else 10.0)
        assert fetched.error != NO_ANSWER, "a Fetch had no answer within 85 s"
        for record in fetched.records:
            assert record.offset >= offset, f"{record.offset} came after {offset - 1}"
            found[record.offset] = bytes(record.value or b"")
            offset = record.offset + 1
        offset = max(offset, fetched.next)
        if last_look and fetched.error == 0 and not fetched.records and fetched.high_watermark <= offset:
            return found
        await world.sleep(0, 0.2 if fetched.records else 2.0)
