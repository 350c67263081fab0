"""Turns of one transactional id's requests, in the order in which they came: some together, others alone."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple


class _Waiting(NamedTuple):
    turn: "asyncio.Future[None]"
    alone: bool


class Turns:
    """Who has the turn now, and who waits for it. Nobody overtakes one that waits to be alone."""

    def __init__(self) -> None:
        self._together = 0
        self._is_alone = False
        self._waiting: deque[_Waiting] = deque()

    @asynccontextmanager
    async def turn(self, *, alone: bool) -> AsyncIterator[None]:
        """Wait for the turn, and have it."""
        if self._waiting or not self._is_free(alone=alone):
            await self._wait(alone=alone)
        else:
            self._begin(alone=alone)
        try:
            yield
        finally:
            self._end(alone=alone)

    async def _wait(self, *, alone: bool) -> None:
        waiting = _Waiting(asyncio.get_running_loop().create_future(), alone)
        self._waiting.append(waiting)
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if waiting.turn.cancelled():
                with suppress(ValueError):
                    self._waiting.remove(waiting)
                self._go_on()
            else:  # it came at the same time
                self._end(alone=alone)
            raise

    def _is_free(self, *, alone: bool) -> bool:
        return not self._is_alone and not (alone and self._together)

    def _begin(self, *, alone: bool) -> None:
        if alone:
            self._is_alone = True
        else:
            self._together += 1

    def _end(self, *, alone: bool) -> None:
        if alone:
            self._is_alone = False
        else:
            self._together -= 1
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self._is_free(alone=self._waiting[0].alone):
            waiting = self._waiting.popleft()
            if not waiting.turn.cancelled():
                self._begin(alone=waiting.alone)
                waiting.turn.set_result(None)
