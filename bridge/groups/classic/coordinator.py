"""Coordinates the groups of the classic protocol: holds requests that must wait, keeps time, stores.

All that happens to a group happens between two awaits; then its effects are carried out by `_carry_out`, every time.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TypeVar

from bridge.config import GroupSettings
from bridge.errors import KafkaError
from bridge.groups.budget import GROUP_BYTES, MAX_PROTOCOLS, MetadataBudget
from bridge.groups.classic import records as metadata
from bridge.groups.classic import subscription
from bridge.groups.classic.events import Answer, ClassicGroupState, GroupConfig, Join, Joined, Leave, Save, Sync, Synced
from bridge.groups.classic.members import metadata_bytes
from bridge.groups.classic.records import GroupRecord
from bridge.groups.classic.state import ClassicGroup
from bridge.groups.retention import UNKNOWN_GROUP, OffsetRetention
from bridge.groups.store.records import Key, group_key
from bridge.groups.store.saving import error_of, readable, submit
from bridge.groups.store.store import GroupStore
from bridge.groups.store.visible import all_decided_keys
from bridge.groups.timers import Clock, Timers
from bridge.kafka import consumer_protocol
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import MAX_STRING
from bridge.telemetry import log
from bridge.telemetry.metrics import GroupMetrics

_T = TypeVar("_T")
_log = log.get(__name__)


@dataclass(slots=True, eq=False)
class LoadedClassicGroup:
    """A classic group in memory, with what waits for it."""

    group: ClassicGroup
    since_ms: int
    """When it came into its last stored state."""
    wake_at: float = inf
    metadata_bytes: int = 0
    """What its members' metadata is counted for."""

    def retention(self) -> OffsetRetention:
        """What keeps its offsets from expiring."""
        group = self.group
        if group.has_no_state:
            return UNKNOWN_GROUP
        return OffsetRetention(
            exists=True,
            members=len(group.members),
            consumer=group.protocol_type == consumer_protocol.TYPE,
            subscribed=subscription.of_group(group),
            empty_since_ms=self.since_ms if group.state is ClassicGroupState.EMPTY else 0,
        )


class ClassicGroups:
    """The classic groups of this node. They are given loaded groups; `groups.coordinator` finds them."""

    def __init__(
        self,
        store: GroupStore,
        settings: GroupSettings,
        metrics: GroupMetrics,
        budget: MetadataBudget,
        clock: Clock,
        wall: Callable[[], float],
    ) -> None:
        self.loaded: dict[str, LoadedClassicGroup] = {}
        """Those in memory."""
        self._store = store
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._wall = wall
        self._config = GroupConfig(settings.initial_rebalance_delay_ms / 1000, max_size=settings.max_size)
        self._budget = budget
        self._timers: Timers[LoadedClassicGroup] = Timers(clock, self._wake)
        self._saving: set[asyncio.Future[None]] = set()

    # ---- requests ----------------------------------------------------------------------------------------------------

    def check_join(self, request: Join) -> None:
        """Raise the KafkaError that a JoinGroup gets whatever the group is."""
        settings = self._settings
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
        if len(request.protocols) > MAX_PROTOCOLS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"a member may name {MAX_PROTOCOLS} protocols")
        if not request.member_id and len(request.new_id.encode()) > MAX_STRING:
            # it could not be told, and who comes to coordinate the group could not read it
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the client's or instance's name leaves no room for an id")
        self._budget.check(metadata_bytes(request.protocols) + len(request.new_id))

    def check_sync(self, request: Sync) -> None:
        """Raise the KafkaError that a SyncGroup gets whatever the group is."""
        self._budget.check(*map(len, request.assignments.values()))

    def join(self, loaded: LoadedClassicGroup, request: Join) -> asyncio.Future[Joined]:
        """A JoinGroup; the answer may take as long as a rebalance."""
        answer: asyncio.Future[Joined] = asyncio.get_running_loop().create_future()
        self._do(loaded, lambda group, now: group.join(request, answer, now))
        return answer

    def sync(self, loaded: LoadedClassicGroup, request: Sync) -> asyncio.Future[Synced]:
        """A SyncGroup; the answer comes when the leader's assignment is stored."""
        answer: asyncio.Future[Synced] = asyncio.get_running_loop().create_future()
        self._do(loaded, lambda group, now: group.sync(request, answer, now))
        return answer

    def heartbeat(
        self, loaded: LoadedClassicGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """A heartbeat's answer."""
        # it only moves a deadline away: nothing to carry out
        return loaded.group.heartbeat(member_id, instance_id, generation, self._clock.time())

    def leave(self, loaded: LoadedClassicGroup, leaving: Iterable[Leave]) -> list[ErrorCode]:
        """A LeaveGroup's answer for each member."""
        return self._do(loaded, lambda group, now: group.leave(leaving, now))

    def check_commit(
        self, loaded: LoadedClassicGroup, member_id: str, instance_id: str | None, generation: int
    ) -> None:
        """Raise the KafkaError that a commit of this member gets, if it may not; its session goes on if it may."""
        loaded.group.check_commit(member_id, instance_id, generation, self._clock.time())

    async def delete(self, loaded: LoadedClassicGroup) -> None:
        """Delete a group without members, with its offsets; those stay that are pending in open transactions."""
        if loaded.group.state is not ClassicGroupState.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        group_id = loaded.group.id
        stored = await self._store.load(group_id, confirmed=False)  # at once: no member joins meanwhile
        offsets = all_decided_keys(group_id, stored, self._store.outcomes.outcome)
        await self._erase(loaded, dict.fromkeys([*offsets, group_key(group_id)]))

    async def forget(self, loaded: LoadedClassicGroup) -> None:
        """Delete an empty group that has no offsets left; nothing where a member has joined meanwhile."""
        if loaded.group.state is ClassicGroupState.EMPTY and not loaded.group.awaited:
            await self._erase(loaded, {group_key(loaded.group.id): None})

    # ---- life --------------------------------------------------------------------------------------------------------

    def load(self, group_id: str, record: bytes | None, *, create: bool) -> LoadedClassicGroup:
        """Take a group into memory as it is stored; None: it has no record of its own."""
        loaded = self._restore(group_id, record)
        if create or not loaded.group.has_no_state:  # one that only has offsets takes no memory here
            self.loaded[group_id] = loaded
            self._metrics.loaded.inc()
            if not loaded.group.has_no_state:
                self._carry_out(loaded)
        return loaded

    def displace(self, group_id: str, record: bytes | None, to: str) -> None:
        """Drop a group that becomes one of another type; GROUP_ID_NOT_FOUND if it has members.

        Kafka does so where the online upgrade is off.
        """
        loaded = self.loaded.get(group_id) or self._restore(group_id, record)
        if loaded.group.state is not ClassicGroupState.EMPTY:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {to} group.")
        if group_id in self.loaded:
            self._kill(loaded, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def hand_over(self, loaded: LoadedClassicGroup) -> None:
        """Drop a group that becomes a consumer group with its members: those that wait join again.

        Kafka says REBALANCE_IN_PROGRESS to a JoinGroup, too. Old clients do not know that it can be.
        """
        self._kill(loaded, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def take_over(self, group_id: str, record: GroupRecord) -> None:
        """Take in a group that was a consumer group, as it is stored: its members are asked to join again.

        The record is a generation ahead of them, until this rebalance has its own.
        """
        known = replace(record, generation=record.generation - 1)
        group = ClassicGroup.restore(group_id, self._config, known, self._clock.time())
        loaded = self.loaded[group_id] = LoadedClassicGroup(group, record.since_ms)
        self._metrics.loaded.inc()
        self._do(loaded, lambda group, now: group.rebalance("the last member of the consumer protocol is gone", now))

    def unload(self, lost: Callable[[str], bool]) -> None:
        """These groups are not ours any more: members that wait must look for another node."""
        for loaded in [one for name, one in self.loaded.items() if lost(name)]:
            _log.info("= group unloaded", extra={"group": loaded.group.id, "generation": loaded.group.generation})
            self._kill(loaded, ErrorCode.NOT_COORDINATOR)

    def stop(self) -> None:
        """The process stops: members that wait must look for another node."""
        for loaded in list(self.loaded.values()):
            self._kill(loaded, ErrorCode.NOT_COORDINATOR)

    async def close(self) -> None:
        """Wait for what is being stored."""
        self._timers.close()
        await asyncio.gather(*self._saving, return_exceptions=True)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _restore(self, group_id: str, data: bytes | None) -> LoadedClassicGroup:
        if data is None:
            return LoadedClassicGroup(ClassicGroup(group_id, self._config), 0)
        with readable(group_id):
            record = metadata.decode(data)
        return LoadedClassicGroup(
            ClassicGroup.restore(group_id, self._config, record, self._clock.time()), record.since_ms
        )

    def _do(self, loaded: LoadedClassicGroup, event: Callable[[ClassicGroup, float], _T]) -> _T:
        """Let something happen to a group."""
        group = loaded.group
        before, generation = group.state, group.generation
        result = event(group, self._clock.time())
        if group.state is not before or group.generation != generation:
            self._changed(group)
        self._carry_out(loaded)
        return result

    def _carry_out(self, loaded: LoadedClassicGroup) -> None:
        group = loaded.group
        is_dead = group.state is ClassicGroupState.DEAD  # its timer was due, or its last write ended
        self._count(loaded, 0 if is_dead else GROUP_BYTES + group.members.size + group.sessions.size)
        for effect in group.take_effects():
            if isinstance(effect, Save):
                self._save(loaded, effect.number, effect.record)
            else:
                _set_answer(effect)
        if group.has_no_state:
            self._drop(loaded)
        else:
            self._timers.set(loaded, group.deadline())

    def _wake(self, loaded: LoadedClassicGroup, now: float) -> None:
        self._do(loaded, lambda group, _: group.expire(now))

    def _save(self, loaded: LoadedClassicGroup, number: int, record: GroupRecord) -> None:
        loaded.since_ms = int(self._wall() * 1000)
        data = metadata.encode(replace(record, since_ms=loaded.since_ms))
        saving = submit(self._store, loaded.group.id, {group_key(loaded.group.id): data})
        self._saving.add(saving)
        saving.add_done_callback(partial(self._saved, loaded, number))

    def _saved(self, loaded: LoadedClassicGroup, number: int, saving: asyncio.Future[None]) -> None:
        self._saving.discard(saving)
        error = error_of(saving)
        if error:
            fields = {"group": loaded.group.id, "generation": loaded.group.generation, "code": error}
            _log.warning("! group not stored", extra=fields)
        self._do(loaded, lambda group, now: group.saved(number, error, now))

    async def _erase(self, loaded: LoadedClassicGroup, records: Mapping[Key, bytes | None]) -> None:
        """Store that an empty group is no more; nothing where a member has joined before that is stored."""
        await submit(self._store, loaded.group.id, records)
        if loaded.group.state is ClassicGroupState.EMPTY and not loaded.group.awaited:
            _log.info("= group deleted", extra={"group": loaded.group.id, "generation": loaded.group.generation})
            self._kill(loaded, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _kill(self, loaded: LoadedClassicGroup, error: ErrorCode, of_join: ErrorCode | None = None) -> None:
        loaded.group.kill(error, of_join)
        self._carry_out(loaded)
        self._drop(loaded)

    def _count(self, loaded: LoadedClassicGroup, size: int) -> None:
        self._budget.add(size - loaded.metadata_bytes)
        loaded.metadata_bytes = size

    def _drop(self, loaded: LoadedClassicGroup) -> None:
        self._count(loaded, 0)
        if self.loaded.get(loaded.group.id) is loaded:
            del self.loaded[loaded.group.id]
            self._metrics.loaded.dec()

    def _changed(self, group: ClassicGroup) -> None:
        """Log and count a new state or generation."""
        if group.state is ClassicGroupState.STABLE:
            self._metrics.rebalances.inc()
        fields = {
            "group": group.id,
            "state": group.state.value,
            "generation": group.generation,
            "members": len(group.members),
        }
        if group.state is ClassicGroupState.PREPARING:
            fields["reason"] = group.reason
        _log.info("= group", extra=fields)


def _set_answer(effect: Answer) -> None:
    ticket = effect.ticket
    assert isinstance(ticket, asyncio.Future)  # noqa: S101 - they are made in join and sync
    if not ticket.done():
        ticket.set_result(effect.answer)
