"""Work that takes long and waits for nothing, done beside the event loop: one piece at a time, by turns of who asks.

It is all Python, so a second thread would do nothing more, and the event loop would wait for each to let go of the
interpreter's lock.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from bridge.fairness import FairLimit

_R = TypeVar("_R")


class Aside:
    """The thread, and who waits for it."""

    def __init__(self) -> None:
        self._turn = FairLimit(1)

    async def run(self, work: Callable[..., _R], *args: Any, **named: Any) -> _R:
        """What the work returns or raises. Who gives up waiting for its turn has it not done."""
        async with self._turn:
            doing = asyncio.get_running_loop().run_in_executor(None, partial(work, *args, **named))
            try:
                return await asyncio.shield(doing)
            except asyncio.CancelledError:
                await asyncio.wait((doing,))  # it cannot be stopped, and the next would be a second one
                raise
            finally:
                del doing  # it has its error, whose traceback has this: all that the work has in memory would stay
