"""Coordinates the groups of the consumer protocol (KIP-848)."""

import asyncio
from collections.abc import Iterable

from bridge.errors import KafkaError
from bridge.groups.classic.events import Leave
from bridge.groups.configs import CONSUMER_SESSION
from bridge.groups.consumer.model import GroupSnapshot
from bridge.groups.consumer.state import ConsumerGroup
from bridge.groups.epochs.coordinator import LoadedGroup, SubscribedGroups
from bridge.groups.epochs.group import EpochGroupConfig
from bridge.groups.epochs.records import CONSUMER
from bridge.kafka.error_codes import ErrorCode


class ConsumerGroups(SubscribedGroups[ConsumerGroup]):
    """The consumer groups of this node."""

    format = CONSUMER
    session_config = CONSUMER_SESSION

    async def check_pattern(self, pattern: str) -> None:
        """Raise KafkaError(INVALID_REGULAR_EXPRESSION) if it is no pattern."""
        await self._catalogue.check(pattern)

    def remove(self, loaded: LoadedGroup[ConsumerGroup], leaving: Iterable[Leave]) -> "asyncio.Future[list[ErrorCode]]":
        """A LeaveGroup of an administrator."""
        return self._do(loaded, lambda group, now: group.remove(leaving))

    def displace(self, loaded: LoadedGroup[ConsumerGroup]) -> None:
        """Drop a group that becomes a classic one; INCONSISTENT_GROUP_PROTOCOL where it has members."""
        if loaded.group.snapshot.members:
            text = f"Group {loaded.group.id} is of the consumer protocol."
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
        self._drop(loaded, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _machine(self, group_id: str, limits: EpochGroupConfig, now: float, snapshot: GroupSnapshot) -> ConsumerGroup:
        return ConsumerGroup(group_id, limits, now, snapshot)
