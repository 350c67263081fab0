"""Deletes the records of aborted transactions of which nothing is left: else they would only become more.

What has no record counts as committed. So a record goes only when no entry and no offset of its transaction is left
anywhere, nor can come any more:

1. A day has gone by since the decision. What was on its way then, as from a node that was frozen, has come by now.
2. Each partition that it names is gone or empty, or all that lies there was stored a day or more after the decision.
   That is told by the broker's time of the first entry, which no client sets; or by a place: where the partition ended
   at a look after that day there is nothing any more.
3. No group has an offset pending in it.
4. So it was at a look some hours before as well. A node may have in memory what Pulsar has trimmed a moment ago, and no
   single answer deletes anything.
5. The record is still the same, and no decision of its transactional id is under way: a block of aborted transactions
   may have got another one (`Coordinator.forget_aborted`).

A topic whose records are kept forever keeps its aborted transactions, too.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from math import inf
from typing import Final, NamedTuple, TypeAlias

from bridge.errors import BridgeError
from bridge.runtime.futures import gathered, in_turns
from bridge.storage.topics.closed_logs import Extent
from bridge.storage.visibility import Identity
from bridge.telemetry import log
from bridge.transactions import records
from bridge.transactions.coordinator import Coordinator
from bridge.transactions.records import AbortedKey, AbortedRecord, BlockKey, Named
from bridge.transactions.table import Table

_log = log.get(__name__)

_LATE_MS: Final = 86_400_000
"""So long after its decision something of a transaction may come to be stored."""
_LOOK_SECONDS: Final = 21_600.0
_MOST_AT_A_LOOK: Final = 10_000
_MOST_BYTES_AT_A_LOOK: Final = 16 * 1024 * 1024
"""Of each slot. The others are found at the looks that follow."""

_Key: TypeAlias = AbortedKey | BlockKey
_Place: TypeAlias = tuple[str, int]
"""A topic's name and a partition."""


class Remains(NamedTuple):
    """Where something may be left of a transaction. Both raise BridgeError or OSError where that cannot be told."""

    extent: Callable[[str, int], Awaitable[Extent | None]]
    """What a partition of a topic holds; None: nothing, or there is none."""
    pending: Callable[[], Awaitable[frozenset[Identity]]]
    """The transactions that have pending offsets in any group."""


class Pruning:
    """Of the slots that this process holds."""

    def __init__(
        self, coordinator: Coordinator, table: Table, remains: Remains, wall: Callable[[], float] = time.time
    ) -> None:
        self._coordinator = coordinator
        self._table = table
        self._remains = remains
        self._wall = wall
        self._ends: dict[_Place, tuple[int, Extent]] = {}
        """What each partition held at a look, and when that was (ms): the next time is noted when all of it is gone."""
        self._gone_before: dict[_Place, float] = {}
        """All that was stored in a partition before this time (ms) is gone, by the places that it had."""
        self._found: dict[int, frozenset[_Key]] = {}
        """By slot: of what nothing was left at the last look."""
        self._looked_ms = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on."""
        self._task = asyncio.get_running_loop().create_task(self._keep_looking(), name="pruning of transactions")

    async def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> None:
        """Delete what was found at the last look and is found again."""
        before, self._looked_ms = self._looked_ms, self._now()
        if self._looked_ms < before:  # the clock was far ahead: these times are still to come
            self._ends.clear()
            self._gone_before.clear()
        look = _Look(self._remains, self._since, self._now)
        found, self._found = self._found, {}
        for slot in self._table.owned_slots():
            gone = await self._gone(slot, look)
            self._found[slot] = frozenset(gone)
            await self._delete(slot, {key: value for key, value in gone.items() if key in found.get(slot, ())})
        self._ends = {place: noted for place, noted in self._ends.items() if place in look.asked}
        self._gone_before = {place: moment for place, moment in self._gone_before.items() if place in look.asked}

    async def _gone(self, slot: int, look: "_Look") -> dict[_Key, bytes]:
        """The records of a slot of whose transactions nothing is left, with their values."""
        gone, size = dict[_Key, bytes](), 0
        latest = self._now() - _LATE_MS
        async for key, value in in_turns(self._table.aborted_records(slot) or ()):
            record = records.decode_block(value) if isinstance(key, BlockKey) else records.decode_aborted(value)
            if record is not None and record.decided_ms <= latest and await look.is_gone(key, value, record):
                gone[key] = value
                size += len(value)
                if len(gone) >= _MOST_AT_A_LOOK or size >= _MOST_BYTES_AT_A_LOOK:
                    break
        return gone

    async def _delete(self, slot: int, gone: Mapping[_Key, bytes]) -> None:
        by_producer: defaultdict[int, dict[_Key, bytes]] = defaultdict(dict)
        for key, value in gone.items():
            by_producer[key.producer_id if isinstance(key, BlockKey) else key.identity.producer_id][key] = value
        counts = await gathered(self._forget(slot, *one) for one in by_producer.items())
        if deleted := sum(counts):
            _log.info("= aborted transactions forgotten", extra={"slot": slot, "records": deleted})

    async def _forget(self, slot: int, producer_id: int, gone: Mapping[_Key, bytes]) -> int:
        try:
            return await self._coordinator.forget_aborted(slot, producer_id, gone)
        except BridgeError as error:  # the next looks find them again
            _log.debug("! aborted transactions not forgotten", extra={"slot": slot, "reason": str(error)})
            return 0

    def _since(self, place: _Place, asked_ms: int, extent: Extent) -> float:
        """A time (ms) before which nothing was stored that a partition holds; `asked_ms`: when it was asked."""
        noted = self._ends.get(place)
        if noted is None or noted[1].last < extent.first:
            if noted is not None:
                self._gone_before[place] = noted[0]
            self._ends[place] = asked_ms, extent
        by_place = self._gone_before.get(place, -inf)
        return by_place if extent.first_stored_at is None else max(by_place, extent.first_stored_at)

    def _now(self) -> int:
        return int(self._wall() * 1000)

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await self.look()
            except Exception as bug:  # noqa: BLE001 - the next look may go well
                _log.error("! pruning of transactions failed", exc_info=bug)


class _Look:
    """One look: each partition is asked for once, and the groups."""

    def __init__(self, remains: Remains, since: Callable[[_Place, int, Extent], float], now: Callable[[], int]) -> None:
        self.asked: dict[_Place, float] = {}
        """Of each partition a time (ms) before which nothing was stored that it holds; −inf: not known."""
        self._remains = remains
        self._since = since
        self._now = now
        self._oldest: dict[bytes, float] = {}
        """The least of what is named together, as many records name the same."""
        self._pending: frozenset[_Key] | None = None

    async def is_gone(self, key: _Key, value: bytes, record: AbortedRecord) -> bool:
        """Whether nothing is left of any transaction of a record."""
        names = value if isinstance(key, BlockKey) else records.split_aborted(value)[1]
        oldest = self._oldest.get(names)
        if oldest is None:
            oldest = self._oldest[names] = await self._oldest_of(record.named)
        if oldest < record.decided_ms + _LATE_MS:
            return False
        return not record.named.groups or await self._has_no_offsets(key)

    async def _oldest_of(self, named: Named) -> float:
        oldest = inf
        for (topic, _), of_topic in named.partitions.items():
            for first, last in of_topic:
                async for partition in in_turns(range(first, last + 1)):
                    place = topic, partition
                    if place not in self.asked:
                        self.asked[place] = await self._ask(place)
                    oldest = min(oldest, self.asked[place])
        return oldest

    async def _ask(self, place: _Place) -> float:
        asked_ms = self._now()
        try:
            extent = await self._remains.extent(*place)
        except (BridgeError, OSError) as error:  # TimeoutError is an OSError
            _log.debug("! partition not asked", extra={"topic": place[0], "partition": place[1], "reason": str(error)})
            return -inf
        return inf if extent is None else self._since(place, asked_ms, extent)

    async def _has_no_offsets(self, key: _Key) -> bool:
        if self._pending is None:
            try:
                pending = await self._remains.pending()
            except (BridgeError, OSError) as error:
                _log.debug("! pending offsets not read", extra={"reason": str(error)})
                return False
            alone = map(AbortedKey, pending)
            self._pending = frozenset([*alone, *(records.block_of(identity)[0] for identity in pending)])
        return key not in self._pending
