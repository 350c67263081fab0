"""Asks the same questions again and again in the background, a few at a time: none waits for one without an answer."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from math import inf
from typing import Any, Final, TypeAlias

from bridge.errors import BridgeError
from bridge.runtime.futures import loop_time
from bridge.telemetry import log

_log = log.get(__name__)

Key: TypeAlias = tuple[object, ...]
Ask: TypeAlias = Callable[[Any], Awaitable[None]]
"""Asks one question, by its key; raises where there is no answer."""

_LONGEST_PAUSE: Final = 300.0
"""Between two tries of a question that fails."""


class Schedule:
    """Which question is next; without a clock.

    New ones go first, in the order in which they came, then what is due. A question that fails is due later each time.
    """

    def __init__(self, every: float) -> None:
        self._every = every
        self._due: dict[Key, float] = {}
        """When each is due; infinity: it is under way."""
        self._failures: dict[Key, int] = {}
        self._queue: list[tuple[float, int, Key]] = []
        self._numbers = count()

    def want(self, keys: Iterable[Key]) -> None:
        """Ask these from now on, and no others."""
        before = self._due
        self._due = {key: before.get(key, -inf) for key in keys}
        for key in self._due:
            if key not in before:
                self._push(key, -inf)
        if self._failures:
            self._failures = {key: times for key, times in self._failures.items() if key in self._due}

    def next(self, now: float) -> Key | None:
        """The question to ask now, which is under way from then on; None if none is due."""
        while self._queue and self._queue[0][0] <= now:
            due, _, key = heapq.heappop(self._queue)
            if self._due.get(key) == due:
                self._due[key] = inf
                return key
        return None

    def due_at(self) -> float:
        """When one may be due next; infinity where all are under way."""
        return self._queue[0][0] if self._queue else inf

    def answered(self, key: Key, now: float, *, well: bool) -> int:
        """A question that was under way is over; how often it has failed in a row."""
        if key not in self._due:
            return 0
        failures = 0 if well else self._failures.get(key, 0) + 1
        if failures:
            self._failures[key] = failures
            self._push(key, now + min(self._every * 2 ** min(failures, 10), max(self._every, _LONGEST_PAUSE)))
        else:
            self._failures.pop(key, None)
            self._push(key, now + self._every)
        return failures

    def _push(self, key: Key, due: float) -> None:
        self._due[key] = due
        heapq.heappush(self._queue, (due, next(self._numbers), key))


class Poller:
    """Asks what is wanted, as long as anything is; who want it take turns."""

    def __init__(
        self, every: float, per_second: float, at_once: int, slow_after: float = 0.5, timeout: float = 10.0
    ) -> None:
        """`every`: seconds between two times that one is asked; `per_second`: how many are begun at most, `at_once`:
        how many are under way, without those that take longer than `slow_after`; `timeout`: the longest for one."""
        self._every = every
        self._pause = 1 / per_second
        self._places = asyncio.Semaphore(at_once)
        self._slow_after = slow_after
        self._timeout = timeout
        self._woken = asyncio.Event()
        self._schedules: dict[Ask, Schedule] = {}  # whose turn was last stands last
        self._asking: dict[asyncio.Task[None], Ask] = {}
        self._driver: asyncio.Task[None] | None = None

    def want(self, ask: Ask, keys: Iterable[Key]) -> None:
        """Ask these from now on by `ask`, and no others by it."""
        self._schedules.setdefault(ask, Schedule(self._every)).want(keys)
        self._woken.set()
        if self._driver is None:
            self._driver = asyncio.get_running_loop().create_task(self._run(), name="poller")

    async def stop(self, ask: Ask) -> None:
        """Ask nothing by it any more; nothing is under way then."""
        self._schedules.pop(ask, None)
        ending = [task for task, asked in self._asking.items() if asked == ask]
        if self._driver is not None and not self._schedules:
            ending.append(self._driver)
            self._driver = None
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._places.acquire()
            found = self._next(loop_time())
            if found is None:
                self._places.release()
                await self._wait_until_due()
                continue
            task = asyncio.get_running_loop().create_task(self._ask(*found))
            self._asking[task] = found[0]
            task.add_done_callback(self._asking.pop)
            await asyncio.sleep(self._pause)

    def _next(self, now: float) -> tuple[Ask, Key] | None:
        for ask, schedule in self._schedules.items():
            key = schedule.next(now)
            if key is not None:
                self._schedules[ask] = self._schedules.pop(ask)
                return ask, key
        return None

    async def _wait_until_due(self) -> None:
        due = min((schedule.due_at() for schedule in self._schedules.values()), default=inf)
        self._woken.clear()
        try:
            async with asyncio.timeout_at(None if due == inf else due):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _ask(self, ask: Ask, key: Key) -> None:
        """One question; its place is free for another one when it is over, or takes long."""
        place = _Place(self._places)
        timer = asyncio.get_running_loop().call_later(self._slow_after, place.leave)
        reason: str | None = "unexpected"
        try:
            async with asyncio.timeout(self._timeout):
                await ask(key)
            reason = None
        except (BridgeError, OSError, ValueError) as error:  # TimeoutError is an OSError
            reason = str(error) or "no answer in time"
        finally:
            timer.cancel()
            place.leave()
            schedule = self._schedules.get(ask)
            if schedule is not None and schedule.answered(key, loop_time(), well=reason is None) == 1:
                _log.warning("! lag not known", extra={"partition": "-".join(map(str, key)), "reason": reason})
            self._woken.set()


class _Place:
    """A place that was taken, and is left once."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places: asyncio.Semaphore | None = places

    def leave(self) -> None:
        if self._places is not None:
            self._places.release()
            self._places = None
