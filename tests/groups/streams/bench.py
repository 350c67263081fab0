"""A coordinator of streams groups with a clock, topics and a store in memory."""

import asyncio
from typing import Any

from bridge.config import Settings
from bridge.groups.configs import STREAMS_DELAY, GroupConfigs
from bridge.groups.coordinator import GroupCoordinator
from bridge.groups.streams.model import NO_TASKS, Topology
from bridge.groups.streams.state import StreamsAnswer, StreamsHeartbeat
from bridge.telemetry.metrics import GroupMetrics
from tests.groups.clock import FakeClock
from tests.groups.fake_topics import FakeTopics
from tests.groups.store.fake_store import FakeStore
from tests.groups.streams.group_machine import PLAIN


class StreamsBench:
    """One node; `restarted` is the next process on the same store and topics."""

    def __init__(
        self, store: FakeStore | None = None, topics: FakeTopics | None = None, delay_ms: int = 0, **groups: Any
    ) -> None:
        self.store = store or FakeStore()
        self.topics = topics or FakeTopics(**{"in": 2})
        self.clock = FakeClock()
        self.metrics = GroupMetrics()
        settings = Settings().with_values(groups=groups).groups
        self.kept = {STREAMS_DELAY: str(delay_ms)}
        self.groups = GroupCoordinator(
            self.store, settings, self.metrics, self.topics, self.clock, wall=lambda: 77.0,
            configs=GroupConfigs(settings, lambda group_id: self.kept),
        )  # fmt: skip

    def restarted(self) -> "StreamsBench":
        self.store.on_lost.clear()
        self.store.on_owned.clear()
        return StreamsBench(self.store, self.topics)

    async def send(self, member: str, epoch: int, **fields: Any) -> "asyncio.Future[StreamsAnswer]":
        return await self.groups.streams_heartbeat("g", StreamsHeartbeat(member, epoch, **fields))

    async def beat(self, member: str, epoch: int, **fields: Any) -> StreamsAnswer:
        return await asyncio.wait_for(await self.send(member, epoch, **fields), 1)

    async def join(self, member: str = "m", topology: Topology = PLAIN, **fields: Any) -> StreamsAnswer:
        said = {"rebalance_timeout_ms": 300_000, "process_id": f"of-{member}", "owned": NO_TASKS}
        return await self.beat(member, 0, topology=topology, **{**said, **fields})
