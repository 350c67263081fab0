"""Coordinates groups whose members have epochs: time, topics, the store, and the answers that wait.

A group's machine is ahead of the store: an answer is sent when the state it was made from is stored. One write of a
group is under way at a time; what happens meanwhile goes with the next. If a write fails, the group goes back to what
was stored, and all answers that wait fail. The failed write may still come to be stored, before the next one: its keys
are written again with that.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from bridge.errors import KafkaError
from bridge.groups.budget import MemberSizes, MetadataBudget, subscription_bytes
from bridge.groups.classic.members import metadata_bytes
from bridge.groups.configs import GroupConfigs
from bridge.groups.consumer.model import JOINING, ConsumerMember, EpochSnapshot, GroupSnapshot, View
from bridge.groups.consumer.topics import Catalogue, Viewer
from bridge.groups.epochs.group import EpochGroup, EpochGroupConfig, HeartbeatAnswer, MemberHeartbeat, SubscribedGroup
from bridge.groups.epochs.records import SnapshotFormat
from bridge.groups.retention import OffsetRetention
from bridge.groups.store.records import Key, StoredGroup, group_key, member_key
from bridge.groups.store.saving import error_of, readable, submit
from bridge.groups.store.store import GroupStore
from bridge.groups.store.visible import all_decided_keys
from bridge.groups.timers import Clock, Timers
from bridge.kafka.error_codes import ErrorCode
from bridge.telemetry import log
from bridge.telemetry.metrics import GroupMetrics

_T = TypeVar("_T")
G = TypeVar("G", bound=EpochGroup[Any])
Subscribed = TypeVar("Subscribed", bound=SubscribedGroup)
_log = log.get(__name__)

LOOK_AGAIN: Final = 5.0  # seconds between two looks at the topics of a group


Waiting: TypeAlias = tuple["asyncio.Future[Any]", object]
"""An answer, and for whom."""


@dataclass(slots=True, eq=False)
class LoadedGroup(Generic[G]):
    """A group in memory, with what waits for it."""

    group: G
    stored: Any
    """The snapshot that is stored, of the same class as the group's."""
    sizes: MemberSizes
    since_ms: int = 0
    """When it got its last stored state."""
    wake_at: float = inf
    looked_at: dict[str, float] = field(default_factory=dict)
    """When its topics were last looked at: for each client that has patterns, and for all others by ""."""
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    writing: bool = False
    waiting: list[Waiting] = field(default_factory=list)
    unconfirmed: set[Key] = field(default_factory=set)
    """Keys of which we do not know whether the last write of them was stored."""
    gone: ErrorCode = ErrorCode.NONE
    """Why it is not ours any more."""

    def seconds_since_look(self, viewer: str, now: float) -> float:
        """How old what is known of the topics is, for a client."""
        return now - self.looked_at.get(self._whose(viewer), -inf)

    def note_look(self, viewer: str, now: float) -> None:
        """They are looked at now."""
        resolved = self.group.snapshot.view.resolved
        if len(self.looked_at) > len(resolved) + 1:
            here = {"", *(pattern.viewer for pattern in resolved)}
            self.looked_at = {name: at for name, at in self.looked_at.items() if name in here}
        self.looked_at[self._whose(viewer)] = now

    def _whose(self, viewer: str) -> str:
        return viewer if any(one.viewer == viewer for one in self.group.snapshot.view.resolved) else ""

    def retention(self) -> OffsetRetention:
        """What keeps its committed offsets from expiring."""
        snapshot: EpochSnapshot = self.group.snapshot
        return OffsetRetention(
            exists=True,
            members=len(snapshot.members),
            consumer=True,
            subscribed=snapshot.subscribed(),
            empty_since_ms=0 if snapshot.members else self.since_ms,
        )


class EpochGroups(Generic[G]):
    """Groups of one type of this node. They are given loaded groups; `groups.coordinator` finds them."""

    format: ClassVar[SnapshotFormat]
    session_config: ClassVar[str]
    """The group config of the session timeout."""

    def __init__(
        self,
        store: GroupStore,
        most_members: int,
        configs: GroupConfigs,
        metrics: GroupMetrics,
        budget: MetadataBudget,
        clock: Clock,
        wall: Callable[[], float],
        catalogue: Catalogue,
    ) -> None:
        self.loaded: dict[str, LoadedGroup[G]] = {}
        """Those in memory."""
        self._store = store
        self._metrics = metrics
        self._budget = budget
        self._clock = clock
        self._wall = wall
        self._catalogue = catalogue
        self._configs = configs
        self._most_members = most_members
        self._timers: Timers[LoadedGroup[G]] = Timers(clock, self._wake)
        self._saving: set[asyncio.Future[None]] = set()

    # ---- requests ----------------------------------------------------------------------------------------------------

    async def delete(self, loaded: LoadedGroup[G]) -> None:
        """Delete a group without members, with its offsets; those stay that are pending in open transactions."""
        await self._all_written(loaded)
        stored = await self._store.load(loaded.group.id, confirmed=False)  # at once: no member joins
        if loaded.group.snapshot.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        offsets = all_decided_keys(loaded.group.id, stored, self._store.outcomes.outcome)
        await self._erase(loaded, stored, set(offsets))

    async def forget(self, loaded: LoadedGroup[G]) -> None:
        """Delete an empty group that has no offsets left; nothing where a member has joined meanwhile."""
        stored = await self._store.load(loaded.group.id, confirmed=False)  # at once: no member joins
        if not loaded.group.snapshot.members:
            await self._erase(loaded, stored, set())

    # ---- life --------------------------------------------------------------------------------------------------------

    def load(self, group_id: str, stored: StoredGroup) -> LoadedGroup[G] | None:
        """Take a group into memory as it is stored; None if it is not of this type."""
        if not self.format.is_one(stored.metadata):
            return None
        with readable(group_id):
            snapshot, since_ms = self.format.decode(stored)
        loaded = self._take_in(group_id, snapshot)
        loaded.since_ms = since_ms
        self._timers.set(loaded, loaded.group.deadline())
        return loaded

    def create(self, group_id: str, stored: StoredGroup) -> LoadedGroup[G]:
        """A group without members; what is stored may still have some of a former one."""
        loaded = self._take_in(group_id, self.format.snapshot())
        loaded.unconfirmed = {member_key(group_id, member_id) for member_id in stored.members}
        return loaded

    def unload(self, lost: Callable[[str], bool]) -> None:
        """These groups are not ours any more: members that wait must look for another node."""
        for loaded in [one for name, one in self.loaded.items() if lost(name)]:
            self._drop(loaded, ErrorCode.NOT_COORDINATOR)

    def stop(self) -> None:
        """The process stops: members that wait must look for another node."""
        self.unload(lambda group_id: True)

    async def close(self) -> None:
        """Wait for what is being stored."""
        self._timers.close()
        await asyncio.gather(*self._saving, return_exceptions=True)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _machine(self, group_id: str, limits: EpochGroupConfig, now: float, snapshot: Any) -> G:
        raise NotImplementedError

    def _sizes(self, snapshot: Any) -> Mapping[str, int]:
        """What the members said of themselves takes in memory, in bytes, by id."""
        raise NotImplementedError

    def _take_in(self, group_id: str, snapshot: Any) -> LoadedGroup[G]:
        group = self._machine(group_id, self._limits(group_id), self._clock.time(), snapshot)
        sizes = MemberSizes(self._budget, self._sizes(snapshot))
        loaded = self.loaded[group_id] = LoadedGroup[G](group, snapshot, sizes)
        self._metrics.loaded.inc()
        return loaded

    def _limits(self, group_id: str) -> EpochGroupConfig:
        return EpochGroupConfig(self._configs.number(group_id, self.session_config) / 1000, self._most_members)

    # ---- what happens to a group -------------------------------------------------------------------------------------

    def _do(self, loaded: LoadedGroup[G], event: Callable[[G, float], _T]) -> "asyncio.Future[_T]":
        """Let something happen; what comes out is told when it is stored."""
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        if loaded.gone:
            raise KafkaError(loaded.gone, "another node coordinates this group now")
        loaded.group.limits = self._limits(loaded.group.id)
        before = loaded.group.snapshot
        result = event(loaded.group, self._clock.time())
        after = loaded.group.snapshot
        if after is not before:
            self._report(loaded.group.id, before, after)
            self._timers.set(loaded, loaded.group.deadline())
            loaded.sizes.keep_only(after.members)
        if after is loaded.stored and not loaded.writing:
            answer.set_result(result)
        else:
            loaded.waiting.append((answer, result))
            self._write(loaded)
        return answer

    def _wake(self, loaded: LoadedGroup[G], now: float) -> None:
        if loaded.gone:
            return
        gone = {}

        def expire(group: G, _: float) -> None:
            gone.update(group.expire(now))

        self._do(loaded, expire)
        for member_id, reason in gone.items():
            _log.info("= member removed", extra={"group": loaded.group.id, "member": member_id, "reason": reason})
        self._timers.set(loaded, loaded.group.deadline())

    def _report(self, group_id: str, before: EpochSnapshot, after: EpochSnapshot) -> None:
        if after.epoch == before.epoch and after.state is before.state:
            return
        if after.epoch != before.epoch and after.members:
            self._metrics.rebalances.inc()
        fields = {"group": group_id, "state": after.state.value, "epoch": after.epoch, "members": len(after.members)}
        _log.info("= group", extra=fields)

    # ---- the store ---------------------------------------------------------------------------------------------------

    def _write(self, loaded: LoadedGroup[G]) -> None:
        """Store the group as it is now, unless a write is under way."""
        if loaded.writing or not (loaded.waiting or loaded.group.snapshot is not loaded.stored):
            return
        if loaded.gone:  # it may be of another type by now, whose records these would stand behind
            return
        if self._turns(loaded):
            return
        after, group_id = loaded.group.snapshot, loaded.group.id
        since_ms = int(self._wall() * 1000)
        records = self.format.changes(group_id, loaded.stored, after, since_ms)
        for key in loaded.unconfirmed - records.keys():
            records[key] = self.format.record(key, after, since_ms)
        waiting, loaded.waiting = loaded.waiting, []
        if not records:
            loaded.stored = after
            answer_all(waiting)
            return
        loaded.writing = True
        saving = submit(self._store, group_id, records)
        self._saving.add(saving)
        saving.add_done_callback(partial(self._written, loaded, after, records.keys(), waiting, since_ms))

    def _turns(self, loaded: LoadedGroup[G]) -> bool:
        """Whether it is of another type now, and stored as that."""
        return False

    def _written(
        self,
        loaded: LoadedGroup[G],
        after: EpochSnapshot,
        keys: Iterable[Key],
        waiting: list[Waiting],
        since_ms: int,
        saving: "asyncio.Future[None]",
    ) -> None:
        self._saving.discard(saving)
        loaded.writing = False
        error = error_of(saving)
        if not error:
            loaded.stored, loaded.since_ms = after, since_ms
            loaded.unconfirmed.difference_update(keys)
            answer_all(waiting)
            self._write(loaded)
            return
        _log.warning("! group not stored", extra={"group": loaded.group.id, "code": error})
        waiting += loaded.waiting
        loaded.waiting = []
        loaded.unconfirmed.update(keys)
        loaded.group.restore(loaded.stored, self._clock.time())
        self._timers.set(loaded, loaded.group.deadline())
        refuse_all(waiting, loaded.gone or error)
        self._drop_if_never_joined(loaded)

    async def _all_written(self, loaded: LoadedGroup[G]) -> None:
        """Wait until what has made the group empty is stored: it would stand behind its end, and be a group again."""
        while loaded.writing and not loaded.group.snapshot.members:
            await self._do(loaded, lambda group, now: None)

    async def _erase(self, loaded: LoadedGroup[G], stored: StoredGroup, others: set[Key]) -> None:
        """Store that an empty group, with other records of it, is no more; nothing where a member has joined before."""
        group_id = loaded.group.id
        keys: set[Key] = {group_key(group_id), *(member_key(group_id, one) for one in stored.members)}
        await submit(self._store, group_id, dict.fromkeys(others | keys | loaded.unconfirmed))
        if not loaded.group.snapshot.members and not loaded.writing:
            _log.info("= group deleted", extra={"group": group_id})
            self._drop(loaded, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _drop_if_never_joined(self, loaded: LoadedGroup[G]) -> None:
        """No member has joined after all."""
        if not (loaded.group.snapshot.epoch or loaded.stored.epoch or loaded.writing):
            self._drop(loaded, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _drop(self, loaded: LoadedGroup[G], error: ErrorCode) -> None:
        if self.loaded.get(loaded.group.id) is loaded:
            del self.loaded[loaded.group.id]
            self._metrics.loaded.dec()
        loaded.sizes.release()
        loaded.gone = error
        waiting, loaded.waiting = loaded.waiting, []
        refuse_all(waiting, error)


class SubscribedGroups(EpochGroups[Subscribed]):
    """Groups whose members subscribe to topics."""

    def check_size(self, request: MemberHeartbeat) -> None:
        """Raise KafkaError if what the request says of its member takes too much memory."""
        size = subscription_bytes(request.topics, request.regex) + len(request.rack_id or "")
        if request.epoch == JOINING:  # any other says nothing new by them
            size += len(request.member_id) + len(request.instance_id or "") + len(request.client_id)
        self._budget.check(size)

    async def heartbeat(
        self, loaded: LoadedGroup[Subscribed], request: MemberHeartbeat, viewer: Viewer
    ) -> "asyncio.Future[HeartbeatAnswer]":
        """A heartbeat; its answer comes when it is stored."""
        subscribes = request.epoch == JOINING or request.topics is not None or request.regex is not None
        subscribes = subscribes or loaded.group.has_other_viewer(request)
        if request.leaves or not (subscribes or self._should_look(loaded, viewer)):
            return self._take(loaded, request, None)
        try:
            async with loaded.looking:  # one after another: an older look must not follow a newer one
                view = await self._look(loaded, request, subscribes, viewer)
                return self._take(loaded, request, view)
        finally:
            self._drop_if_never_joined(loaded)

    def _take(
        self, loaded: LoadedGroup[Subscribed], request: MemberHeartbeat, view: View | None
    ) -> "asyncio.Future[HeartbeatAnswer]":
        """Let the group have the heartbeat, and count what it knows of the member then."""
        before = loaded.group.snapshot.members.get(request.member_id)
        answer = self._do(loaded, lambda group, now: group.heartbeat(request, view, now))
        member = loaded.group.snapshot.members.get(request.member_id)
        if member is not None and member is not before and not loaded.gone:
            loaded.sizes.set(member.id, _size(member))
        return answer

    def _should_look(self, loaded: LoadedGroup[Subscribed], viewer: Viewer) -> bool:
        """Whether what is known of its topics is old, and nobody looks at them."""
        age = loaded.seconds_since_look(viewer.name, self._clock.time())
        return age > LOOK_AGAIN and not loaded.looking.locked()

    async def _look(
        self, loaded: LoadedGroup[Subscribed], request: MemberHeartbeat, subscribes: bool, viewer: Viewer
    ) -> View | None:
        """The group's topics as they are now; None: not known, and not needed."""
        loaded.note_look(viewer.name, self._clock.time())
        before = loaded.group.snapshot.view.resolved
        names, patterns = loaded.group.wanted(request)
        try:
            return await self._catalogue.view(names, patterns, subscribes, viewer, before)
        except KafkaError as error:
            if subscribes:
                full = error.code == ErrorCode.GROUP_MAX_SIZE_REACHED
                raise error if full else KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from None
            _log.warning("! topics of a group not looked at", extra={"group": loaded.group.id, "reason": str(error)})
            return None

    def _sizes(self, snapshot: GroupSnapshot) -> Mapping[str, int]:
        return {one.id: _size(one) for one in snapshot.members.values()}


def _size(member: ConsumerMember) -> int:
    terms = () if member.classic is None else member.classic.protocols
    names = (member.id, member.instance_id, member.rack_id, member.client_id, member.client_host)
    return (
        subscription_bytes(member.topics, member.regex) + metadata_bytes(terms) + sum(len(one or "") for one in names)
    )


def answer_all(waiting: "Iterable[Waiting]") -> None:
    """What they wait for is stored."""
    for answer, result in waiting:
        if not answer.done():
            answer.set_result(result)


def refuse_all(waiting: "Iterable[Waiting]", error: ErrorCode) -> None:
    """What they wait for could not be stored."""
    for answer, _ in waiting:
        if not answer.done():
            answer.set_exception(KafkaError(error, "the group could not be stored"))
            answer.exception()  # read here: its client may have gone
