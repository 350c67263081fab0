"""Markers: entries that no reader gets, such as ends of transactions and states of replicated subscriptions.

They have offsets, which are gaps to consumers. A marker may be the last entry of a topic, so that waiting for the last
entry would not end. The admin API says of an entry whether it is a marker; it is asked when an entry does not come.
What an entry filter of the broker hides is as a marker here. Only a reader's session tells of it.
"""

from bisect import bisect_right
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import accumulate

from bridge.pulsar import PulsarClient
from bridge.pulsar.admin import Admin, AdminError
from bridge.pulsar.types import EARLIEST, Position
from bridge.runtime.futures import SharedQuery


class Markers:
    """The markers at the end of one partition."""

    def __init__(self, topic: str, admin: Admin, client: PulsarClient) -> None:
        self._topic = topic
        self._admin = admin
        self._client = client
        self._known_run = (EARLIEST, EARLIEST)
        self._behind = SharedQuery(self._find_behind)
        self.end = 0
        """The offset after the last marker found."""

    async def are_markers(self, first: Position, last: Position) -> bool:
        """Whether all entries from `first` to `last` are markers."""
        if not self.are_known(first, last):
            if await self.last_visible(last) >= first:
                return False
            self._known_run = first, last
        return True

    def are_known(self, first: Position, last: Position) -> bool:
        """Whether all entries from `first` to `last` are known to be markers."""
        return self._known_run[0] <= first and self._known_run[1] == last

    async def last_visible(self, last: Position) -> Position:
        """The last entry up to `last` that readers receive; EARLIEST if there is none."""
        try:
            async for position in self._back(last):
                index = await self._admin.marker_index(self._topic, position)
                if index is None:
                    return await self._before_hidden(position)
                self.end = max(self.end, index + 1)
        except AdminError:  # the login may not ask: no entry is known to be a marker
            return last
        return EARLIEST

    async def _before_hidden(self, last: Position) -> Position:
        """The last entry up to this one, which is no marker, that no filter hides; EARLIEST if there is none."""
        if not await self._client.is_passed_over(self._topic, last):
            return last
        self.end = max(self.end, await self._admin.index(self._topic, last) + 1)
        ledgers = [one for one in await self._admin.ledgers(self._topic) if one.ledger_id <= last.ledger]
        counts = (last.entry + 1 if one.ledger_id == last.ledger else one.entries for one in ledgers)
        starts = list(accumulate(counts, initial=0))

        def position(number: int) -> Position:
            at = bisect_right(starts, number) - 1
            return Position(ledgers[at].ledger_id, number - starts[at])

        first_hidden = starts[-1] - 1
        left = 0
        while left < first_hidden:
            middle = (left + first_hidden) // 2
            if await self._client.is_passed_over(self._topic, position(middle)):
                first_hidden = middle
            else:
                left = middle + 1
        return position(first_hidden - 1) if first_hidden else EARLIEST

    async def find_behind(self) -> None:
        """Learn of markers that nothing follows: Pulsar 3.3 names the last entry before them as the topic's last.

        As of this call; concurrent callers share one question: Pulsar takes a millisecond of a core for it.
        """
        await self._behind.look()

    async def _find_behind(self) -> None:
        with suppress(AdminError):
            await self.last_visible((await self._admin.internal_stats(self._topic)).last_confirmed)

    async def _back(self, last: Position) -> AsyncIterator[Position]:
        for ledger in reversed(await self._admin.ledgers(self._topic)):
            if ledger.ledger_id <= last.ledger:
                newest = last.entry if ledger.ledger_id == last.ledger else ledger.entries - 1
                for number in range(newest, -1, -1):
                    yield Position(ledger.ledger_id, number)
