"""Coordinates the groups of the consumer protocol (KIP-848)."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from bridge.errors import KafkaError
from bridge.groups.classic.events import Join, Joined, Leave, Sync, Synced
from bridge.groups.classic.records import GroupRecord
from bridge.groups.classic.records import encode as encode_classic
from bridge.groups.configs import CONSUMER_SESSION
from bridge.groups.consumer import migration
from bridge.groups.consumer.model import GroupSnapshot, View
from bridge.groups.consumer.state import ConsumerGroup
from bridge.groups.consumer.topics import ALL_CLIENTS
from bridge.groups.epochs.coordinator import LoadedGroup, SubscribedGroups, Waiting
from bridge.groups.epochs.group import EpochGroupConfig, MemberHeartbeat
from bridge.groups.epochs.records import CONSUMER
from bridge.groups.store.records import Key, group_key, member_key
from bridge.kafka import consumer_protocol
from bridge.kafka.error_codes import ErrorCode


class ConsumerGroups(SubscribedGroups[ConsumerGroup]):
    """The consumer groups of this node."""

    format = CONSUMER
    session_config = CONSUMER_SESSION
    on_classic: Callable[[str, GroupRecord, Mapping[Key, bytes | None], list[Waiting]], None] | None = None
    """Called with a group that has classic members alone, what stores it as a classic group, and who waits for that.

    None: such a group stays what it is.
    """
    most_classic = 2**31 - 1
    """The members that a classic group may have."""

    async def check_pattern(self, pattern: str) -> None:
        """Raise KafkaError(INVALID_REGULAR_EXPRESSION) if it is no pattern."""
        await self._catalogue.check(pattern)

    async def view(self, names: Collection[str]) -> View:
        """The topics of these names as they are now; COORDINATOR_NOT_AVAILABLE."""
        try:
            return await self._catalogue.view(names, (), fresh=True)
        except KafkaError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from None

    # ---- members of the classic protocol -----------------------------------------------------------------------------

    async def join(self, loaded: LoadedGroup[ConsumerGroup], request: Join) -> Joined:
        """A JoinGroup's answer, when it is stored."""
        if request.protocol_type != consumer_protocol.TYPE:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Group {loaded.group.id} is one of consumers.")
        heartbeat = migration.heartbeat_of(request, loaded.group.snapshot.view)
        if not request.member_id and request.instance_id is None and request.id_required:
            return Joined(ErrorCode.MEMBER_ID_REQUIRED, request.new_id)
        joined = await (await self.heartbeat(loaded, heartbeat, ALL_CLIENTS))
        protocol = request.protocols[0][0]
        return Joined(ErrorCode.NONE, joined.member_id, joined.epoch, consumer_protocol.TYPE, protocol)

    async def sync(self, loaded: LoadedGroup[ConsumerGroup], request: Sync) -> Synced:
        """A SyncGroup's answer, when what it tells is stored."""
        return await self._do(loaded, lambda group, now: group.sync(request, now))

    async def classic_heartbeat(
        self, loaded: LoadedGroup[ConsumerGroup], member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """A classic member's heartbeat; its answer."""

        def beat(view: View | None) -> "asyncio.Future[ErrorCode]":
            return self._do(
                loaded, lambda group, now: group.classic_heartbeat(member_id, instance_id, generation, view, now)
            )

        if not self._should_look(loaded, ALL_CLIENTS):
            return await beat(None)
        async with loaded.looking:
            request = MemberHeartbeat(member_id, generation)
            answer = beat(await self._look(loaded, request, False, ALL_CLIENTS))
        return await answer

    def remove(self, loaded: LoadedGroup[ConsumerGroup], leaving: Iterable[Leave]) -> "asyncio.Future[list[ErrorCode]]":
        """A LeaveGroup, of classic members or of an administrator."""
        return self._do(loaded, lambda group, now: group.remove(leaving))

    # ---- from one protocol to the other ------------------------------------------------------------------------------

    def records_of(self, group_id: str, snapshot: GroupSnapshot) -> Mapping[Key, bytes | None]:
        """What stores a group that was a classic one: its type last, for many members take several entries."""
        records = self.format.changes(group_id, GroupSnapshot(), snapshot, int(self._wall() * 1000))
        own = group_key(group_id)
        return {**{key: value for key, value in records.items() if key != own}, own: records[own]}

    def displace(self, loaded: LoadedGroup[ConsumerGroup]) -> None:
        """Drop a group that becomes a classic one; COORDINATOR_LOAD_IN_PROGRESS where it has got members meanwhile."""
        if loaded.group.snapshot.members:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"Group {loaded.group.id} has members now.")
        self._drop(loaded, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _turns(self, loaded: LoadedGroup[ConsumerGroup]) -> bool:
        """Whether the last member of the new protocol has gone, or one of the others where there was none."""
        before, after, group_id = loaded.stored, loaded.group.snapshot, loaded.group.id
        if self.on_classic is None or not after.only_classic or len(after.members) > self.most_classic:
            return False
        if before.only_classic and before.members.keys() <= after.members.keys():
            return False
        record = replace(migration.classic_group(after), since_ms=int(self._wall() * 1000))
        waiting, loaded.waiting = loaded.waiting, []
        self._drop(loaded, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        records: dict[Key, bytes | None] = {group_key(group_id): encode_classic(record)}  # first: as above
        gone = loaded.unconfirmed | {member_key(group_id, one) for one in before.members}
        records |= dict.fromkeys(gone - records.keys())
        self.on_classic(group_id, record, records, waiting)
        return True

    def _machine(self, group_id: str, limits: EpochGroupConfig, now: float, snapshot: GroupSnapshot) -> ConsumerGroup:
        return ConsumerGroup(group_id, limits, now, snapshot)
