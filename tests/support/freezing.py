"""SIGSTOP for a process of many threads: that the signal is sent does not say that all have stopped.

One thread, most often the first, has to run before it stops the others, and on a busy machine it may wait for a
processor while they go on. What is asked of a server in these milliseconds is answered.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.foreign import state, until

_AT_REST = ("T", "Z", "X", "")
"""Stopped, or ended: proc(5)."""


def freeze(pid: int) -> None:
    """Stop all threads of a process, and wait until they have."""
    os.kill(pid, signal.SIGSTOP)
    if not until(lambda: not running_threads(pid)):
        thaw(pid)
        raise AssertionError(f"these threads of {pid} did not stop: {running_threads(pid)}")


def thaw(pid: int) -> None:
    """SIGCONT."""
    os.kill(pid, signal.SIGCONT)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """`freeze`, and `thaw` at the end."""
    freeze(pid)
    try:
        yield
    finally:
        thaw(pid)


def running_threads(pid: int) -> list[int]:
    """Those of a process that SIGSTOP has not reached."""
    return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir() if state(task) not in _AT_REST]
