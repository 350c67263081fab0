"""Coordinates the transactional ids whose slots this process owns: the order of each id's requests, and time-outs.

The order, which no outcome may contradict:

1. What is added to a transaction may be under way together with more that is added: each is computed on the newest
   record that was submitted, and answered when its own is stored.
2. What decides, and all that begins another epoch, waits for all of that. Nothing of the id follows before it is
   stored.
3. A write without a receipt in time closes the id until its outcome is known: it is stored and applied, or the slot is
   lost and read again. Until then the id's requests are told to come again. Else an abort by time, computed on what was
   known before, could contradict a commit.
4. What is answered without a write is confirmed first: a process that was frozen believes that it owns the slot.
5. A lost slot is forgotten; who waits is told to look for the coordinator.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final, Literal, TypeAlias

from bridge.config import TransactionSettings
from bridge.errors import KafkaError, Unanswered
from bridge.kafka.error_codes import ErrorCode
from bridge.owned_log import OwnedLog, Record
from bridge.runtime.futures import gathered, in_chunks, in_turns, loop_time
from bridge.storage.visibility import Identity
from bridge.telemetry import log
from bridge.telemetry.metrics import Standing, TransactionMetrics
from bridge.transactions import records, state
from bridge.transactions.newest_connections import Connection, NewestConnections
from bridge.transactions.records import AbortedKey, BlockKey
from bridge.transactions.state import NEEDS_PRODUCER_ID, Change, NeedsProducerId, Partition, Status, TransactionRecord
from bridge.transactions.table import Table
from bridge.transactions.turns import Turns

_log = log.get(__name__)

_TIME_OUT_SECONDS: Final = 1.0
"""Between two looks for transactions that are open for too long."""
_EXPIRY_SECONDS: Final = 3600.0
_SOME_GROUP: Final = frozenset({""})
_MOST_ABORT_BYTES: Final = 1024
"""Of the entry of an abort, but for its id and for what its transaction names."""

_Asked: TypeAlias = Change | Literal[NeedsProducerId.NEEDS_PRODUCER_ID]
_Ask: TypeAlias = Callable[[TransactionRecord | None, int | None], _Asked]
"""What a request leads to, by the id's record and a new producer id where one is needed."""


def _spare(transactional_id: str) -> int:
    """What the entry that aborts a transaction may have more than the one that has added the last to it: the record of
    the id once more, as it is with nothing in it, and the longest key of an aborted one."""
    return 4 * len(transactional_id) + _MOST_ABORT_BYTES


class _Line:
    """One transactional id while there are requests for it, or writes whose outcome is not known."""

    def __init__(self, slot: int, transactional_id: str) -> None:
        self.slot = slot
        self.transactional_id = transactional_id
        self.turns = Turns()
        self.requests = 0
        self.unsettled = 0
        """Writes whose outcome is not known."""
        self.tip: TransactionRecord | None = None
        """The record as the last of them leaves it; the table's counts where there are none."""
        self.last: asyncio.Future[None] | None = None
        """Done when the last of them is stored, in time."""
        self.closed_at = inf
        """When a write failed whose outcome is not known, by the loop's time."""
        self.is_lost = False


class Coordinator:
    """Serves the requests of all ids of one namespace that live in this process's slots."""

    def __init__(
        self,
        transaction_log: OwnedLog,
        table: Table,
        settings: TransactionSettings,
        metrics: TransactionMetrics,
        new_producer_id: Callable[[], Awaitable[int]],
        namespace: str,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._log = transaction_log
        self._table = table
        self._settings = settings
        self._metrics = metrics
        self._new_producer_id = new_producer_id
        self._namespace = namespace
        self._wall = wall
        self._newest: defaultdict[int, NewestConnections] = defaultdict(NewestConnections)
        self._lines: dict[str, _Line] = {}
        self._open_since: dict[str, tuple[Identity, float]] = {}
        """Since when this process knows each open transaction of its slots: a clock elsewhere, or one that is set, may
        have any time."""
        self._expired_at = -inf
        self._task: asyncio.Task[None] | None = None
        table.on_lost.append(self._lost)

    def start(self) -> None:
        """Look for what is open for too long, and for ids that nobody uses, from now on."""
        self._task = asyncio.get_running_loop().create_task(self._keep_looking(), name="transactions' time-outs")

    async def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # ---- requests ----------------------------------------------------------------------------------------------------
    #
    # All raise KafkaError where the slot is not served here now, or a write fails; what the state machine refuses is in
    # the Change. `connection`: of a client of protocol 1; Unanswered where a newer one has spoken for the id.

    async def init_producer_id(
        self, transactional_id: str, producer_id: int, epoch: int, timeout_ms: int, connection: Connection | None
    ) -> Change:
        """Begin another epoch, and abort what is open."""
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            return Change(ErrorCode.INVALID_TRANSACTION_TIMEOUT)

        def ask(record: TransactionRecord | None, new_producer_id: int | None) -> _Asked:
            if record is None and self._table.count() >= self._settings.max_ids:
                self._metrics.refused.inc()
                return Change(ErrorCode.POLICY_VIOLATION)
            return state.init_producer_id(record, producer_id, epoch, timeout_ms, new_producer_id, self._now())

        return await self._serve(transactional_id, ask, connection, alone=True, begins=True)

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Sequence[Partition],
        firsts: Mapping[tuple[str, int], int],
        *,
        protocol: int,
        connection: Connection | None = None,
    ) -> Change:
        """Name partitions that the transaction is about to write to; `firsts`: as in its record."""
        most = self._settings.max_partitions

        def ask(record: TransactionRecord | None, _: int | None) -> Change:
            added = state.add_partitions(record, producer_id, epoch, partitions, firsts, protocol, most, self._now())
            return self._within_limit(record, added)

        return await self._serve(transactional_id, ask, connection, alone=False)

    async def add_group(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        group: str,
        *,
        protocol: int,
        connection: Connection | None = None,
    ) -> Change:
        """Name a group whose offsets the transaction is about to commit."""

        def ask(record: TransactionRecord | None, _: int | None) -> Change:
            return self._within_limit(record, state.add_group(record, producer_id, epoch, group, protocol, self._now()))

        return await self._serve(transactional_id, ask, connection, alone=False)

    async def end(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        committed: bool,
        protocol: int,
        connection: Connection | None = None,
    ) -> Change:
        """Commit or abort."""
        began = loop_time()

        def ask(record: TransactionRecord | None, new_producer_id: int | None) -> _Asked:
            return state.end(record, producer_id, epoch, committed, protocol, new_producer_id, self._now())

        change = await self._serve(transactional_id, ask, connection, alone=True)
        if change.record is not None:
            self._metrics.end_seconds.observe(loop_time() - began)
            if committed:
                self._metrics.commits.inc()
        return change

    async def abort(self, transactional_id: str, producer_id: int, epoch: int) -> Change:
        """Abort the transaction of this epoch if it is open, though its client has not asked for it."""

        def ask(record: TransactionRecord | None, new_producer_id: int | None) -> _Asked:
            if record is None or (record.producer_id, record.epoch) != (producer_id, epoch):
                return Change()
            return state.fence(record, self._now(), new_producer_id)

        return await self._serve(transactional_id, ask, None, alone=True)

    async def describe(self, transactional_id: str) -> TransactionRecord | None:
        """The newest record; None: the id is not known."""
        slot = self._log.slot_of(transactional_id)
        await self._log.owned(slot)
        await self._log.confirm(slot)
        return self._table.record(slot, transactional_id)

    async def all(self) -> list[tuple[str, TransactionRecord]]:
        """The newest record of each id that is coordinated here."""
        await self._log.all_owned()
        slots = self._table.owned_slots()
        await gathered(self._log.confirm(slot) for slot in slots)
        return [one for slot in slots for one in self._table.records(slot).items()]

    async def forget_aborted(self, slot: int, producer_id: int, gone: Mapping[AbortedKey | BlockKey, bytes]) -> int:
        """Delete records of a producer's aborted transactions that still have these values; how many that were.

        KafkaError where the slot is not served here now, or a write fails.
        """
        transactional_id = self._table.id_of(producer_id)
        deleted = 0
        if transactional_id is None:  # no decision of its can be under way, nor will there be another one
            async for some in in_chunks(list(gone.items())):
                if entry := self._unchanged(slot, some):
                    await self._log.store(slot, entry).done
                    deleted += len(entry)
        else:
            async with self._turn(transactional_id, alone=True) as line:
                async for some in in_chunks(list(gone.items())):
                    record = self._record(line)
                    if entry := self._unchanged(slot, some):
                        await self._store(line, entry, record)
                        deleted += len(entry)
        self._metrics.pruned_records.inc(deleted)
        return deleted

    def _unchanged(self, slot: int, gone: Collection[tuple[AbortedKey | BlockKey, bytes]]) -> list[Record]:
        held = self._table.aborted_records(slot)
        if held is None:
            return []
        return [Record(records.encode_key(key), None) for key, value in gone if held.value(key) == value]

    # ---- the order of one id -----------------------------------------------------------------------------------------

    async def _serve(
        self, transactional_id: str, ask: _Ask, connection: Connection | None, *, alone: bool, begins: bool = False
    ) -> Change:
        """`begins`: what it writes begins an epoch, in which its connection may speak."""
        async with self._turn(transactional_id, alone=alone) as line:
            new_producer_id = None
            while (change := ask(self._record(line), new_producer_id)) is NEEDS_PRODUCER_ID:
                new_producer_id = await self._new_producer_id()
            before = self._record(line)
            # what is refused anyway does no harm, on whichever connection it comes
            begins = begins and change.record is not None
            if connection is not None and change.error is ErrorCode.NONE and not begins:
                self._admit(line, connection)
            if change.record is None:
                await self._confirm(line)
                return change
            await self._store(line, self._entry(line, before, change), change.record)
            if connection is not None and begins and not line.is_lost:
                self._newest[line.slot].begin(transactional_id, connection)
        if change.aborted is not None:
            self._metrics.aborts.inc()
        return change

    @asynccontextmanager
    async def _turn(self, transactional_id: str, *, alone: bool) -> AsyncIterator[_Line]:
        slot = self._log.slot_of(transactional_id)
        await self._log.owned(slot)
        line = self._lines.get(transactional_id)
        if line is None:
            line = self._lines[transactional_id] = _Line(slot, transactional_id)
        line.requests += 1
        try:
            async with line.turns.turn(alone=alone):
                yield line
        finally:
            line.requests -= 1
            self._forget_idle(line)

    def _record(self, line: _Line) -> TransactionRecord | None:
        """What the next request is computed on."""
        if line.is_lost:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "the slot was lost meanwhile")
        if line.closed_at < inf:
            text = "the outcome of a write to this transactional id is not known yet"
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, text)
        self._log.check(line.slot)
        if not self._table.is_readable(line.slot, line.transactional_id):
            text = "a later version of the bridge has written to this transactional id"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
        return line.tip if line.unsettled else self._table.record(line.slot, line.transactional_id)

    def _within_limit(self, before: TransactionRecord | None, change: Change) -> Change:
        """A change; where it would begin a transaction and too many are open, clients wait and come again.

        Those are counted that are stored, as far as this node knows: what begins in the same moments comes on top.
        """
        begins = change.record is not None and before is not None and before.status is not Status.OPEN
        if begins and self._table.count_open() >= self._settings.max_open:
            self._metrics.refused.inc()
            return Change(ErrorCode.CONCURRENT_TRANSACTIONS)
        return change

    def _admit(self, line: _Line, connection: Connection) -> None:
        taken_at = self._table.taken_at(line.slot)
        if not self._newest[line.slot].admit(line.transactional_id, connection, taken_at):
            text = "a newer connection speaks for this transactional id, or may do so at another node"
            raise Unanswered(ErrorCode.NOT_COORDINATOR, text)

    async def _confirm(self, line: _Line) -> None:
        if line.unsettled and line.last is not None:  # the answer rests on it
            await asyncio.shield(line.last)
        await self._log.confirm(line.slot)
        if line.is_lost:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "the slot was lost meanwhile")

    def _entry(self, line: _Line, before: TransactionRecord | None, change: Change) -> list[Record]:
        """What is stored of a change, together; what is aborted comes first: readers go by the record behind it."""
        assert change.record is not None  # noqa: S101 - the caller has looked
        entry = [Record(records.id_key(line.transactional_id), records.encode(change.record))]
        if change.aborted is None:
            return entry
        held = self._table.aborted_records(line.slot)
        assert before is not None and held is not None  # noqa: S101 - nothing is open without, or not held here
        # of groups it only matters whether there are any; names may be as long and as many as clients like
        named = replace(before, groups=_SOME_GROUP) if before.groups else before
        value = records.encode_aborted(change.record.changed_ms, named)
        return [*map(Record._make, held.to_store(change.aborted, value)), *entry]

    async def _store(self, line: _Line, entry: Sequence[Record], tip: TransactionRecord | None) -> None:
        spare = 0 if tip is None or tip.status is not Status.OPEN else _spare(line.transactional_id)
        stored = self._log.store(line.slot, entry, spare)
        line.tip, line.last = tip, stored.done
        line.unsettled += 1
        stored.settled.add_done_callback(partial(self._settled, line))
        try:
            await asyncio.shield(stored.done)
        except BaseException:  # also a cancellation: nothing follows before the outcome is known
            if line.unsettled and not line.is_lost:
                line.closed_at = min(line.closed_at, loop_time())
                _log.warning("! transactional id closed", extra={"id": line.transactional_id[:256]})
            raise

    def _settled(self, line: _Line, _: "asyncio.Future[None]") -> None:
        line.unsettled -= 1
        if not line.unsettled:
            line.tip = line.last = None
            line.closed_at = inf
            self._forget_idle(line)

    def _forget_idle(self, line: _Line) -> None:
        if not line.requests and not line.unsettled and self._lines.get(line.transactional_id) is line:
            del self._lines[line.transactional_id]

    def _lost(self, slot: int) -> None:
        for line in [one for one in self._lines.values() if one.slot == slot]:
            line.is_lost = True
            del self._lines[line.transactional_id]
        self._newest.pop(slot, None)
        for transactional_id in self._table.records(slot):
            self._open_since.pop(transactional_id, None)

    # ---- what nobody asks for ----------------------------------------------------------------------------------------

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(_TIME_OUT_SECONDS)
            try:
                await self.look()
            except Exception as bug:  # noqa: BLE001 - what is open must not stay so forever
                _log.error("! time-outs of transactions failed", exc_info=bug)

    async def look(self) -> None:
        """Abort what is open for too long; forget ids that nobody uses, once an hour."""
        self._note_open()
        due = [one for one, record in self._open() if self._is_due(one, record)]
        await gathered(map(self._time_out, due))
        if loop_time() - self._expired_at >= _EXPIRY_SECONDS:
            self._expired_at = loop_time()
            await self._expire_idle()
        self._show()

    def _open(self) -> Iterator[tuple[str, TransactionRecord]]:
        for slot in self._table.owned_slots():
            yield from self._table.open_records(slot)

    def _note_open(self) -> None:
        now, known = loop_time(), self._open_since
        self._open_since = {}
        for transactional_id, record in self._open():
            identity, since = known.get(transactional_id, (None, now))
            self._open_since[transactional_id] = record.identity, since if identity == record.identity else now

    def _is_due(self, transactional_id: str, record: TransactionRecord) -> bool:
        """By the clock that is shown to people, or by how long it is open here; too early is safe."""
        identity, since = self._open_since.get(transactional_id, (None, inf))
        known_for = loop_time() - since if identity == record.identity else 0.0
        return max(self._now() - record.begun_ms, known_for * 1000) >= record.timeout_ms

    async def _time_out(self, transactional_id: str) -> None:
        def ask(record: TransactionRecord | None, new_producer_id: int | None) -> _Asked:
            if record is None or record.status is not Status.OPEN or not self._is_due(transactional_id, record):
                return Change()
            return state.fence(record, self._now(), new_producer_id)

        try:
            change = await self._serve(transactional_id, ask, None, alone=True)
        except KafkaError as error:  # the next look tries it again
            _log.warning("! no time-out yet", extra={"id": transactional_id[:256], "reason": str(error)})
            return
        except Exception as bug:  # noqa: BLE001 - the others are due as well
            _log.error("! time-outs of transactions failed", extra={"id": transactional_id[:256]}, exc_info=bug)
            return
        if change.record is not None:
            self._metrics.timeouts.inc()
            _log.info("= transaction timed out", extra={"id": transactional_id[:256]})

    async def _expire_idle(self) -> None:
        slots = self._table.owned_slots()
        idle = [
            transactional_id
            for slot in slots
            async for transactional_id, record in in_turns(list(self._table.records(slot).items()))
            if self._is_idle(record)
        ]
        await gathered(map(self._expire, idle))

    def _is_idle(self, record: TransactionRecord) -> bool:
        since = self._now() - record.changed_ms
        return record.status is not Status.OPEN and since >= self._settings.id_expiration_ms

    async def _expire(self, transactional_id: str) -> None:
        with suppress(KafkaError):  # the next time
            async with self._turn(transactional_id, alone=True) as line:
                record = self._record(line)
                if record is None or not self._is_idle(record):
                    return
                await self._store(line, [Record(records.id_key(transactional_id), None)], None)
                self._newest[line.slot].forget(transactional_id)
                self._metrics.expired_ids.inc()

    def _show(self) -> None:
        now, table = self._now(), self._table
        begun = [record.begun_ms for _, record in self._open()]
        closed = [line.closed_at for line in self._lines.values() if line.closed_at < inf]
        standing = Standing(
            ids=sum(len(table.records(slot)) for slot in table.owned_slots()),
            open=len(begun),
            open_seconds=max(now - min(begun, default=now), 0) / 1000,
            aborted=sum(map(table.count_aborted, table.owned_slots())),
            closed=len(closed),
            closed_seconds=loop_time() - min(closed) if closed else 0.0,
        )
        self._metrics.show(self._namespace, standing)

    def _now(self) -> int:
        return int(self._wall() * 1000)
