"""Measures how long the event loop is held, and by what code: that holds up every client.

A timer ticks; a tick is late by as long as the loop was held. When one is late, a thread records where the loop's own
thread is: once the loop runs again that cannot be told.
"""

import asyncio
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from bridge.telemetry import log
from bridge.telemetry.instruments import Histogram

_TICK_SECONDS = 0.02
LOGGED_SECONDS = 0.05
"""Holds as long as this are logged."""
_HERE = Path(__file__).parents[1]
_log = log.get(__name__)


class _CodePlace(NamedTuple):
    """Where the loop's thread was found."""

    api: str
    code: str


class Watchdog:
    """Watches the loop that it is started in."""

    def __init__(self, held: Histogram) -> None:
        """`held` gets the seconds of each tick's lateness."""
        self._held = held
        self._due = 0.0
        self._place: _CodePlace | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Watch from now on."""
        self._plan()
        self._thread = threading.Thread(target=self._watch, args=(threading.get_ident(),), name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            self._thread.join()

    def _plan(self) -> None:
        self._due = time.monotonic() + _TICK_SECONDS
        self._timer = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        late = max(time.monotonic() - self._due, 0.0)
        self._held.observe(late)
        place, self._place = self._place, None
        if late >= LOGGED_SECONDS:
            fields = {"seconds": round(late, 3)} | (place or _CodePlace("", ""))._asdict()
            _log.warning("! event loop held", extra=fields)
        self._plan()

    def _watch(self, thread: int) -> None:
        while not self._over.wait(_TICK_SECONDS):
            if self._place is None and time.monotonic() - self._due > LOGGED_SECONDS / 2:
                frame = sys._current_frames().get(thread)
                self._place = None if frame is None else _place(frame)


def _place(innermost: FrameType) -> _CodePlace:
    """The innermost of our own code on the stack, and the API whose module is on it; empty where there is none."""
    api = code = ""
    frame: FrameType | None = innermost
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(_HERE) and path != Path(__file__):
            code = code or f"{path.relative_to(_HERE)}:{frame.f_lineno} {frame.f_code.co_name}"
            api = api or (path.stem if path.parent.name == "apis" else "")
        frame = frame.f_back
    return _CodePlace(api, code)
