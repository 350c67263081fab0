"""Entries that the broker keeps from every reader: where transactions end, where replicated subscriptions stand.

They take offsets, which are gaps to consumers, and may be the last ones of a topic: who waits for its last entry would
then wait for ever. The admin API tells of each what it is; it is asked when an entry does not come.
"""

from collections.abc import AsyncIterator

from bridge.pulsar.admin import Admin, AdminError
from bridge.pulsar.types import EARLIEST, Position


class Markers:
    """Those at the end of one partition."""

    def __init__(self, topic: str, admin: Admin) -> None:
        self._topic = topic
        self._admin = admin
        self._known_run = (EARLIEST, EARLIEST)
        self.end = 0
        """The offset after the last one met."""

    async def are_markers(self, first: Position, last: Position) -> bool:
        """Whether all entries from `first` to `last` are markers."""
        if not self.are_known(first, last):
            if await self.last_visible(last) >= first:
                return False
            self._known_run = first, last
        return True

    def are_known(self, first: Position, last: Position) -> bool:
        """Whether they are known to be."""
        return self._known_run[0] <= first and self._known_run[1] == last

    async def last_visible(self, last: Position) -> Position:
        """The last entry up to this one that readers get; EARLIEST if there is none."""
        try:
            async for position in self._back(last):
                index = await self._admin.marker_index(self._topic, position)
                if index is None:
                    return position
                self.end = max(self.end, index + 1)
        except AdminError:  # this login may not ask: nothing is known to be a marker
            return last
        return EARLIEST

    async def _back(self, last: Position) -> AsyncIterator[Position]:
        for ledger in reversed(await self._admin.ledgers(self._topic)):
            if ledger.ledger_id <= last.ledger:
                newest = last.entry if ledger.ledger_id == last.ledger else ledger.entries - 1
                for number in range(newest, -1, -1):
                    yield Position(ledger.ledger_id, number)
