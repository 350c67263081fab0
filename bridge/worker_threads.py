"""Threads for work that would hold the event loop too long: decompressing records, or iterating over very many.

The work takes memory and processors, and clients decide how often. So a few run concurrently, and clients take turns:
one waits behind its own work, not behind a thousand pieces of another's. The threads are asyncio's.
"""

import asyncio
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from bridge.fairness import FairSemaphore
from bridge.futures import retrieve_exception

MAX_THREADS = max(2, min(4, os.cpu_count() or 1))
"""asyncio has four threads more than processors, and five at least."""
_P = ParamSpec("_P")
_R = TypeVar("_R")


class WorkerThreads:
    """Runs work in a limited number of threads."""

    def __init__(self, places: int = MAX_THREADS) -> None:
        self._places = FairSemaphore(places)

    async def run(self, work: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """What `work` returns or raises, run in a thread. A thread cannot be cancelled: when the caller is, it goes on,
        and keeps its place until it ends."""
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
