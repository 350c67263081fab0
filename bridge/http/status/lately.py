"""What Pulsar was asked for the page: in the background, a few questions at a time; answers are shown for long."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from bridge.errors import BridgeError
from bridge.runtime.futures import loop_time

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MOST_WANTED: Final = 200
_MOST_KNOWN: Final = 5_000
_ANSWER_SECONDS: Final = 5.0


class Lately(Generic[K, V]):
    """Answers by their questions. Looking never waits; what is old, or was never asked, is asked soon.

    Nothing is asked that nobody has just looked at. A question that fails is asked again when its time comes, and its
    last answer stays.
    """

    def __init__(self, ask: Callable[[K], Awaitable[V]], seconds: float, pause: float = 0.2, at_once: int = 2) -> None:
        """`ask` may raise BridgeError, OSError or ValueError. `seconds`: after so many an answer is asked again;
        `pause`: between two questions of each of the `at_once` that ask."""
        self._ask = ask
        self._seconds = seconds
        self._pause = pause
        self._at_once = at_once
        self._known: OrderedDict[K, tuple[float, V | None]] = OrderedDict()
        self._wanted: OrderedDict[K, None] = OrderedDict()
        self._asking: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def look(self, key: K) -> V | None:
        """The last answer; None where there is none yet."""
        at, value = self._known.get(key, (float("-inf"), None))
        if loop_time() - at > self._seconds:
            self._want(key)
        return value

    def close(self) -> None:
        """Ask nothing any more."""
        self._is_closed = True
        self._wanted.clear()
        for task in self._asking:
            task.cancel()

    def _want(self, key: K) -> None:
        if self._is_closed:
            return
        self._wanted[key] = None
        self._wanted.move_to_end(key)
        if len(self._wanted) > _MOST_WANTED:
            self._wanted.popitem(last=False)
        if len(self._asking) < self._at_once:
            task = asyncio.get_running_loop().create_task(self._run(), name="status page asks")
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _run(self) -> None:
        while self._wanted:
            key, _ = self._wanted.popitem()  # what was looked at last is still looked at
            before = self._known.get(key, (0.0, None))[1]
            self._keep(key, before)  # not twice at once
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    self._keep(key, await self._ask(key))
            except (BridgeError, OSError, ValueError):  # TimeoutError is an OSError
                self._keep(key, before)
            await asyncio.sleep(self._pause)

    def _keep(self, key: K, value: V | None) -> None:
        self._known[key] = loop_time(), value
        self._known.move_to_end(key)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
