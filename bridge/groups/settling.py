"""Settles the offsets of decided transactions (`store.visible`): nothing that is decided stays pending.

It goes on in the background, and what is visible does not change by it. It begins when a transaction is decided that
has offsets in a slot of this node, and when a slot is taken. Each slot has one task, while there is anything to do, and
a limited number of partitions is written at a time. What could not be settled, as a write failed or another one has no
outcome yet, is tried again after some seconds: what is visible is right meanwhile, but nothing expires, and each look
at the group goes through it.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

from bridge.groups.store.records import Key
from bridge.groups.store.saving import submit
from bridge.groups.store.store import GroupStore
from bridge.groups.store.visible import TopicPartition, open_offsets, settling
from bridge.runtime.futures import in_chunks, in_turns
from bridge.storage.visibility import Transaction
from bridge.telemetry import log

_log = log.get("groups.settling")

_DELAY_SECONDS: Final = 0.2
"""Transactions come one after another: one write settles those of this long."""
_AGAIN_SECONDS: Final = 5.0
"""Until what could not be settled is tried again."""

_Place: TypeAlias = tuple[str, TopicPartition]
"""A group, and a partition of which it has pending offsets."""


class Settling:
    """The pending offsets of all groups of this node."""

    def __init__(self, store: GroupStore) -> None:
        self._store = store
        self._outcomes = store.outcomes
        self._places: set[_Place] = set()  # where something was pending at the last count, or has been since
        self._waiting: dict[Transaction, set[_Place]] = {}  # for open transactions, each of which is watched
        self._due: dict[int, dict[_Place, None]] = {}  # of each slot that has a task
        self._left: dict[_Place, None] = {}  # what could not be settled
        self._again: asyncio.TimerHandle | None = None  # runs while there is any
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, group_ids: Iterable[str]) -> None:
        """Settle from now on; these groups are known already."""
        self._store.on_pending.append(self._look)
        self._store.on_owned.append(self._owned)
        self._spawn(self.look_at(group_ids))

    async def close(self) -> None:
        """Settle no more; the next one that has the slots does."""
        with suppress(ValueError):  # not started
            self._store.on_pending.remove(self._look)
            self._store.on_owned.remove(self._owned)
        if self._again is not None:
            self._again.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def look_at(self, group_ids: Iterable[str]) -> None:
        """Settle what is decided of these groups, and wait for the rest."""
        async for group_id in in_turns(group_ids):
            for where in list(self._store.known(group_id).pendings):
                self._look(group_id, where)

    async def pending(self) -> tuple[int, int | None]:
        """How many offsets are pending, and when the oldest was committed (ms); None where there are none."""
        count, oldest = 0, None
        async for place in in_turns(list(self._places)):
            group_id, where = place
            pendings = self._store.known(group_id).pendings.get(where)
            if not pendings:
                self._places.discard(place)
                continue
            times = [one.offset.committed_at_ms for one in pendings]
            count += len(times)
            oldest = min(times) if oldest is None else min(oldest, *times)
        return count, oldest

    def _owned(self, group_ids: list[str]) -> None:
        """A slot was taken."""
        self._spawn(self.look_at(group_ids))

    def _look(self, group_id: str, where: TopicPartition) -> None:
        """Offsets of a group are pending."""
        group = self._store.known(group_id)
        self._places.add((group_id, where))
        still_open = open_offsets(group, where, self._outcomes.outcome)
        for transaction, _ in still_open:
            places = self._waiting.get(transaction)
            if places is None:
                places = self._waiting[transaction] = set()
                self._outcomes.watch(transaction, partial(self._decided, transaction))
            places.add((group_id, where))
        if len(still_open) < len(list(group.pendings.get(where, ()))):
            self._settle_soon((group_id, where))

    def _decided(self, transaction: Transaction) -> None:
        for place in self._waiting.pop(transaction, ()):
            self._settle_soon(place)

    def _settle_soon(self, place: _Place) -> None:
        slot = self._store.slot_of(place[0])
        if slot in self._due:
            self._due[slot][place] = None
        else:
            self._due[slot] = {place: None}
            self._spawn(self._settle_slot(slot))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="settle offsets")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle_slot(self, slot: int) -> None:
        try:
            while self._due[slot]:
                await asyncio.sleep(_DELAY_SECONDS)
                places, self._due[slot] = list(self._due[slot]), {}
                async for some in in_chunks(places):
                    await self._settle(some)
        finally:
            del self._due[slot]

    async def _settle(self, places: Sequence[_Place]) -> None:
        """Settle what can be; the rest is tried again."""
        writes, submitted = [], []
        for group_id, some in groupby(places, itemgetter(0)):
            of_group = list(some)
            if records := self._records(of_group):
                # it takes its place in the order in the step in which it was found out
                writes.append(submit(self._store, group_id, records))
                submitted.append(of_group)
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        errors = [error for error in outcomes if error is not None]
        if errors:
            _log.warning("! offsets not settled", extra={"groups": len(errors), "reason": str(errors[0])})
            self._try_again(
                place for some, error in zip(submitted, outcomes, strict=True) if error is not None for place in some
            )

    def _records(self, places: Sequence[_Place]) -> dict[Key, bytes | None]:
        """What is to be stored now of some places of one group."""
        records = dict[Key, bytes | None]()
        for place in places:
            group_id, where = place
            if (group_id, *where) in self._store.under_way:
                # it would be overtaken; when it is stored there is another look, but it may fail
                self._try_again([place])
            else:
                records |= settling(group_id, self._store.known(group_id), where, self._outcomes.outcome)
        return records

    def _try_again(self, places: Iterable[_Place]) -> None:
        self._left |= dict.fromkeys(places)
        if self._again is None and self._left:
            self._again = asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._settle_left)

    def _settle_left(self) -> None:
        self._again = None
        left, self._left = self._left, {}
        for place in left:
            self._settle_soon(place)
