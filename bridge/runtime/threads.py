"""Threads for work that would hold the event loop too long: decompressing records, or iterating over very many.

The work takes memory and processors, and clients decide how often. So a few run concurrently, and clients take turns:
one waits behind its own work, not behind a thousand pieces of another's. The threads are asyncio's.
"""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import ParamSpec, TypeVar

from bridge.runtime.fairness import FairSemaphore
from bridge.runtime.futures import retrieve_exception
from bridge.runtime.scheduler import REQUESTER, LoopShare

MAX_THREADS = max(2, min(4, os.cpu_count() or 1))
"""asyncio has four threads more than processors, and five at least."""
_P = ParamSpec("_P")
_R = TypeVar("_R")


class WorkerThreads:
    """Runs work in a limited number of threads."""

    def __init__(self, places: int = MAX_THREADS, on_turn: Callable[[], None] = lambda: None) -> None:
        """`on_turn` is called when work has got its place; what it raises, the caller of `run` gets instead."""
        self._places = FairSemaphore(places)
        self._on_turn = on_turn

    async def run(self, work: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """What `work` returns or raises, run in a thread. A thread cannot be cancelled: when the caller is, it goes on,
        and keeps its place until it ends."""
        await self._places.acquire()
        try:
            self._on_turn()
        except BaseException:
            self._places.release()
            raise
        thread = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
        thread.add_done_callback(partial(self._ended, REQUESTER.get(), perf_counter()))
        try:
            return await asyncio.shield(thread)
        finally:
            del thread  # it has its error, whose traceback has this: all that the work has in memory would stay

    def _ended(self, share: LoopShare, began: float, thread: "asyncio.Future[_R]") -> None:
        share.spent += perf_counter() - began
        retrieve_exception(thread)
        self._places.release()
