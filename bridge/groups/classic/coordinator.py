"""Coordinates the groups: hands requests to their state machines, holds what must wait, keeps time, stores.

Those of the classic protocol are coordinated here, those of the new one in `consumer_coordinator`. A group is of one
kind at a time; an empty one becomes the other when a member joins it so, and keeps its offsets.

A group is in memory from its first request on, and ours until the store says that its slot is lost. Whatever happens to
it happens between two awaits; then its effects are carried out by `_carry_out`, every time.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TypeVar

from bridge import log
from bridge.config import GroupSettings
from bridge.errors import KafkaError
from bridge.futures import in_turns
from bridge.groups.budget import GROUP_BYTES, MOST_PROTOCOLS, MetadataBudget
from bridge.groups.classic import records as metadata
from bridge.groups.classic import subscription
from bridge.groups.classic.events import Answer, GroupConfig, Join, Joined, Leave, Save, Sync, Synced
from bridge.groups.classic.members import metadata_bytes
from bridge.groups.classic.records import GroupRecord
from bridge.groups.classic.state import Group, State
from bridge.groups.consumer import records as consumer_records
from bridge.groups.consumer.coordinator import ConsumerGroups
from bridge.groups.consumer.topics import Catalogue, Topics
from bridge.groups.offsets import Hold
from bridge.groups.store.records import Key, StoredGroup, group_key, offset_key
from bridge.groups.store.saving import GroupRecordStore, error_of, submit
from bridge.groups.timers import Clock, Timers
from bridge.kafka.error_codes import ErrorCode
from bridge.metrics import GroupMetrics

_T = TypeVar("_T")
_log = log.get(__name__)

_RESUME_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class _Entry:
    """A group in memory."""

    group: Group
    since_ms: int
    """When it came into its last stored state."""
    wake_at: float = inf
    metadata_bytes: int = 0
    """What its members' metadata is counted for."""


class Coordinator:
    """The groups of this node."""

    def __init__(
        self,
        store: GroupRecordStore,
        settings: GroupSettings,
        metrics: GroupMetrics,
        topics: Topics,
        clock: Clock | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._settings = settings
        self._metrics = metrics
        self._clock: Clock = clock or asyncio.get_running_loop()
        self._wall = wall
        self._config = GroupConfig(settings.initial_rebalance_delay_ms / 1000, max_size=settings.max_size)
        self._budget = MetadataBudget(settings, metrics)
        self._timers: Timers[_Entry] = Timers(self._clock, self._wake)
        self._entries: dict[str, _Entry] = {}
        self._saving: set[asyncio.Future[None]] = set()
        self._active = True
        self._resuming: asyncio.Task[None] | None = None
        self.consumers = ConsumerGroups(
            store, settings, metrics, Catalogue(topics), self, self._clock, wall, self._budget
        )
        """The groups of the new protocol."""
        store.on_lost.append(self.unload)

    def start(self) -> None:
        """Let the sessions of stored members begin, so that those who are gone are found out."""
        self._resuming = asyncio.get_running_loop().create_task(self._resume())

    async def join(self, group_id: str, request: Join) -> asyncio.Future[Joined]:
        """A JoinGroup; the answer may take as long as a rebalance."""
        self._check_name(group_id)
        settings = self._settings
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
        if len(request.protocols) > MOST_PROTOCOLS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"a member may name {MOST_PROTOCOLS} protocols")
        self._budget.check(metadata_bytes(request.protocols))
        entry = await self._find(group_id, create=not request.member_id)
        if entry is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        answer: asyncio.Future[Joined] = asyncio.get_running_loop().create_future()
        self._do(entry, lambda group, now: group.join(request, answer, now))
        return answer

    async def sync(self, group_id: str, request: Sync) -> asyncio.Future[Synced]:
        """A SyncGroup; the answer comes when the leader's assignment is stored."""
        self._check_name(group_id)
        self._budget.check(*map(len, request.assignments.values()))
        entry = await self._find(group_id)
        if entry is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        answer: asyncio.Future[Synced] = asyncio.get_running_loop().create_future()
        self._do(entry, lambda group, now: group.sync(request, answer, now))
        return answer

    async def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """A heartbeat's answer."""
        self._check_name(group_id)
        entry = self._entries.get(group_id) or await self._find(group_id)
        if entry is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        # it only moves a deadline away: nothing to carry out
        return entry.group.heartbeat(member_id, instance_id, generation, self._clock.time())

    async def leave(self, group_id: str, leaving: Iterable[Leave]) -> list[ErrorCode]:
        """A LeaveGroup's answer for each member."""
        self._check_name(group_id)
        leaving = list(leaving)
        entry = await self._find(group_id)
        if entry is None:
            removed = await self.consumers.remove(group_id, leaving)
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving) if removed is None else await removed
        return self._do(entry, lambda group, now: group.leave(leaving, now))

    async def get(self, group_id: str) -> Group | None:
        """The group, to be looked at only; None for one of the new protocol as well."""
        self._check_active()
        entry = await self._find(group_id)
        return None if entry is None else entry.group

    async def all(self) -> list[Group]:
        """Every group of the classic protocol, also those that only have offsets."""
        self._check_active()
        await self._store.ready()
        names = dict.fromkeys((*self._entries, *self._store.groups()))
        entries = [await self._find(name) async for name in in_turns(names)]
        return [entry.group for entry in entries if entry is not None]

    async def delete(self, group_id: str) -> None:
        """Delete a group without members, with its offsets."""
        self._check_active()
        if await self.consumers.delete(group_id):
            return
        entry = await self._find(group_id)
        if entry is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if entry.group.state is not State.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        stored = await self._store.load(group_id)
        records: dict[Key, bytes | None] = {offset_key(group_id, *one): None for one in stored.offsets}
        await self._erase(entry, {**records, group_key(group_id): None})

    # ---- what committed offsets ask (offsets.Membership) -------------------------------------------------------------

    async def check_commit(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation: int, version: int
    ) -> None:
        """Raise the KafkaError that a commit of this member gets, if it may not; its session goes on if it may."""
        self._check_active()
        consumer = await self.consumers.find(group_id)
        if consumer is not None:
            consumer.check_commit(member_id, generation, version)
            return
        entry = self._entries.get(group_id) or await self._find(group_id)
        if entry is None:
            unknown = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
            error = ErrorCode.NONE if generation < 0 else unknown
        else:
            error = entry.group.check_commit(member_id, group_instance_id, generation, self._clock.time())
        if error:
            raise KafkaError(error)

    async def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Raise the KafkaError that a member of the new protocol gets for asking for offsets, if it may not."""
        self._check_active()
        consumer = await self.consumers.find(group_id)
        if consumer is not None:
            consumer.check_fetch(member_id, epoch)

    async def hold(self, group_id: str) -> Hold:
        """What keeps the group's offsets from expiring."""
        consumer = await self.consumers.hold(group_id)
        if consumer is not None:
            return consumer
        entry = await self._find(group_id)
        if entry is None or entry.group.blank:
            return Hold(exists=False, members=0, consumer=False, subscribed=None, empty_since_ms=0)
        group = entry.group
        return Hold(
            exists=True,
            members=len(group.roster),
            consumer=group.protocol_type == subscription.CONSUMER,
            subscribed=subscription.of_group(group),
            empty_since_ms=entry.since_ms if group.state is State.EMPTY else 0,
        )

    async def forget(self, group_id: str) -> None:
        """Delete an empty group that has no offsets left; nothing where a member has joined meanwhile."""
        if await self.consumers.forget(group_id):
            return
        entry = await self._find(group_id)
        if entry is not None and entry.group.state is State.EMPTY and not entry.group.awaited:
            await self._erase(entry, {group_key(group_id): None})

    # ---- life --------------------------------------------------------------------------------------------------------

    def unload(self, lost: Callable[[str], bool]) -> None:
        """Another node coordinates these groups now: whoever waits must look for it."""
        for entry in [one for name, one in self._entries.items() if lost(name)]:
            _log.info("= group unloaded", extra={"group": entry.group.id, "generation": entry.group.generation})
            self._kill(entry, ErrorCode.NOT_COORDINATOR)
        self.consumers.unload(lost)

    def stop(self) -> None:
        """The process stops: hold nothing any more, so that connections can be drained; the groups go on elsewhere."""
        self._active = False
        self.consumers.stop()
        for entry in list(self._entries.values()):
            self._kill(entry, ErrorCode.NOT_COORDINATOR)

    async def close(self) -> None:
        """Wait for what is being stored."""
        self.stop()
        self._timers.close()
        if self._resuming is not None:
            self._resuming.cancel()
        await self.consumers.close()
        await asyncio.gather(*self._saving, *filter(None, [self._resuming]), return_exceptions=True)

    # ---- groups become of the other kind (consumer_coordinator.Classics) ---------------------------------------------

    def is_classic(self, group_id: str) -> bool:
        """Whether such a group is in memory."""
        return group_id in self._entries

    def displace(self, group_id: str, stored: StoredGroup) -> None:
        """Let go of a classic group; GROUP_ID_NOT_FOUND where it has members (Kafka: online upgrade is disabled)."""
        entry = self._entries.get(group_id) or self._restore(group_id, stored.metadata)
        if entry.group.state is not State.EMPTY:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if group_id in self._entries:
            self._kill(entry, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _check_active(self) -> None:
        if not self._active:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the bridge is stopping")

    def _check_name(self, group_id: str) -> None:
        self._check_active()
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)

    async def _resume(self) -> None:
        while True:
            try:
                await self._store.ready()
                break
            except KafkaError:
                await self._pause(_RESUME_SECONDS)
        for group_id in self._store.groups():
            try:
                await self._find(group_id)
            except KafkaError as error:  # it is found at the latest when somebody asks for it
                _log.warning("! group not resumed", extra={"group": group_id, "error": error})
            await asyncio.sleep(0)  # there may be many

    async def _pause(self, seconds: float) -> None:
        over = asyncio.Event()
        self._clock.call_at(self._clock.time() + seconds, over.set)
        await over.wait()

    async def _find(self, group_id: str, create: bool = False) -> _Entry | None:
        """The group, from memory or from the store; None: there is none."""
        entry = self._entries.get(group_id)
        if entry is not None:
            return entry
        stored = await self._store.load(group_id)
        entry = self._entries.get(group_id)
        if entry is not None:  # loaded by another request meanwhile
            return entry
        self._check_active()
        consumer = self.consumers.known(group_id, stored)
        if not create and (consumer is not None or not stored):
            return None
        if consumer is not None:
            self.consumers.displace(consumer)
        entry = self._restore(group_id, stored.metadata)
        if create or not entry.group.blank:  # one that only has offsets takes no memory here
            self._entries[group_id] = entry
            self._metrics.loaded.inc()
            if not entry.group.blank:
                self._carry_out(entry)
        return entry

    def _restore(self, group_id: str, data: bytes | None) -> _Entry:
        if data is None or consumer_records.is_consumer(data):
            return _Entry(Group(group_id, self._config), 0)
        try:
            record = metadata.decode(data)
        except metadata.BadRecord as error:
            _log.error("! group unreadable", extra={"group": group_id, "error": error})
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from None
        return _Entry(Group.restore(group_id, self._config, record, self._clock.time()), record.since_ms)

    def _do(self, entry: _Entry, event: Callable[[Group, float], _T]) -> _T:
        """Let something happen to a group."""
        group = entry.group
        before, generation = group.state, group.generation
        result = event(group, self._clock.time())
        if group.state is not before or group.generation != generation:
            self._changed(group)
        self._carry_out(entry)
        return result

    def _carry_out(self, entry: _Entry) -> None:
        group = entry.group
        self._count(entry, GROUP_BYTES + group.roster.size)
        for effect in group.take_effects():
            if isinstance(effect, Save):
                self._save(entry, effect.number, effect.record)
            else:
                _give(effect)
        if group.blank:
            self._drop(entry)
        else:
            self._timers.set(entry, group.deadline())

    def _wake(self, entry: _Entry, now: float) -> None:
        self._do(entry, lambda group, _: group.expire(now))

    def _save(self, entry: _Entry, number: int, record: GroupRecord) -> None:
        entry.since_ms = int(self._wall() * 1000)
        data = metadata.encode(replace(record, since_ms=entry.since_ms))
        saving = submit(self._store, entry.group.id, {group_key(entry.group.id): data})
        self._saving.add(saving)
        saving.add_done_callback(partial(self._saved, entry, number))

    def _saved(self, entry: _Entry, number: int, saving: asyncio.Future[None]) -> None:
        self._saving.discard(saving)
        error = error_of(saving)
        if error:
            fields = {"group": entry.group.id, "generation": entry.group.generation, "code": error}
            _log.warning("! group not stored", extra=fields)
        self._do(entry, lambda group, now: group.saved(number, error, now))

    async def _erase(self, entry: _Entry, records: Mapping[Key, bytes | None]) -> None:
        """Store that an empty group is no more; nothing where a member has joined before that is stored."""
        await submit(self._store, entry.group.id, records)
        if entry.group.state is State.EMPTY and not entry.group.awaited:
            _log.info("= group deleted", extra={"group": entry.group.id, "generation": entry.group.generation})
            self._kill(entry, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _kill(self, entry: _Entry, error: ErrorCode) -> None:
        entry.group.kill(error)
        self._carry_out(entry)
        self._drop(entry)

    def _count(self, entry: _Entry, size: int) -> None:
        self._budget.add(size - entry.metadata_bytes)
        entry.metadata_bytes = size

    def _drop(self, entry: _Entry) -> None:
        self._count(entry, 0)
        if self._entries.get(entry.group.id) is entry:
            del self._entries[entry.group.id]
            self._metrics.loaded.dec()

    def _changed(self, group: Group) -> None:
        """Tell of a new state or generation."""
        if group.state is State.STABLE:
            self._metrics.rebalances.inc()
        fields = {
            "group": group.id,
            "state": group.state.value,
            "generation": group.generation,
            "members": len(group.roster),
        }
        if group.state is State.PREPARING:
            fields["reason"] = group.reason
        _log.info("= group", extra=fields)


def _give(effect: Answer) -> None:
    ticket = effect.ticket
    assert isinstance(ticket, asyncio.Future)  # noqa: S101 - they are made in join and sync
    if not ticket.done():
        ticket.set_result(effect.answer)
