"""Threads for what would keep the event loop too long: to open compressed records, or to walk through very many.

What is done there takes memory and processors, and clients decide how often. So a few are done at once, and clients
take turns: one waits behind its own, not behind a thousand of another. The threads are asyncio's.
"""

import asyncio
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from bridge.fairness import FairSemaphore
from bridge.futures import retrieve_exception

PLACES = max(2, min(4, os.cpu_count() or 1))
"""asyncio has four threads more than processors, and five at least."""
_P = ParamSpec("_P")
_R = TypeVar("_R")


class WorkerThreads:
    """So many threads at once."""

    def __init__(self, places: int = PLACES) -> None:
        self._places = FairSemaphore(places)

    async def run(self, work: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """What `work` gives or raises, done in a thread. Nothing ends a thread: who gives up leaves it going on, and
        its place is taken until it ends."""
        await self._places.acquire()
        thread = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
        thread.add_done_callback(self._ended)
        try:
            return await asyncio.shield(thread)
        finally:
            del thread  # it has its error, whose traceback has this: all that the work has in memory would stay

    def _ended(self, thread: "asyncio.Future[_R]") -> None:
        retrieve_exception(thread)
        self._places.release()
