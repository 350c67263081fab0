"""Processes that are not children of the test: they can only be looked at."""

import time
from collections.abc import Callable
from pathlib import Path


def until(holds: Callable[[], bool], seconds: float = 15.0) -> bool:
    """Whether it comes true in time; processes of others can only be looked at."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def state(task: Path) -> str:
    """Of a process or thread, by its directory in /proc, as proc(5) has it; an empty text if there is none.

    Z: it has ended, and its parent has not asked how.
    """
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def gone(pid: int) -> bool:
    """Whether it has ended; it may not have been collected yet."""
    return state(Path("/proc", str(pid))) in ("", "Z")
