"""Up to where a partition's transactions are decided, and which entries readers of committed records get.

Such a reader is stopped before the first entry of an open transaction, whatever is known of the last stable offset:
that only tells others how far it gets. Entries of aborted transactions are left out. Where nothing follows them in an
answer, one control batch spans their offsets, so that the reader's position moves on; between batches nothing stands
for them. The list of aborted transactions stays empty: a client has nothing to filter.

Entries of KoP name no transaction here. Those that it aborted are left out by their offsets, which an administrator has
imported (`bridge import kop`); nothing of KoP's is open. All its other entries are served as they are.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.futures import loop_time
from bridge.security.left_out import LeftOut
from bridge.storage.read.batches import Batch, ControlBatch
from bridge.storage.read.log_end import LogEnd
from bridge.storage.read.search import Search
from bridge.storage.visibility import OpenTransaction, Outcome, Outcomes, Transaction

_CLOCKS_MS: Final = 10_000
"""How far the clocks of a node and of Pulsar may be apart."""
_CONFIRM_SECONDS: Final = 6.0
_AGAIN_SECONDS: Final = 0.1
_NOTHING: Final = LeftOut()


class OpenHere(NamedTuple):
    """Where an open transaction has written in a partition."""

    transaction: Transaction
    first: int
    """Its first offset; where that may not have been met, one at or below it."""
    written_ms: int = -1
    """When its last entry was published; −1 where none was met."""


class StableOffset:
    """The last stable offset of one partition."""

    def __init__(
        self,
        outcomes: Outcomes,
        end: LogEnd,
        start: Callable[[], int],
        met_from: Callable[[], int | None],
        search: Search,
        topic_id: str,
        partition: int,
        left_out: Callable[[], LeftOut | None] = lambda: None,
    ) -> None:
        """`start`: the log start as last asked for; `met_from`: the offset from which on each entry is told to `met`,
        None where none is; `topic_id`: in hexadecimal digits; `left_out`: the offsets that were aborted before."""
        self._outcomes = outcomes
        self._end = end
        self._start = start
        self._met_from = met_from
        self._search = search
        self._topic_id = topic_id
        self._partition = partition
        self.left_out = left_out
        """The offsets that were aborted before the bridge came, as they are known now."""
        self._open: dict[Transaction, OpenHere] = {}  # those met
        self._found: dict[Transaction, int] = {}  # for those named here, where their records may begin
        self._held: tuple[int, float] | None = None  # where it was held at the last look, and since when

    @property
    def offset(self) -> int:
        """As far as it is known without asking: it may be too high while an open transaction has not been met."""
        named = self._outcomes.open_in(self._topic_id, self._partition)
        if not named and not self._open:
            return self._end.offset
        firsts = [self._end.offset, *(one.first for one in self._all(named))]
        return max(min(firsts), self._start())

    @property
    def open_here(self) -> list[OpenHere]:
        """The open transactions that have written here, or may have; as far as it is known without asking."""
        named = self._outcomes.open_in(self._topic_id, self._partition)
        return [one for one in self._all(named) if one.first < self._end.offset]

    def held_for(self, now: float) -> float:
        """How long it has been held back at the same offset, by looks from time to time; `now`: loop time."""
        offset = self.offset
        if offset >= self._end.offset:
            self._held = None
            return 0.0
        if self._held is None or self._held[0] != offset:
            self._held = offset, now
        return now - self._held[1]

    def _all(self, named: Sequence[OpenTransaction]) -> Iterable[OpenHere]:
        outcome = self._outcomes.outcome
        found = {one: here for one, here in self._open.items() if outcome(one) is Outcome.OPEN}
        met_from = self._met_from()
        for one in named:
            first = self._found.get(one.transaction) if one.first is None else one.first
            # else its records were met, if there are any
            if first is not None and (met_from is None or first < met_from):
                here = found.get(one.transaction, OpenHere(one.transaction, first))
                found[one.transaction] = here._replace(first=min(first, here.first))
        return found.values()

    async def ask(self) -> int:
        """The last stable offset of what is stored up to the end as it is known now; KafkaError if it cannot be told.

        Whose outcome any node has answered before the call holds it no more.
        """
        # what comes behind it from now on may be of a transaction that is not known here before this returns
        end = self._end.offset
        await self._confirmed()
        named = self._outcomes.open_in(self._topic_id, self._partition)
        unknown = [one for one in named if one.first is None]
        found = {one.transaction: self._found[one.transaction] for one in unknown if one.transaction in self._found}
        for one in unknown:
            if one.transaction not in found:
                batch = await self._search.find_published(one.begun_ms - _CLOCKS_MS)
                found[one.transaction] = end if batch is None else batch.certain_from
        # another one may have asked meanwhile
        both = {**self._found, **found}
        self._found = {one: first for one, first in both.items() if self._outcomes.outcome(one) is Outcome.OPEN}
        return max(min(self.offset, end), self._start())

    async def _confirmed(self) -> None:
        """Wait a while: slots that change hands, or are new, cannot be asked for a second or two."""
        until = loop_time() + _CONFIRM_SECONDS
        while True:
            try:
                return await self._outcomes.confirm()
            except KafkaError as error:
                if loop_time() > until:  # what coordinators say is nothing that a client expects of a leader
                    raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, str(error)) from None
            await asyncio.sleep(_AGAIN_SECONDS)

    def met(self, batch: Batch) -> None:
        """An entry was read: if its transaction is open, it holds the last stable offset."""
        transaction = batch.transaction
        if transaction is None or self._outcomes.outcome(transaction) is not Outcome.OPEN:
            return
        known = self._open.get(transaction)
        if known is None:
            self._outcomes.watch(transaction, partial(self._decided, transaction))
            known = OpenHere(transaction, batch.base)
        first, written_ms = min(known.first, batch.base), max(known.written_ms, batch.published_at)
        self._open[transaction] = OpenHere(transaction, first, written_ms)

    def visible(self, batches: Sequence[Batch]) -> Sequence[Batch | ControlBatch]:
        """What readers of committed records get of these consecutive batches; nothing before an open transaction."""
        aborted = self.left_out()
        if aborted is not None:
            return self._visible(batches, aborted)
        for batch in batches:
            if batch.transaction is not None:
                return self._visible(batches, _NOTHING)
        return batches

    def _visible(self, batches: Sequence[Batch], aborted: LeftOut) -> Sequence[Batch | ControlBatch]:
        """`aborted`: offsets beside those of entries that name their transaction."""
        found: list[Batch | ControlBatch] = []
        left_out: list[Batch] = []
        for batch in batches:
            outcome = Outcome.COMMITTED if batch.transaction is None else self._outcomes.outcome(batch.transaction)
            if outcome is Outcome.OPEN:
                self.met(batch)
                break
            if outcome is Outcome.ABORTED or batch.base in aborted:
                left_out.append(batch)
                continue
            left_out.clear()
            found.append(batch)
        if left_out:
            found.append(ControlBatch(left_out[0], left_out[-1]))
        return found

    def _decided(self, transaction: Transaction) -> None:
        self._open.pop(transaction, None)
        self._end.wake_waiters()
