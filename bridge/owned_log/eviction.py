"""Frees a slot from a holder that will not let it go: one that is frozen, cut off, or a lost session of this process.

Its topic is unloaded, which ends every session there, whatever the holder's connection is like. Then the slot is taken
as any other. Pulsar's own way, ExclusiveWithFencing, lets two in that ask at the same moment; unloading lets none in.
"""

import asyncio
from contextlib import suppress
from typing import Final

from bridge.errors import BridgeError
from bridge.owned_log.dependencies import SlotDependencies
from bridge.owned_log.slot_reader import SlotReader
from bridge.owned_log.succession import Holder, Succession
from bridge.pulsar.types import EARLIEST
from bridge.telemetry.log import Log

_RETRY_SECONDS: Final = 0.1
_NEW_SECONDS: Final = 10.0
_LATER_RETRY_SECONDS: Final = 1.0
_AFTER_SECONDS: Final = 1.0
"""Of being refused: a holder that lets go in order needs some milliseconds."""
_MAX_SECONDS: Final = 60.0
_TIMEOUT: Final = 10.0


async def latest_holder(topic: str, dependencies: SlotDependencies, logger: Log) -> Holder | None:
    """Whose marker is the last in a slot, by reading it; None where there is none."""
    succession = Succession()
    reader = await dependencies.client.reader(topic, EARLIEST, read_compacted=True)
    slot = SlotReader(reader, succession, dependencies.metrics, logger)
    try:
        end, position = await slot.last_position(), EARLIEST
        while position < end:
            position = (await slot.next()).position
    finally:
        await slot.close()
    return succession.holder


class Eviction:
    """The eviction of a holder that has lost one slot and still has its name."""

    def __init__(self, topic: str, dependencies: SlotDependencies, logger: Log) -> None:
        self._topic = topic
        self._dependencies = dependencies
        self._log = logger
        self._orphaned = False
        self._allowed = False
        self._refused_since: float | None = None
        self._look_after = _AFTER_SECONDS

    def allow(self, *, orphaned: bool) -> None:
        """Whether the former owner is out of the cluster: it may be thrown out then, until the slot is taken."""
        if orphaned != self._orphaned:
            self._orphaned = self._allowed = orphaned
            self._refused_since = None

    @property
    def retry_seconds(self) -> float:
        """Until the next try, where it is in vain: a holder that has not let go for long will not do so soon."""
        since = self._refused_since
        is_new = since is None or asyncio.get_running_loop().time() - since < _NEW_SECONDS
        return _RETRY_SECONDS if is_new else _LATER_RETRY_SECONDS

    def taken(self) -> None:
        """The slot is ours: its former owner is gone."""
        self._allowed = False
        self._refused_since = None

    def released(self) -> None:
        """The slot is wanted no more."""
        self.allow(orphaned=False)

    async def refused(self) -> bool:
        """Another has the slot: True if it was thrown out, so that trying again at once is worth it."""
        now = asyncio.get_running_loop().time()
        if self._refused_since is None:
            self._refused_since = now
            self._look_after = _AFTER_SECONDS
        waited = now - self._refused_since
        if waited < self._look_after:
            return False
        if self._allowed:
            self._look_after = waited + _AFTER_SECONDS  # again, if one that lives comes back
            return await self._evict("its owner has left the cluster")
        self._look_after = waited + min(2 * self._look_after, _MAX_SECONDS)
        holder = await self._look()
        if holder is not None and holder.owner == self._dependencies.owner:
            return await self._evict("it is a lost session of this process")
        if holder is not None:
            self._log.info("= slot held by another bridge", extra={"owner": holder.owner})
        return False

    async def _look(self) -> Holder | None:
        """Who has the slot, by the last marker; None where that cannot be told."""
        with suppress(BridgeError, TimeoutError):
            async with asyncio.timeout(_TIMEOUT):
                return await latest_holder(self._topic, self._dependencies, self._log)
        return None

    async def _evict(self, reason: str) -> bool:
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self._dependencies.admin.unload(self._topic)
        except (BridgeError, TimeoutError) as error:
            self._log.warning("! slot not freed", extra={"reason": str(error)})
            return False
        self._log.warning("! slot freed from its holder", extra={"reason": reason})
        return True
