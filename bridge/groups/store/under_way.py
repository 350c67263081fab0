"""Which partitions' offsets are being written: what is decided by those that are stored must not overtake them."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Final

from bridge.groups.store.records import Key
from bridge.runtime.futures import failed

_DOUBT_SECONDS: Final = 60.0
"""For so long a write that failed may yet come to be stored. Well before, the log refuses others while it waits."""


class WritesUnderWay:
    """The offsets, plain and pending ones, whose writes have no outcome yet."""

    def __init__(self) -> None:
        self._writes: Counter[tuple[str, str, int]] = Counter()

    def __contains__(self, where: tuple[str, str, int]) -> bool:
        """Whether anything is written of a group's topic and partition."""
        return where in self._writes

    def add(self, keys: Iterable[Key], writing: "asyncio.Future[None]") -> None:
        """These keys are written, until the future is done."""
        places = [key[1:4] for key in keys if key[0] == "offset" or key[0] == "pending"]
        if places:
            for place in places:
                self._writes[place] += 1
            writing.add_done_callback(partial(self._ended, places))

    def _ended(self, places: list[tuple[str, str, int]], writing: "asyncio.Future[None]") -> None:
        if failed(writing):
            asyncio.get_running_loop().call_later(_DOUBT_SECONDS, self._forget, places)
        else:
            self._forget(places)

    def _forget(self, places: list[tuple[str, str, int]]) -> None:
        for place in places:
            self._writes[place] -= 1
            if not self._writes[place]:
                del self._writes[place]
