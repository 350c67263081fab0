"""Coordinates the groups of the new consumer protocol (KIP-848): time, topics, the store, and the answers that wait.

A group's machine is ahead of the store: what it answers is given when the state it was answered from is stored. One
write of a group is under way at a time; what happens meanwhile goes with the next. If a write fails, the group goes
back to what was stored, and everybody who waits is told. The failed write may yet come to be stored, before the next
one: its keys are written anew with that.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from bridge import log
from bridge.config import GroupSettings
from bridge.errors import KafkaError
from bridge.futures import in_turns
from bridge.groups.budget import MemberSizes, MetadataBudget, subscription_bytes
from bridge.groups.classic.events import Leave
from bridge.groups.classic.records import BadRecord
from bridge.groups.consumer import records as consumer_records
from bridge.groups.consumer.model import JOINING, NOTHING, GroupSnapshot, GroupState, View
from bridge.groups.consumer.state import Beat, ConsumerGroup, Heartbeat, Limits
from bridge.groups.consumer.topics import Catalogue
from bridge.groups.offsets import Hold
from bridge.groups.store.records import Key, StoredGroup, group_key, member_key, offset_key
from bridge.groups.store.saving import GroupRecordStore, error_of, submit
from bridge.groups.timers import Clock, Timers
from bridge.kafka.error_codes import ErrorCode
from bridge.metrics import GroupMetrics

_T = TypeVar("_T")
_log = log.get(__name__)

_LOOK_AGAIN: Final = 5.0  # seconds between two looks at the topics of a group


class Classics(Protocol):
    """What is asked of the groups of the classic protocol; a group is of one kind."""

    def is_classic(self, group_id: str) -> bool:
        """Whether such a group is in memory."""

    def displace(self, group_id: str, stored: StoredGroup) -> None:
        """Let go of a classic group; GROUP_ID_NOT_FOUND where it has members."""


_Waiting: TypeAlias = tuple["asyncio.Future[Any]", object]
"""An answer, and for whom."""


@dataclass(slots=True, eq=False)
class _Entry:
    """A group in memory."""

    group: ConsumerGroup
    stored: GroupSnapshot
    sizes: MemberSizes
    since_ms: int = 0
    """When it got its last stored state."""
    wake_at: float = inf
    looked_at: float = -inf
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    writing: bool = False
    waiting: list[_Waiting] = field(default_factory=list)
    doubtful: set[Key] = field(default_factory=set)
    """Keys of which we do not know whether the last write of them was stored."""
    gone: ErrorCode = ErrorCode.NONE
    """Why it is not ours any more."""


class ConsumerGroups:
    """Those of this node."""

    def __init__(
        self,
        store: GroupRecordStore,
        settings: GroupSettings,
        metrics: GroupMetrics,
        catalogue: Catalogue,
        classics: Classics,
        clock: Clock,
        wall: Callable[[], float],
        budget: MetadataBudget,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._catalogue = catalogue
        self._classics = classics
        self._clock = clock
        self._wall = wall
        self._budget = budget
        self._limits = Limits(settings.consumer_session_timeout_ms / 1000, settings.consumer_max_members)
        self._timers: Timers[_Entry] = Timers(clock, self._wake)
        self._entries: dict[str, _Entry] = {}
        self._saving: set[asyncio.Future[None]] = set()
        self._active = True

    def __len__(self) -> int:
        return len(self._entries)

    async def heartbeat(self, group_id: str, request: Heartbeat) -> "asyncio.Future[Beat]":
        """A ConsumerGroupHeartbeat; its answer comes when it is stored. KafkaError at once."""
        if request.regex:
            await self._catalogue.check(request.regex)
        size = subscription_bytes(request.topics, request.regex)
        self._budget.check(size)
        entry = await self._find(group_id, create=request.epoch == JOINING)
        if entry is None:
            raise await self.not_found(group_id, "Group" if request.leaves else "Consumer group")
        subscribes = request.epoch == JOINING or request.topics is not None or request.regex is not None
        due = self._clock.time() - entry.looked_at > _LOOK_AGAIN and not entry.looking.locked()
        if request.leaves or not (subscribes or due):
            return self._do(entry, lambda group, now: group.heartbeat(request, None, now))
        try:
            async with entry.looking:  # one after another: an older look must not follow a newer one
                view = await self._look(entry, request, subscribes)
                answer = self._do(entry, lambda group, now: group.heartbeat(request, view, now))
                entry.sizes.told(request.member_id, size)
                return answer
        finally:
            self._drop_if_blank(entry)

    async def not_found(self, group_id: str, what: str = "Group") -> KafkaError:
        """What to say of a group that is none of these (Kafka's `GroupMetadataManager.consumerGroup`)."""
        if self._classics.is_classic(group_id) or await self._store.load(group_id):
            return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")

    async def remove(self, group_id: str, leaving: Iterable[Leave]) -> "asyncio.Future[list[ErrorCode]] | None":
        """A LeaveGroup of an administrator; None: the group is not of this kind."""
        entry = await self._find(group_id)
        return None if entry is None else self._do(entry, lambda group, now: group.remove(leaving))

    async def find(self, group_id: str) -> ConsumerGroup | None:
        """The group, to be looked at only."""
        entry = await self._find(group_id)
        return None if entry is None else entry.group

    async def stored(self, group_id: str) -> GroupSnapshot | None:
        """The group as far as it is stored."""
        entry = await self._find(group_id)
        return None if entry is None else entry.stored

    async def all(self) -> list[tuple[str, GroupState]]:
        """Every group."""
        names = dict.fromkeys((*self._entries, *self._store.groups()))
        found = [(name, await self.stored(name)) async for name in in_turns(names)]
        return [(name, snapshot.state) for name, snapshot in found if snapshot is not None]

    async def delete(self, group_id: str) -> bool:
        """Delete a group without members, with its offsets; False: there is none."""
        entry = await self._find(group_id)
        if entry is None:
            return False
        stored = await self._store.load(group_id)
        if entry.group.snapshot.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        await self._erase(entry, stored, {offset_key(group_id, *where) for where in stored.offsets})
        return True

    async def forget(self, group_id: str) -> bool:
        """Delete an empty group that has no offsets left; False: it is not of this kind."""
        entry = await self._find(group_id)
        stored = await self._store.load(group_id)
        if entry is not None and not entry.group.snapshot.members:
            await self._erase(entry, stored, set())
        return entry is not None

    async def hold(self, group_id: str) -> Hold | None:
        """What keeps the group's offsets from expiring; None: it is not of this kind."""
        entry = await self._find(group_id)
        if entry is None:
            return None
        snapshot = entry.group.snapshot
        return Hold(
            exists=True,
            members=len(snapshot.members),
            consumer=True,
            subscribed=snapshot.subscribed(),
            empty_since_ms=0 if snapshot.members else entry.since_ms,
        )

    # ---- life --------------------------------------------------------------------------------------------------------

    def known(self, group_id: str, stored: StoredGroup) -> ConsumerGroup | None:
        """The group if it is of this kind: from memory, or as it is stored."""
        entry = self._known(group_id, stored)
        return None if entry is None else entry.group

    def displace(self, group: ConsumerGroup) -> None:
        """Let go of a group that becomes a classic one; INCONSISTENT_GROUP_PROTOCOL where it has members."""
        if group.snapshot.members:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Group {group.id} is of the consumer protocol.")
        self._drop(self._entries[group.id], ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def unload(self, lost: Callable[[str], bool], error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """These groups are not ours any more: whoever waits is told."""
        for entry in [one for name, one in self._entries.items() if lost(name)]:
            self._drop(entry, error)

    def stop(self) -> None:
        """The process stops."""
        self._active = False
        self.unload(lambda group_id: True)

    async def close(self) -> None:
        """Wait for what is being stored."""
        self._timers.close()
        await asyncio.gather(*self._saving, return_exceptions=True)

    # ---- finding -----------------------------------------------------------------------------------------------------

    async def _find(self, group_id: str, create: bool = False) -> _Entry | None:
        entry = self._entries.get(group_id)
        if entry is not None or (self._classics.is_classic(group_id) and not create):
            return entry
        stored = await self._store.load(group_id)
        if not self._active:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the bridge is stopping")
        entry = self._known(group_id, stored)
        if entry is None and create:
            self._classics.displace(group_id, stored)
            entry = self._take_in(group_id, GroupSnapshot())
            entry.doubtful = {member_key(group_id, member_id) for member_id in stored.members}
        return entry

    def _known(self, group_id: str, stored: StoredGroup) -> _Entry | None:
        entry = self._entries.get(group_id)
        if (
            entry is not None
            or self._classics.is_classic(group_id)
            or not consumer_records.is_consumer(stored.metadata)
        ):
            return entry
        try:
            snapshot, since_ms = consumer_records.decode(stored)
        except BadRecord as error:
            _log.error("! group unreadable", extra={"group": group_id, "error": error})
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from None
        entry = self._take_in(group_id, snapshot)
        entry.since_ms = since_ms
        self._timers.set(entry, entry.group.deadline())
        return entry

    def _take_in(self, group_id: str, snapshot: GroupSnapshot) -> _Entry:
        group = ConsumerGroup(group_id, self._limits, self._clock.time(), snapshot)
        sizes = MemberSizes(self._budget, snapshot.members.values())
        entry = self._entries[group_id] = _Entry(group, snapshot, sizes)
        self._metrics.loaded.inc()
        return entry

    async def _look(self, entry: _Entry, request: Heartbeat, subscribes: bool) -> View | None:
        """The group's topics as they are now; None: nobody can say, and nobody needs to know."""
        entry.looked_at = self._clock.time()
        try:
            return await self._catalogue.view(*entry.group.wanted(request), fresh=subscribes)
        except KafkaError as error:
            if subscribes:
                full = error.code == ErrorCode.GROUP_MAX_SIZE_REACHED
                raise error if full else KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from None
            _log.warning("! topics of a group not looked at", extra={"group": entry.group.id, "reason": str(error)})
            return None

    # ---- what happens to a group -------------------------------------------------------------------------------------

    def _do(self, entry: _Entry, event: Callable[[ConsumerGroup, float], _T]) -> "asyncio.Future[_T]":
        """Let something happen; what comes out is told when it is stored."""
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        if entry.gone:
            raise KafkaError(entry.gone, "another node coordinates this group now")
        before = entry.group.snapshot
        result = event(entry.group, self._clock.time())
        after = entry.group.snapshot
        if after is not before:
            self._tell(entry.group.id, before, after)
            self._timers.set(entry, entry.group.deadline())
            entry.sizes.keep_only(after.members)
        if after is entry.stored and not entry.writing:
            answer.set_result(result)
        else:
            entry.waiting.append((answer, result))
            self._write(entry)
        return answer

    def _wake(self, entry: _Entry, now: float) -> None:
        if entry.gone:
            return
        gone = {}

        def expire(group: ConsumerGroup, _: float) -> None:
            gone.update(group.expire(now))

        self._do(entry, expire)
        for member_id, reason in gone.items():
            _log.info("= member removed", extra={"group": entry.group.id, "member": member_id, "reason": reason})
        self._timers.set(entry, entry.group.deadline())

    def _tell(self, group_id: str, before: GroupSnapshot, after: GroupSnapshot) -> None:
        if after.epoch == before.epoch and after.state is before.state:
            return
        if after.epoch != before.epoch and after.members:
            self._metrics.rebalances.inc()
        fields = {"group": group_id, "state": after.state.value, "epoch": after.epoch, "members": len(after.members)}
        _log.info("= group", extra=fields)

    # ---- the store ---------------------------------------------------------------------------------------------------

    def _write(self, entry: _Entry) -> None:
        """Store the group as it is now, unless a write is under way."""
        if entry.writing or not (entry.waiting or entry.group.snapshot is not entry.stored):
            return
        after, group_id = entry.group.snapshot, entry.group.id
        since_ms = int(self._wall() * 1000)
        records = consumer_records.changes(group_id, entry.stored, after, since_ms)
        for key in entry.doubtful - records.keys():
            records[key] = _record(key, after, since_ms)
        waiting, entry.waiting = entry.waiting, []
        if not records:
            entry.stored = after
            _answer(waiting)
            return
        entry.writing = True
        saving = submit(self._store, group_id, records)
        self._saving.add(saving)
        saving.add_done_callback(partial(self._written, entry, after, records.keys(), waiting, since_ms))

    def _written(
        self,
        entry: _Entry,
        after: GroupSnapshot,
        keys: Iterable[Key],
        waiting: list[_Waiting],
        since_ms: int,
        saving: "asyncio.Future[None]",
    ) -> None:
        self._saving.discard(saving)
        entry.writing = False
        error = error_of(saving)
        if not error:
            entry.stored, entry.since_ms = after, since_ms
            entry.doubtful.difference_update(keys)
            _answer(waiting)
            self._write(entry)
            return
        _log.warning("! group not stored", extra={"group": entry.group.id, "code": error})
        waiting += entry.waiting
        entry.waiting = []
        entry.doubtful.update(keys)
        entry.group.restore(entry.stored, self._clock.time())
        self._timers.set(entry, entry.group.deadline())
        _refuse(waiting, entry.gone or error)
        self._drop_if_blank(entry)

    async def _erase(self, entry: _Entry, stored: StoredGroup, offsets: set[Key]) -> None:
        """Store that an empty group is no more; nothing where a member has joined before that is stored."""
        group_id = entry.group.id
        keys: set[Key] = {group_key(group_id), *(member_key(group_id, one) for one in stored.members)}
        await submit(self._store, group_id, dict.fromkeys(offsets | keys))
        if not entry.group.snapshot.members and not entry.writing:
            _log.info("= group deleted", extra={"group": group_id})
            self._drop(entry, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _drop_if_blank(self, entry: _Entry) -> None:
        """Nobody has joined after all."""
        if not (entry.group.snapshot.epoch or entry.stored.epoch or entry.writing):
            self._drop(entry, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _drop(self, entry: _Entry, error: ErrorCode) -> None:
        if self._entries.get(entry.group.id) is entry:
            del self._entries[entry.group.id]
            self._metrics.loaded.dec()
        entry.sizes.keep_only({})
        entry.gone = error
        waiting, entry.waiting = entry.waiting, []
        _refuse(waiting, error)


def _record(key: Key, group: GroupSnapshot, since_ms: int) -> bytes | None:
    """What is to be stored under a key."""
    if key[0] == "group":
        return consumer_records.encode_group(group, since_ms)
    member = group.members.get(key[2]) if key[0] == "member" else None
    return None if member is None else consumer_records.encode_member(member, group.targets.get(member.id, NOTHING))


def _answer(waiting: list[_Waiting]) -> None:
    for answer, result in waiting:
        if not answer.done():
            answer.set_result(result)


def _refuse(waiting: list[_Waiting], error: ErrorCode) -> None:
    for answer, _ in waiting:
        if not answer.done():
            answer.set_exception(KafkaError(error, "the group could not be stored"))
            answer.exception()  # nobody need wait for it
