"""Waiting for what tells no event: the other end of it is in another process, or in the sockets between."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Return when it has come true; TimeoutError where it does not in time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - see the module
            await asyncio.sleep(0.01)
