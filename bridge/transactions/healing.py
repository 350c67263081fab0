"""Looks after what this process knows of all slots of one namespace.

No transaction is open for longer than its time-out and some seconds, which its coordinator sees to. What is known to be
open for twice as long is either open, and its coordinator fails; or it is known wrongly here, by a fault that nothing
else has noticed. So the slot's copy is loaded again, for then it is right. A question that has failed is asked
again, so that the age of the table says what is true now.
"""

import asyncio
from math import inf
from typing import Final

from bridge.runtime.futures import in_turns, loop_time
from bridge.storage.visibility import Identity
from bridge.telemetry import log
from bridge.telemetry.metrics import Known, TransactionMetrics
from bridge.transactions.feeds import Feeds
from bridge.transactions.state import TransactionRecord
from bridge.transactions.table import Table

_log = log.get(__name__)

_LOOK_SECONDS: Final = 5.0
_LEAST_SECONDS: Final = 15.0
"""Beyond its time-out a transaction may be open for so long, however short that is."""
_RELOAD_SECONDS: Final = 60.0
"""Between two loads of one slot: if its coordinator fails, they do not help."""


class Healing:
    """Has loaded again what is open for too long, and shows it."""

    def __init__(self, table: Table, feeds: Feeds, metrics: TransactionMetrics, namespace: str) -> None:
        self._table = table
        self._feeds = feeds
        self._metrics = metrics
        self._namespace = namespace
        self._open_since: dict[Identity, float] = {}
        """Since when this process knows each open transaction, by the loop's time: clocks of nodes differ."""
        self._reloaded_at: dict[int, float] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on."""
        self._task = asyncio.get_running_loop().create_task(self._keep_looking(), name="transactions' healing")

    async def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> None:
        """Have loaded and asked again what is due, and show how the table stands."""
        known, self._open_since = self._open_since, {}
        overdue = 0
        for slot in self._table.known_slots():
            found = [name async for name, record in in_turns(self._open(slot)) if self._is_overdue(record, known)]
            overdue += len(found)
            if found:
                self._reload(slot, found[0])
        self._metrics.show_known(self._namespace, Known(overdue, self._feeds.age()))
        await self._feeds.ask_again()

    def _open(self, slot: int) -> list[tuple[str, TransactionRecord]]:
        return list(self._table.open_records(slot))

    def _is_overdue(self, record: TransactionRecord, known: dict[Identity, float]) -> bool:
        now, time_out = loop_time(), record.timeout_ms / 1000
        since = self._open_since[record.identity] = known.get(record.identity, now)
        return now - since > time_out + max(time_out, _LEAST_SECONDS)

    def _reload(self, slot: int, transactional_id: str) -> None:
        if loop_time() - self._reloaded_at.get(slot, -inf) >= _RELOAD_SECONDS:
            self._reloaded_at[slot] = loop_time()
            is_followed = self._feeds.reload(slot)
            extra = {"id": transactional_id[:256], "slot": slot, "read_anew": "yes" if is_followed else "no"}
            _log.warning("! transaction open for too long", extra=extra)

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await self.look()
            except Exception as bug:  # noqa: BLE001 - the next look may go well
                _log.error("! healing of transactions failed", exc_info=bug)
