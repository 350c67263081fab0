"""Waiting for what tells no event: the other end of it is in another process, or in the sockets between."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from bridge.pulsar.admin import Admin, Conflict


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Return when it has come true; TimeoutError where it does not in time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - see the module
            await asyncio.sleep(0.01)


async def compact(admin: Admin, topic: str) -> None:
    """Have Pulsar compact a topic, from the first entry to the last of this moment."""
    asked, status = False, ""
    async with asyncio.timeout(30):
        while not asked or status != "SUCCESS":
            if status != "RUNNING":  # an unload may have ended one before its time
                with suppress(Conflict):
                    await admin.compact(topic)
                    asked = True
            await asyncio.sleep(0.02)
            status = (await admin.compaction_status(topic)).status
