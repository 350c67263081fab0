"""The groups of this node: finds a group and hands the request to the coordinator of its protocol.

There are four equal coordinators: `classic` for groups of the classic protocol, `consumer` for those of the new one
(KIP-848), `share` for share groups (KIP-932), `streams` for streams groups (KIP-1071). A group is of one type at a
time. An empty one changes it when a member joins by another protocol, and keeps its offsets: classic to consumer or
streams, and these two to classic. One with members goes from classic to consumer and back as `consumer.migration` says,
where the settings allow it; meanwhile what asks for it waits. A share group is one until it is deleted. Only this
module knows all: it loads groups from the store and decides which type they are of.

A group is in memory from its first request on, and ours until the store says that its slot is lost.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar
from uuid import UUID

from bridge.config import GroupSettings
from bridge.errors import KafkaError
from bridge.groups.budget import GroupMemory, MetadataBudget
from bridge.groups.classic.coordinator import ClassicGroups, LoadedClassicGroup
from bridge.groups.classic.events import ClassicGroupState, Join, Joined, Leave, Sync, Synced
from bridge.groups.classic.records import GroupRecord
from bridge.groups.classic.state import ClassicGroup
from bridge.groups.configs import GroupConfigs
from bridge.groups.consumer import migration
from bridge.groups.consumer.coordinator import ConsumerGroups
from bridge.groups.consumer.model import JOINING, ConsumerGroupState, GroupSnapshot, View
from bridge.groups.consumer.state import ConsumerGroup
from bridge.groups.consumer.topics import ALL_CLIENTS, Catalogue, Viewer
from bridge.groups.epochs.coordinator import LoadedGroup, Waiting, answer_all, refuse_all
from bridge.groups.epochs.group import HeartbeatAnswer, MemberHeartbeat
from bridge.groups.retention import SHARE_GROUP, UNKNOWN_GROUP, OffsetRetention
from bridge.groups.share.coordinator import MOST_SHARE_MEMBERS, ShareGroups
from bridge.groups.share.state import ShareGroup
from bridge.groups.share.states import Place, ShareStates, Summary
from bridge.groups.store.records import Key, StoredGroup, member_key
from bridge.groups.store.saving import error_of, submit
from bridge.groups.store.store import GroupStore
from bridge.groups.store.visible import confirm_decided
from bridge.groups.streams.coordinator import StreamsGroups
from bridge.groups.streams.creations import Create
from bridge.groups.streams.model import TopicInfo
from bridge.groups.streams.snapshot import StreamsSnapshot
from bridge.groups.streams.state import StreamsAnswer, StreamsGroup, StreamsHeartbeat
from bridge.groups.summary import LoadedGroups
from bridge.groups.timers import Clock
from bridge.kafka import consumer_protocol
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.futures import gathered_for, in_turns
from bridge.storage.topics.topics import Topics
from bridge.telemetry import log
from bridge.telemetry.metrics import GroupMetrics

_log = log.get(__name__)

_RESUME_SECONDS = 1.0
_OWN_ERRORS: Final = 9
"""The OffsetCommit from which on each kind of group has errors of its own."""
_IN_TRANSACTION: Final[Mapping[int, ErrorCode]] = {
    ErrorCode.STALE_MEMBER_EPOCH: ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.ILLEGAL_GENERATION,
}
"""What a TxnOffsetCommit is told, which has no such errors."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


class GroupCoordinator:
    """The front door of the groups."""

    def __init__(
        self,
        store: GroupStore,
        settings: GroupSettings,
        metrics: GroupMetrics,
        topics: Topics,
        clock: Clock | None = None,
        wall: Callable[[], float] = time.time,
        memory: GroupMemory | None = None,
        configs: GroupConfigs | None = None,
    ) -> None:
        """`memory`: what these groups may take, where others share it; `configs`: None where none can be set."""
        self.configs = configs or GroupConfigs(settings)
        self._store = store
        self._clock: Clock = clock or asyncio.get_running_loop()
        budget, pattern_bytes = memory or GroupMemory(MetadataBudget(settings, metrics))
        self.metadata_budget = budget
        self._classic = ClassicGroups(store, settings, metrics, budget, self._clock, wall)
        shared = self.configs, metrics, budget, self._clock, wall, Catalogue(topics, pattern_bytes)
        self._consumer = ConsumerGroups(store, settings.consumer_max_members, *shared)
        self._upgrades = settings.consumer_migration_policy in migration.UPGRADES
        self._most_consumers = settings.consumer_max_members
        if settings.consumer_migration_policy in migration.DOWNGRADES:
            self._consumer.on_classic, self._consumer.most_classic = self._downgrade, settings.max_size
        self.share_states = ShareStates(store)
        """What the leaders of share groups' partitions have stored."""
        self._share = ShareGroups(self.share_states, store, MOST_SHARE_MEMBERS, *shared)
        self.on_share_member_gone = self._share.on_gone
        self._streams = StreamsGroups(store, settings.consumer_max_members, *shared)
        with_epochs: dict[str, Mapping[str, LoadedGroup[Any]]] = {
            "consumer": self._consumer.loaded,
            "share": self._share.loaded,
            "streams": self._streams.loaded,
        }
        self.in_memory = LoadedGroups(self._classic.loaded, with_epochs)
        """For those who only look."""
        self._active = True
        self._resuming: set[asyncio.Task[None]] = set()
        self._moving: dict[str, asyncio.Future[None]] = {}  # what stores groups that change their type
        self._doubtful: dict[str, set[Key]] = {}  # by group: what a change that failed may still come to store
        store.on_owned.append(self._take_over)
        store.on_lost.append(self.unload)

    def start(self) -> None:
        """Let the sessions of stored members begin, so that members that are gone are removed."""
        self._spawn(self._resume_all)

    def slot_of(self, group_id: str) -> int:
        """The slot of the groups' log that a group lives in: who holds it coordinates the group."""
        return self._store.slot_of(group_id)

    # ---- members of the classic protocol -----------------------------------------------------------------------------

    async def join(self, group_id: str, request: Join) -> asyncio.Future[Joined]:
        """A JoinGroup; the answer may take as long as a rebalance."""
        self._check_name(group_id)
        self._classic.check_join(request)
        await self._find_classic(group_id)  # takes one of another type into memory, too
        consumer = self._consumer.loaded.get(group_id)
        if consumer is not None and consumer.group.snapshot.members:
            return _done(await self._consumer.join(consumer, request))
        loaded = await self._find_classic(group_id, create=not request.member_id)
        if loaded is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return self._classic.join(loaded, request)

    async def sync(self, group_id: str, request: Sync) -> asyncio.Future[Synced]:
        """A SyncGroup; the answer comes when the leader's assignment is stored."""
        self._check_name(group_id)
        self._classic.check_sync(request)
        loaded = await self._find_classic(group_id)
        if loaded is not None:
            return self._classic.sync(loaded, request)
        consumer = self._consumer.loaded.get(group_id)
        if consumer is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return _done(await self._consumer.sync(consumer, request))

    async def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """A heartbeat's answer."""
        self._check_name(group_id)
        loaded = self._classic.loaded.get(group_id) or await self._find_classic(group_id)
        if loaded is not None:
            return self._classic.heartbeat(loaded, member_id, instance_id, generation)
        consumer = self._consumer.loaded.get(group_id)
        if consumer is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return await self._consumer.classic_heartbeat(consumer, member_id, instance_id, generation)

    async def leave(self, group_id: str, leaving: Iterable[Leave]) -> list[ErrorCode]:
        """A LeaveGroup's answer for each member; an administrator may send one for any."""
        self._check_name(group_id)
        leaving = list(leaving)
        classic = await self._find_classic(group_id)
        if classic is not None:
            return self._classic.leave(classic, leaving)
        consumer = await self._find_consumer(group_id)
        if consumer is not None:
            return await self._consumer.remove(consumer, leaving)
        return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)

    # ---- members of the consumer protocol ----------------------------------------------------------------------------

    async def consumer_heartbeat(
        self, group_id: str, request: MemberHeartbeat, viewer: Viewer = ALL_CLIENTS
    ) -> "asyncio.Future[HeartbeatAnswer]":
        """A ConsumerGroupHeartbeat; its answer comes when it is stored. KafkaError at once."""
        if request.regex:
            await self._consumer.check_pattern(request.regex)
        self._consumer.check_size(request)
        joins = request.epoch == JOINING
        loaded = self._consumer.loaded.get(group_id) or await self._find_consumer(group_id, create=joins)
        if loaded is None and not request.leaves:
            classic = await self._find_classic(group_id)
            if classic is not None and self._may_upgrade(classic.group):
                # where Kafka says GROUP_ID_NOT_FOUND, by which clients end: the group has become a classic one
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {request.member_id} has to join again.")
        if loaded is None:
            raise self.consumer_group_not_found(group_id, "Group" if request.leaves else "Consumer group")
        return await self._consumer.heartbeat(loaded, request, viewer)

    # ---- share groups ------------------------------------------------------------------------------------------------

    async def share_heartbeat(self, group_id: str, request: MemberHeartbeat) -> "asyncio.Future[HeartbeatAnswer]":
        """A ShareGroupHeartbeat; its answer comes when it is stored. KafkaError at once."""
        self._share.check_size(request)
        joins = request.epoch == JOINING
        loaded = self._share.loaded.get(group_id) or await self._find_share(group_id, create=joins)
        if loaded is None:
            raise self.share_group_not_found(group_id, "Group" if request.leaves else "Share group")
        return await self._share.heartbeat(loaded, request, ALL_CLIENTS)

    async def share_snapshot(self, group_id: str) -> GroupSnapshot:
        """The group as far as it is stored; GROUP_ID_NOT_FOUND."""
        snapshot: GroupSnapshot = (await self._share_group(group_id)).stored
        return snapshot

    async def share_groups(self) -> list[tuple[str, ConsumerGroupState]]:
        """Every share group."""
        names = dict.fromkeys((*self._share.loaded, *self._store.groups()))
        found = [(name, await self._find_share(name, confirmed=False)) async for name in in_turns(names)]
        return [(name, loaded.stored.state) for name, loaded in found if loaded is not None]

    async def share_partitions(self, group_id: str) -> list[Place]:
        """The partitions that a share group has a state of; none where there is no such group."""
        await self._store.confirm(group_id)
        return self.share_states.known(group_id)

    async def share_summaries(self, group_id: str, places: Iterable[Place]) -> dict[Place, Summary | None]:
        """The states of some of them; None of one that it has none of."""
        return await gathered_for(places, lambda place: self.share_states.summary(group_id, *place))

    async def alter_share_offsets(self, group_id: str, starts: Mapping[Place, int]) -> None:
        """Let a share group without members begin elsewhere; GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
        await self._share.alter(await self._share_group(group_id), starts)

    async def delete_share_offsets(self, group_id: str, topic_ids: Collection[UUID]) -> set[UUID]:
        """Let it forget topics; those of which it had anything. The same errors."""
        return await self._share.delete_topics(await self._share_group(group_id), topic_ids)

    def share_group_not_found(self, group_id: str, what: str = "Group") -> KafkaError:
        """What to say of a group that is no share group (Kafka's `GroupMetadataManager`)."""
        if self.is_there(group_id):
            return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")

    # ---- streams groups ----------------------------------------------------------------------------------------------

    async def streams_heartbeat(self, group_id: str, request: StreamsHeartbeat) -> "asyncio.Future[StreamsAnswer]":
        """A StreamsGroupHeartbeat; its answer comes when it is stored. KafkaError at once."""
        self._streams.check_heartbeat(request)
        joins = request.epoch == JOINING
        loaded = self._streams.loaded.get(group_id) or await self._find_streams(group_id, create=joins)
        if loaded is None:
            raise self.streams_group_not_found(group_id, "Group" if request.leaves else "Streams group")
        return await self._streams.heartbeat(loaded, request)

    def create_internal_topics(self, group_id: str, wanted: Collection[TopicInfo], create: Create) -> str:
        """Have internal topics of a streams group created; what has failed recently, "" if nothing has."""
        return self._streams.create_topics(group_id, wanted, create)

    async def streams_snapshot(self, group_id: str) -> StreamsSnapshot:
        """The group as far as it is stored; GROUP_ID_NOT_FOUND."""
        self._check_active()
        await self._store.confirm(group_id)
        loaded = await self._find_streams(group_id, confirmed=False)
        if loaded is None:
            raise self.streams_group_not_found(group_id)
        snapshot: StreamsSnapshot = loaded.stored
        return snapshot

    async def streams_groups(self) -> list[tuple[str, StrEnum]]:
        """Every streams group."""
        names = dict.fromkeys((*self._streams.loaded, *self._store.groups()))
        found = [(name, await self._find_streams(name, confirmed=False)) async for name in in_turns(names)]
        return [(name, loaded.stored.state) for name, loaded in found if loaded is not None]

    def streams_group_not_found(self, group_id: str, what: str = "Group") -> KafkaError:
        """What to say of a group that is no streams group (Kafka's `GroupMetadataManager`)."""
        if self.is_there(group_id):
            return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")

    # ---- groups to be looked at --------------------------------------------------------------------------------------

    async def classic_group(self, group_id: str) -> ClassicGroup | None:
        """The group, to be looked at only; None for one of the consumer protocol as well."""
        self._check_active()
        await self._store.confirm(group_id)
        loaded = await self._find_classic(group_id, confirmed=False)
        return None if loaded is None else loaded.group

    async def classic_groups(self) -> list[ClassicGroup]:
        """Every group of the classic protocol, also those that only have offsets."""
        self._check_active()
        await self._store.ready()
        names = dict.fromkeys((*self._classic.loaded, *self._store.groups()))
        found = [await self._find_classic(name, confirmed=False) async for name in in_turns(names)]
        return [loaded.group for loaded in found if loaded is not None]

    async def consumer_snapshot(self, group_id: str) -> GroupSnapshot | None:
        """The group as far as it is stored."""
        await self._store.confirm(group_id)
        return await self._snapshot(group_id)

    async def consumer_groups(self) -> list[tuple[str, ConsumerGroupState]]:
        """Every group of the consumer protocol."""
        names = dict.fromkeys((*self._consumer.loaded, *self._store.groups()))
        found = [(name, await self._snapshot(name)) async for name in in_turns(names)]
        return [(name, snapshot.state) for name, snapshot in found if snapshot is not None]

    def consumer_group_not_found(self, group_id: str, what: str = "Group") -> KafkaError:
        """What to say of a group that is not of the consumer protocol (Kafka's `GroupMetadataManager`)."""
        if self.is_there(group_id):
            return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")

    def is_there(self, group_id: str) -> bool:
        """Whether there is a group of any type, as far as this node knows: ask after what has confirmed it."""
        return self._is_in_memory(group_id) or bool(self._store.known(group_id))

    async def delete(self, group_id: str) -> None:
        """Delete a group without members, with its offsets."""
        self._check_active()
        await confirm_decided(await self._store.load(group_id), self._store.outcomes)
        # once that is known nothing waits: no member joins between look and write
        share = await self._find_share(group_id, confirmed=False)
        if share is not None:
            await self._share.delete(share)
            return
        streams = await self._find_streams(group_id, confirmed=False)
        if streams is not None:
            await self._streams.delete(streams)
            return
        consumer = await self._find_consumer(group_id, confirmed=False)
        if consumer is not None:
            await self._consumer.delete(consumer)
            return
        classic = await self._find_classic(group_id, confirmed=False)
        if classic is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        await self._classic.delete(classic)

    # ---- for committed offsets (offsets.GroupMembership) -------------------------------------------------------------

    async def check_commit(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        version: int,
        partitions: Collection[tuple[str, int]] = (),
    ) -> None:
        """Raise the KafkaError that a commit of this member gets, if it may not; its session goes on if it may."""
        self._check_active()
        classic = self._classic.loaded.get(group_id)
        if classic is None:
            # what is known is enough: the commit is stored only if no other bridge has taken the slot
            consumer = self._consumer.loaded.get(group_id) or await self._find_consumer(group_id, confirmed=False)
            if consumer is not None:
                consumer.group.check_commit(member_id, generation, version)
                return
            streams = await self._find_streams(group_id, confirmed=False)
            if streams is not None:
                streams.group.check_commit(member_id, generation, version, partitions)
                return
            if await self._find_share(group_id, confirmed=False) is not None:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
            classic = await self._find_classic(group_id, confirmed=False)
        if classic is not None:
            self._classic.check_commit(classic, member_id, group_instance_id, generation)
        elif generation >= 0:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION)

    async def check_commit_in_transaction(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        partitions: Collection[tuple[str, int]] = (),
    ) -> None:
        """Raise the KafkaError that such a TxnOffsetCommit gets, if it may not be.

        One that names no member is taken: older clients name none. A rebalance does not matter, as on Kafka
        (`validateTransactionalOffsetCommit`). What the group has not stored yet counts: who was a member before it may
        have seen nothing of what the next one commits.
        """
        self._check_name(group_id)
        if generation < 0 and not member_id and group_instance_id is None:
            return
        try:
            await self.check_commit(group_id, member_id, group_instance_id, generation, _OWN_ERRORS, partitions)
        except KafkaError as error:
            if error.code != ErrorCode.REBALANCE_IN_PROGRESS:
                raise KafkaError(_IN_TRANSACTION.get(error.code, error.code), str(error)) from None

    async def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Raise the KafkaError that a member with an epoch gets for its OffsetFetch, if it may not."""
        self._check_active()
        consumer = await self._find_consumer(group_id)
        if consumer is not None:
            consumer.group.check_fetch(member_id, epoch)
            return
        streams = await self._find_streams(group_id, confirmed=False)
        if streams is not None:
            streams.group.check_fetch(member_id, epoch)

    async def retention(self, group_id: str) -> OffsetRetention:
        """What keeps the group's offsets from expiring, as far as this node knows: at once where it has the slot."""
        consumer = await self._find_consumer(group_id, confirmed=False)
        if consumer is not None:
            return consumer.retention()
        streams = await self._find_streams(group_id, confirmed=False)
        if streams is not None:
            return streams.retention()
        if await self._find_share(group_id, confirmed=False) is not None:
            return SHARE_GROUP
        classic = await self._find_classic(group_id, confirmed=False)
        if classic is None:
            return UNKNOWN_GROUP
        return classic.retention()

    async def forget(self, group_id: str) -> None:
        """Delete an empty group that has no offsets left; nothing where a member has joined meanwhile."""
        consumer = await self._find_consumer(group_id, confirmed=False)
        if consumer is not None:
            await self._consumer.forget(consumer)
            return
        streams = await self._find_streams(group_id, confirmed=False)
        if streams is not None:
            await self._streams.forget(streams)
            return
        classic = await self._find_classic(group_id, confirmed=False)
        if classic is not None:
            await self._classic.forget(classic)

    async def forget_deleted_topics(self, group_id: str) -> None:
        """Delete what a share group has stored of topics that are no more; nothing of a group of another type."""
        share = await self._find_share(group_id, confirmed=False)
        if share is not None:
            await self._share.forget_deleted_topics(share)

    # ---- life --------------------------------------------------------------------------------------------------------

    def unload(self, lost: Callable[[str], bool]) -> None:
        """Another node coordinates these groups now: members that wait must look for it."""
        self._doubtful = {name: keys for name, keys in self._doubtful.items() if not lost(name)}
        self._classic.unload(lost)
        self._consumer.unload(lost)
        self._share.unload(lost)
        self._streams.unload(lost)

    def stop(self) -> None:
        """The process stops: answer what waits, so that connections can be drained; the groups go on elsewhere."""
        self._active = False
        self._consumer.stop()
        self._share.stop()
        self._streams.stop()
        self._classic.stop()

    async def close(self) -> None:
        """Wait for what is being stored."""
        self.stop()
        resuming = list(self._resuming)
        for task in resuming:
            task.cancel()
        await asyncio.gather(*resuming, return_exceptions=True)
        await asyncio.gather(self._classic.close(), self._consumer.close(), self._share.close(), self._streams.close())

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _check_active(self) -> None:
        if not self._active:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the bridge is stopping")

    def _check_name(self, group_id: str) -> None:
        self._check_active()
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)

    async def _snapshot(self, group_id: str) -> GroupSnapshot | None:
        loaded = await self._find_consumer(group_id, confirmed=False)
        return None if loaded is None else loaded.stored

    async def _find_classic(
        self, group_id: str, create: bool = False, confirmed: bool = True
    ) -> LoadedClassicGroup | None:
        """The group, from memory or from the store; None: there is none of the classic protocol."""
        loaded = self._classic.loaded.get(group_id)
        if loaded is not None or (not create and self._is_in_memory(group_id)):
            return loaded
        stored = await self._load(group_id, confirmed)
        loaded = self._classic.loaded.get(group_id)
        if loaded is not None:  # by another request meanwhile
            return loaded
        self._check_active()
        other = self._loaded_with_epochs(group_id, stored)
        if other is None:
            return self._classic.load(group_id, stored.metadata, create=create) if create or stored else None
        if not create:
            return None
        if group_id in self._share.loaded:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Group {group_id} is not a classic group.")
        if group_id in self._streams.loaded:
            self._streams.displace(self._streams.loaded[group_id])
        else:
            self._consumer.displace(self._consumer.loaded[group_id])
        return self._classic.load(group_id, None, create=True)

    async def _find_consumer(
        self, group_id: str, create: bool = False, confirmed: bool = True
    ) -> LoadedGroup[ConsumerGroup] | None:
        """The group, from memory or from the store; None: there is none of the consumer protocol."""
        if group_id not in self._consumer.loaded and (create or not self._is_in_memory(group_id)):
            stored = await self._load(group_id, confirmed)
            self._check_active()
            if self._loaded_with_epochs(group_id, stored) is None and create:
                if await self._upgrade(group_id, stored):
                    return await self._find_consumer(group_id, create, confirmed)
                self._classic.displace(group_id, stored.metadata, "consumer")
                self._consumer.create(group_id, stored)
        loaded = self._consumer.loaded.get(group_id)
        if loaded is None and create:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return loaded

    async def _find_share(
        self, group_id: str, create: bool = False, confirmed: bool = True
    ) -> LoadedGroup[ShareGroup] | None:
        """The group, from memory or from the store; None: there is no share group."""
        if not self._is_in_memory(group_id):
            stored = await self._load(group_id, confirmed)
            self._check_active()
            other = self._loaded_with_epochs(group_id, stored)
            if create and other is None and not (stored or group_id in self._classic.loaded):
                self._share.create(group_id, stored)
        return self._share.loaded.get(group_id)

    async def _find_streams(
        self, group_id: str, create: bool = False, confirmed: bool = True
    ) -> LoadedGroup[StreamsGroup] | None:
        """The group, from memory or from the store; None: there is no streams group."""
        if group_id not in self._streams.loaded and (create or not self._is_in_memory(group_id)):
            stored = await self._load(group_id, confirmed)
            self._check_active()
            if self._loaded_with_epochs(group_id, stored) is None and create:
                self._classic.displace(group_id, stored.metadata, "streams")
                self._streams.create(group_id, stored)
        return self._streams.loaded.get(group_id)

    def _loaded_with_epochs(self, group_id: str, stored: StoredGroup) -> LoadedGroup[Any] | None:
        """The group, taken into memory if it is not; None: it is classic, or there is none."""
        for groups in (self._consumer, self._share, self._streams):
            if group_id in groups.loaded:
                return groups.loaded[group_id]
        if group_id in self._classic.loaded:
            return None
        consumer = self._consumer.load(group_id, stored)
        if consumer is not None:
            consumer.unconfirmed |= self._doubtful.pop(group_id, set())
            return consumer
        found: LoadedGroup[Any] | None = self._share.load(group_id, stored) or self._streams.load(group_id, stored)
        return found

    def _is_in_memory(self, group_id: str) -> bool:
        """Whether the group is in memory, of whatever type, perhaps with nothing stored yet."""
        return any(group_id in one.loaded for one in (self._classic, self._consumer, self._share, self._streams))

    async def _share_group(self, group_id: str) -> LoadedGroup[ShareGroup]:
        self._check_active()
        await self._store.confirm(group_id)
        loaded = await self._find_share(group_id, confirmed=False)
        if loaded is None:
            raise self.share_group_not_found(group_id)
        return loaded

    # ---- groups with members that change their type ------------------------------------------------------------------

    async def _load(self, group_id: str, confirmed: bool) -> StoredGroup:
        """What is stored of a group; all of one type."""
        while True:
            while group_id in self._moving:
                await asyncio.wait([self._moving[group_id]])
            stored = await self._store.load(group_id, confirmed=confirmed)
            if group_id not in self._moving:
                return stored

    async def _upgrade(self, group_id: str, stored: StoredGroup) -> bool:
        """Whether it was a classic group with members, and is a consumer group now; KafkaError if it cannot be one."""
        if group_id not in self._classic.loaded:
            self._classic.load(group_id, stored.metadata, create=False)
            if group_id not in self._classic.loaded:
                return False  # there is none
        view, known = View(), frozenset[str]()
        while True:
            classic = self._classic.loaded.get(group_id)
            if classic is None:
                return True  # it has changed meanwhile
            if classic.group.state is ClassicGroupState.EMPTY or not self._may_upgrade(classic.group):
                return False
            names = migration.topics_of(classic.group)
            if names <= known:
                break
            view, known = await self._consumer.view(names), names
        # from here on nothing waits until the group is on its way
        snapshot = migration.consumer_group(classic.group, view)
        self._classic.hand_over(classic)
        former = (member_key(group_id, one) for one in self._store.known(group_id).members)
        records: dict[Key, bytes | None] = {**dict.fromkeys(former), **self._consumer.records_of(group_id, snapshot)}
        moving = self._move(group_id, records)
        await asyncio.wait([moving])
        error = error_of(moving)
        if error:
            raise KafkaError(error, "the group could not be stored")
        _log.info("= group upgraded", extra={"group": group_id, "members": len(snapshot.members)})
        return True

    def _may_upgrade(self, group: ClassicGroup) -> bool:
        of_consumers = group.protocol_type == consumer_protocol.TYPE
        return self._upgrades and of_consumers and len(group.members) < self._most_consumers

    def _downgrade(
        self, group_id: str, record: GroupRecord, records: Mapping[Key, bytes | None], waiting: list[Waiting]
    ) -> None:
        """Store a consumer group with classic members alone as a classic group, and go on with that."""

        def stored(moved: "asyncio.Future[None]") -> None:
            error = error_of(moved)
            if error:
                refuse_all(waiting, error)  # the next request finds what is stored
                return
            if self._active and self._store.known(group_id):  # else another node has it now
                self._classic.take_over(group_id, record)
            _log.info("= group downgraded", extra={"group": group_id, "members": len(record.members)})
            answer_all(waiting)

        self._move(group_id, records).add_done_callback(stored)

    def _move(self, group_id: str, records: Mapping[Key, bytes | None]) -> "asyncio.Future[None]":
        """Store a group as of another type; until then nobody loads it."""
        moving = self._moving[group_id] = submit(self._store, group_id, records)
        moving.add_done_callback(partial(self._moved, group_id, records.keys()))
        return moving

    def _moved(self, group_id: str, keys: Collection[Key], moving: "asyncio.Future[None]") -> None:
        del self._moving[group_id]
        self._doubtful.pop(group_id, None)
        if moving.cancelled() or moving.exception() is not None:
            self._doubtful[group_id] = set(keys)

    # ---- groups that come and go -------------------------------------------------------------------------------------

    def _take_over(self, group_ids: list[str]) -> None:
        """This node coordinates these groups now, whose members may all be gone."""
        if group_ids:
            self._spawn(self._resume, group_ids)

    def _spawn(self, work: Callable[_P, Coroutine[None, None, None]], *args: _P.args, **kwargs: _P.kwargs) -> None:
        if self._active:  # a slot may still come while the node stops
            task = asyncio.get_running_loop().create_task(work(*args, **kwargs))
            self._resuming.add(task)
            task.add_done_callback(self._resuming.discard)

    async def _resume_all(self) -> None:
        while True:
            try:
                await self._store.ready()
                break
            except KafkaError:
                await self._pause(_RESUME_SECONDS)
        await self._resume(self._store.groups())

    async def _resume(self, group_ids: Iterable[str]) -> None:
        for group_id in group_ids:
            try:
                await self._find_classic(group_id, confirmed=False)  # loads one of another type, too
            except KafkaError as error:  # its first request loads it
                _log.warning("! group not resumed", extra={"group": group_id, "error": error})
            await asyncio.sleep(0)  # there may be many

    async def _pause(self, seconds: float) -> None:
        over = asyncio.Event()
        self._clock.call_at(self._clock.time() + seconds, over.set)
        await over.wait()


def _done(value: _T) -> "asyncio.Future[_T]":
    """A future that has this result."""
    future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future
