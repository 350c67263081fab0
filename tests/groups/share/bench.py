"""A coordinator of share groups with a clock, topics and a store in memory."""

import asyncio
from typing import Any

from bridge.config import Settings
from bridge.groups.configs import SHARE_ASSIGNMENT, GroupConfigs
from bridge.groups.coordinator import GroupCoordinator
from bridge.groups.epochs.group import HeartbeatAnswer, MemberHeartbeat
from bridge.telemetry.metrics import GroupMetrics
from tests.groups.clock import FakeClock
from tests.groups.fake_topics import FakeTopics
from tests.groups.store.fake_store import FakeStore


class ShareBench:
    """One node; `restarted` is the next process on the same store and topics."""

    def __init__(self, store: FakeStore | None = None, topics: FakeTopics | None = None) -> None:
        self.store = store or FakeStore()
        self.topics = topics or FakeTopics(t=2)
        self.clock = FakeClock()
        self.metrics = GroupMetrics()
        self.groups = GroupCoordinator(
            self.store,
            Settings().groups,
            self.metrics,
            self.topics,
            self.clock,
            wall=lambda: 77.0,
            configs=GroupConfigs(Settings().groups, lambda _: {SHARE_ASSIGNMENT: "0"}),
        )

    def restarted(self) -> "ShareBench":
        self.store.on_lost.clear()
        return ShareBench(self.store, self.topics)

    async def send(self, member: str, epoch: int, **fields: Any) -> "asyncio.Future[HeartbeatAnswer]":
        return await self.groups.share_heartbeat("g", MemberHeartbeat(member, epoch, **fields))

    async def beat(self, member: str, epoch: int, **fields: Any) -> HeartbeatAnswer:
        return await asyncio.wait_for(await self.send(member, epoch, **fields), 1)

    async def join(self, member: str = "m", topics: str = "t") -> HeartbeatAnswer:
        return await self.beat(member, 0, topics=frozenset(topics))

    @property
    def states(self) -> list[tuple[str, int]]:
        """The partitions that have a state, by topic; ? for a topic that is not there."""
        names = {topic.id: name for name, topic in self.topics.here.items()}
        return sorted((names.get(topic, "?"), number) for topic, number in self.groups.share_states.known("g"))
