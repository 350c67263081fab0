"""What a process waits for while it starts: told on /startupz at once, and in the log where it takes long."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from bridge.runtime.futures import loop_time
from bridge.runtime.service_manager import notify
from bridge.telemetry import log

_log = log.get(__name__)

_TOLD_AFTER_SECONDS: Final = 2.0
_TOLD_EVERY_SECONDS: Final = 10.0


class Starting:
    """The start of one process, step by step."""

    def __init__(self) -> None:
        self._waits_for: Callable[[], str] = lambda: "the event loop"
        self._since = 0.0
        self._is_done = False

    @contextmanager
    def waiting_for(self, what: Callable[[], str]) -> Iterator[None]:
        """One step. `what`: what it waits for at present, in words for an operator."""
        self._waits_for, self._since = what, loop_time()
        telling = asyncio.get_running_loop().create_task(self._tell(), name="what the start waits for")
        try:
            yield
        finally:
            telling.cancel()

    def done(self) -> None:
        """It has started, once and for all."""
        self._is_done = True

    def problem(self) -> str | None:
        """What it waits for, and how long it has; None once it has started."""
        if self._is_done:
            return None
        return f"it starts, and waits for {self._waits_for()} ({loop_time() - self._since:.0f} s)"

    async def _tell(self) -> None:
        await asyncio.sleep(_TOLD_AFTER_SECONDS)
        while True:
            seconds = round(loop_time() - self._since, 1)
            notify(f"STATUS=waits for {self._waits_for()}")
            _log.info("= starting", extra={"waits_for": self._waits_for(), "seconds": seconds})
            await asyncio.sleep(_TOLD_EVERY_SECONDS)
