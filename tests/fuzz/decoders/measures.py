"""What a check costs, without a clock: lines of the bridge that it executes, and bytes that it takes."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

from tests.support.sources import ROOT

_BRIDGE = str(ROOT / "bridge")


def lines_executed(check: Callable[[bytes], object], data: bytes) -> int:
    """How many lines of the bridge's the check executes, each as often as it does."""
    count = 0

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def called(frame: FrameType, event: str, argument: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(_BRIDGE) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        check(data)
    finally:
        sys.settrace(before)
    return count


def bytes_taken(check: Callable[[bytes], object], data: bytes) -> int:
    """The most bytes that the check has in use at a time, of Python's own memory."""
    tracemalloc.start()
    try:
        check(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
