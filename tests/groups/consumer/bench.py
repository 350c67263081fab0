"""A coordinator of consumer groups with a clock, topics and a store in memory."""

import asyncio
from typing import Any

from bridge.config import Settings
from bridge.errors import KafkaError
from bridge.groups.classic.events import Join
from bridge.groups.consumer.model import Assignment, ConsumerGroupState
from bridge.groups.consumer.topics import ALL_CLIENTS, Viewer
from bridge.groups.coordinator import GroupCoordinator
from bridge.groups.epochs.group import HeartbeatAnswer, MemberHeartbeat
from bridge.kafka.error_codes import ErrorCode
from bridge.telemetry.metrics import GroupMetrics
from tests.groups.clock import FakeClock
from tests.groups.fake_topics import FakeTopics
from tests.groups.store.fake_store import FakeStore


class Bench:
    """One node; `restarted` is the next process on the same store and topics."""

    def __init__(self, store: FakeStore | None = None, topics: FakeTopics | None = None) -> None:
        self.store = store or FakeStore()
        self.topics = topics or FakeTopics(t=4)
        self.clock = FakeClock()
        self.metrics = GroupMetrics()
        self.groups = GroupCoordinator(
            self.store, Settings().groups, self.metrics, self.topics, self.clock, wall=lambda: 77.0
        )

    def restarted(self) -> "Bench":
        self.store.on_lost.clear()
        return Bench(self.store, self.topics)

    async def send(
        self, member: str, epoch: int, group: str = "g", viewer: Viewer = ALL_CLIENTS, **fields: Any
    ) -> "asyncio.Future[HeartbeatAnswer]":
        beat = MemberHeartbeat(member, epoch, viewer=viewer.name, **fields)
        return await self.groups.consumer_heartbeat(group, beat, viewer)

    def topics_of(self, beat: HeartbeatAnswer) -> set[str]:
        """Those that a member is told of."""
        names = {topic.id: name for name, topic in self.topics.here.items()}
        return {names[topic] for topic in beat.assignment or {}}

    async def join(
        self, member: str = "m", topics: str | None = "t", **fields: Any
    ) -> "asyncio.Future[HeartbeatAnswer]":
        owned: Assignment = {}
        whole = {"rebalance_timeout_ms": 60_000, "topics": frozenset(topics or ()), "owned": owned, **fields}
        return await self.send(member, 0, **whole)

    async def joined(self, member: str = "m", **fields: Any) -> HeartbeatAnswer:
        return await asyncio.wait_for(await self.join(member, **fields), 1)

    async def beat(self, member: str, epoch: int, **fields: Any) -> HeartbeatAnswer:
        return await asyncio.wait_for(await self.send(member, epoch, **fields), 1)

    async def state(self, group: str = "g") -> ConsumerGroupState | None:
        snapshot = await self.groups.consumer_snapshot(group)
        return None if snapshot is None else snapshot.state

    async def classic_join(self, member: str = "") -> ErrorCode:
        join = Join(member, "c1", None, "client", "/127.0.0.1", 10_000, 60_000, "consumer", (("range", b""),), False)
        answer = await self.groups.join("g", join)
        await self.clock.advance(0.2)
        return answer.result().error


async def error_code(work: Any) -> int:
    try:
        result = await work
        if isinstance(result, asyncio.Future):
            await result
    except KafkaError as error:
        return error.code
    return 0
