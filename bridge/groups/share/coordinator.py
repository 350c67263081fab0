"""Coordinates share groups (KIP-932): members as in consumer groups, and the states of their partitions.

A partition's state is made before the partition is assigned, and goes with its topic or its group.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final
from uuid import UUID

from bridge.errors import KafkaError
from bridge.groups.configs import SHARE_ASSIGNMENT, SHARE_SESSION
from bridge.groups.consumer.model import EpochSnapshot, GroupSnapshot, View
from bridge.groups.consumer.topics import Viewer
from bridge.groups.epochs.coordinator import LoadedGroup, SubscribedGroups
from bridge.groups.epochs.group import EpochGroupConfig, MemberHeartbeat
from bridge.groups.epochs.records import SHARE
from bridge.groups.share.state import ShareGroup
from bridge.groups.share.states import Place, ShareStates
from bridge.groups.store.records import StoredGroup
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.futures import gathered
from bridge.telemetry import log

_log = log.get(__name__)

MOST_SHARE_MEMBERS: Final = 200
"""Kafka's group.share.max.size."""


class ShareGroups(SubscribedGroups[ShareGroup]):
    """The share groups of this node."""

    format = SHARE
    session_config = SHARE_SESSION

    def __init__(self, states: ShareStates, *shared: Any) -> None:
        """`states`: of their partitions; the others as `EpochGroups`."""
        super().__init__(*shared)
        self._states = states
        self.on_gone: list[Callable[[str, str], None]] = []
        """Called with group and member where one has left, or was not heard of in time."""

    async def alter(self, loaded: LoadedGroup[ShareGroup], starts: Mapping[Place, int]) -> None:
        """Let partitions begin elsewhere; NON_EMPTY_GROUP."""
        async with loaded.looking:  # no member joins meanwhile
            self._check_empty(loaded)
            group_id = loaded.group.id
            await gathered(self._states.alter(group_id, *place, start) for place, start in starts.items())

    async def delete_topics(self, loaded: LoadedGroup[ShareGroup], topic_ids: Collection[UUID]) -> set[UUID]:
        """Forget topics; those of which there was anything. NON_EMPTY_GROUP."""
        async with loaded.looking:
            self._check_empty(loaded)
            places = [place for place in self._states.known(loaded.group.id) if place[0] in topic_ids]
            await self._states.delete(loaded.group.id, places)
            return {topic_id for topic_id, _ in places}

    async def forget_deleted_topics(self, loaded: LoadedGroup[ShareGroup]) -> None:
        """Forget the states of topics that are no more: without members nobody would look for them."""
        async with loaded.looking:
            if not loaded.gone:
                await self._forget_deleted(loaded.group.id, self._states.known(loaded.group.id))

    async def delete(self, loaded: LoadedGroup[ShareGroup]) -> None:
        """Delete a group without members, with the states of its partitions; NON_EMPTY_GROUP."""
        async with loaded.looking, self._states.deleting(loaded.group.id) as records:
            await self._all_written(loaded)
            self._check_empty(loaded)
            stored = await self._store.load(loaded.group.id, confirmed=False)
            await self._erase(loaded, stored, set(records))

    def load(self, group_id: str, stored: StoredGroup) -> LoadedGroup[ShareGroup] | None:
        """Take a group into memory as it is stored; None if it is not of this type."""
        if stored.metadata is None and stored.shares:  # its first member's partitions were stored, the member was not
            return self.create(group_id, stored)
        return super().load(group_id, stored)

    def _machine(self, group_id: str, limits: EpochGroupConfig, now: float, snapshot: GroupSnapshot) -> ShareGroup:
        return ShareGroup(group_id, limits, now, snapshot)

    def _limits(self, group_id: str) -> EpochGroupConfig:
        session, interval = (self._configs.number(group_id, one) for one in (SHARE_SESSION, SHARE_ASSIGNMENT))
        return EpochGroupConfig(session / 1000, self._most_members, interval / 1000)

    def _report(self, group_id: str, before: EpochSnapshot, after: EpochSnapshot) -> None:
        super()._report(group_id, before, after)
        for member_id in before.members.keys() - after.members.keys():
            for callback in self.on_gone:
                callback(group_id, member_id)

    def _check_empty(self, loaded: LoadedGroup[ShareGroup]) -> None:
        if loaded.gone:
            raise KafkaError(loaded.gone, "the group is not here any more")
        if loaded.group.snapshot.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")

    async def _look(
        self, loaded: LoadedGroup[ShareGroup], request: MemberHeartbeat, subscribes: bool, viewer: Viewer
    ) -> View | None:
        if loaded.gone:  # deleted while this waited
            raise KafkaError(loaded.gone, "the group is not here any more")
        view = await super()._look(loaded, request, subscribes, viewer)
        if view is not None:
            await self._initialize(loaded.group.id, view)
        return view

    async def _initialize(self, group_id: str, view: View) -> None:
        """Make the states of partitions that are to be assigned, and forget those of topics that are no more."""
        there = set(self._states.known(group_id))
        wanted = {(topic.id, number) for topic in view.topics.values() for number in range(topic.partitions)}
        await gathered(self._states.initialize(group_id, *place) for place in sorted(wanted - there))
        await self._forget_deleted(group_id, there - wanted)

    async def _forget_deleted(self, group_id: str, there: Collection[Place]) -> None:
        deleted = await self._catalogue.deleted({topic_id for topic_id, _ in there})
        if deleted:
            _log.info(
                "= share partitions of deleted topics forgotten", extra={"group": group_id, "topics": len(deleted)}
            )
            await self._states.delete(group_id, [place for place in there if place[0] in deleted])
