"""Runs a process on its event loop, uvloop's where it is installed, and says how many processes there should be."""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_async(main: Coroutine[Any, Any, Result]) -> Result:
    """On uvloop where it is installed, for its 0 to 15 % less work a request."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def process_count(workers: int) -> int:
    """The processes that `kafka.workers` asks for; 0 is one per core but one, which is left to all else."""
    if workers:
        return workers
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(cores - 1, 1)
