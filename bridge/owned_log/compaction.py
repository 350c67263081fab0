"""When a topic of keyed records is compacted, such as a slot's."""

import asyncio
from typing import Final, Protocol

from bridge.pulsar.admin import Admin, AdminError, Conflict
from bridge.telemetry import log
from bridge.telemetry.instruments import Counter

_log = log.get(__name__)

_MIN_INTERVAL: Final = 60.0
_CURSOR: Final = "__compaction"


class CompactionMetrics(Protocol):
    """What is counted of compactions."""

    compactions: Counter
    compaction_errors: Counter


class Compaction:
    """Asks Pulsar to compact one topic by the number of records that it could drop."""

    def __init__(self, topic: str, admin: Admin, metrics: CompactionMetrics, after: int) -> None:
        """`after`: records that a compaction could drop before one is asked for."""
        self._topic = topic
        self._admin = admin
        self._metrics = metrics
        self._after = after
        self._droppable = 0  # about
        self._asked_at = float("-inf")
        self._task: asyncio.Task[None] | None = None

    def loaded(self, records: int, live: int) -> None:
        """The topic has been read: so many records, of which so many are still live."""
        self._droppable = records - live

    def written(self, records: int) -> None:
        """So many records more are stored; mostly each replaces another."""
        self._droppable += records
        self.start_if_due()

    def start_if_due(self) -> None:
        """Ask for a compaction, the first time to have its cursor made, which keeps data past all retention."""
        now = asyncio.get_running_loop().time()
        if self._task is not None and not self._task.done():
            return
        first = self._asked_at == float("-inf")
        if first or (self._droppable >= self._after and now - self._asked_at > _MIN_INTERVAL):
            self._asked_at = now
            self._task = asyncio.get_running_loop().create_task(self._compact(), name=f"compact {self._topic}")

    async def asked(self) -> None:
        """Wait until Pulsar has answered."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def close(self) -> None:
        """Ask for no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _compact(self) -> None:
        try:
            if self._droppable < self._after:
                stats = await self._admin.internal_stats(self._topic)
                if _CURSOR in stats.cursors:
                    return
            self._droppable = 0
            self._metrics.compactions.inc()
            await self._admin.compact(self._topic)
        except Conflict:
            return  # one is under way
        except AdminError as error:
            self._droppable = max(self._droppable, self._after)  # due again
            self._metrics.compaction_errors.inc()
            _log.warning("! slot not compacted", extra={"topic": self._topic, "reason": str(error)})
