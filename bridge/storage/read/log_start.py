"""The log start offset of one partition; Pulsar's retention may advance it at any time."""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf

from bridge.errors import KafkaError
from bridge.pulsar.types import EARLIEST
from bridge.runtime.futures import Cached
from bridge.storage.error_mapping import translated
from bridge.storage.read.log_end import LogEnd
from bridge.storage.read.search import Search
from bridge.telemetry import log

_log = log.get(__name__)

_REFRESH_SECONDS = 10.0


class LogStart:
    """The start of one partition's log.

    `offset` is the first one that may be read, as far as is known. It never decreases.
    """

    def __init__(
        self,
        topic: str,
        search: Search,
        end: LogEnd,
        load: Callable[[], Awaitable[None]],
        open_at_start: Callable[[], Awaitable[int | None]],
    ) -> None:
        """`load` learns where the log ends; `open_at_start` opens the tail at the start if it can, and returns it."""
        self.offset = 0
        self._topic = topic
        self._search = search
        self._end = end
        self._load = load
        self._open_at_start = open_at_start
        self._known_at = float("-inf")
        self._first = Cached(self._find_first, inf)
        self._refreshing: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def known(self) -> int | None:
        """The start as it was learnt last; None where it never was."""
        return self.offset if self.offset or self._known_at > float("-inf") else None

    def raise_to(self, offset: int) -> None:
        """Raise the start to this offset, even if Pulsar still has records before it."""
        self.offset = max(self.offset, offset)

    def is_fresh(self, seconds: float) -> bool:
        """Whether Pulsar was asked within this time."""
        return asyncio.get_running_loop().time() - self._known_at <= seconds

    async def find(self) -> int:
        """Ask Pulsar, and again if what was empty has grown meanwhile: it starts where it ended before the question."""
        while True:
            end = self._end.offset
            first = await self._search.read_batch(EARLIEST)
            if first is None:
                await self._load()
            if first is not None or self._end.offset == end:
                break
        self.raise_to(end if first is None else first.base)
        self._known_at = asyncio.get_running_loop().time()
        return self.offset

    async def get(self) -> int:
        """The start from memory, refreshed in the background; the first call asks Pulsar."""
        if self._known_at == float("-inf"):
            return await self._first.get()
        if not self.is_fresh(_REFRESH_SECONDS) and not self._closed:
            self._refresh()
        return self.offset

    async def _find_first(self) -> int:
        start = await self._open_at_start()
        if start is None:
            return await self.find()
        self.raise_to(start)
        self._known_at = asyncio.get_running_loop().time()
        return self.offset

    async def get_fresh(self, seconds: float) -> int:
        """The start as it was within this time, or an older one if Pulsar cannot be asked."""
        if not self.is_fresh(seconds) and not self._closed:
            await asyncio.wait((self._refresh(),))  # its failure is logged, and the last known start is returned
        return self.offset

    def close(self) -> None:
        """Stop refreshing."""
        self._closed = True
        if self._refreshing is not None:
            self._refreshing.cancel()

    def _refresh(self) -> "asyncio.Task[None]":
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._try_to_find())
        return self._refreshing

    async def _try_to_find(self) -> None:
        try:
            with translated():
                await self.find()
        except KafkaError as error:
            _log.warning("! log start not refreshed", extra={"topic": self._topic, "error": str(error)})
