"""Holes in what is known of timestamps: what others have stored between the entries of this process is read."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

from bridge.pulsar.types import Position
from bridge.storage.append.duplicates import DuplicateFinder
from bridge.storage.time_marks import TimeMarks

# So many holes are read in so many seconds: more mean that another writer is busy.
_MAX_HOLES: Final = 10
_HOLES_SECONDS: Final = 10.0


class Holes:
    """Those of one partition: its time marks promise for what stands in them, too."""

    def __init__(
        self,
        marks: TimeMarks,
        duplicates: DuplicateFinder,
        background: Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"],
    ) -> None:
        """`background`: runs the reading as a task that ends with the partition."""
        self._marks = marks
        self._duplicates = duplicates
        self._background = background
        self._filling: asyncio.Task[None] | None = None
        self._filled_at: deque[float] = deque()

    def look_before(self, position: Position, base: int) -> None:
        """Fill what is not known before the entry at this position, with this base offset."""
        if self._marks.hole is None or (self._filling is not None and not self._filling.done()):
            return
        now = asyncio.get_running_loop().time()
        self._filled_at.append(now)
        if len(self._filled_at) > _MAX_HOLES and now - self._filled_at.popleft() < _HOLES_SECONDS:
            self._marks.give_up()
        else:
            self._filling = self._background(self._duplicates.fill_holes(self._marks, position, base))
