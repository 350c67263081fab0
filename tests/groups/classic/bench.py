"""A coordinator of classic groups with a clock and a store in memory."""

import asyncio
from typing import Any

from bridge.config import Settings
from bridge.groups.classic.events import ClassicGroupState, Join, Joined, Sync
from bridge.groups.coordinator import GroupCoordinator
from bridge.kafka.error_codes import ErrorCode
from bridge.telemetry.metrics import GroupMetrics
from tests.groups.clock import FakeClock, settle
from tests.groups.fake_topics import FakeTopics
from tests.groups.store.fake_store import FakeStore

TOPICS = b"\x00\x00\x00\x00\x00\x02\x00\x01a\x00\x01b\xff\xff\xff\xff"


class Bench:
    """One node; `restarted` is the next process on the same store."""

    def __init__(self, store: FakeStore | None = None) -> None:
        self.store = store or FakeStore()
        self.clock = FakeClock()
        self.metrics = GroupMetrics()
        self.groups = GroupCoordinator(
            self.store, Settings().groups, self.metrics, FakeTopics(), self.clock, wall=lambda: 77.0
        )
        self._ids = 0

    def restarted(self) -> "Bench":
        self.store.on_lost.clear()
        return Bench(self.store)

    async def join(self, member_id: str = "", group_id: str = "g", **changes: Any) -> "asyncio.Future[Joined]":
        self._ids += 1
        values: dict[str, Any] = {
            "new_id": f"m{self._ids}",
            "instance_id": None,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": (("range", TOPICS),),
            "id_required": False,
            **changes,
        }
        return await self.groups.join(group_id, Join(member_id=member_id, **values))

    async def sync(self, member_id: str, generation: int = 1, group_id: str = "g") -> "asyncio.Future[Any]":
        assignments = {member_id: b"mine"}
        return await self.groups.sync(group_id, Sync(member_id, None, generation, None, None, assignments))

    async def heartbeat(self, member_id: str, generation: int = 1, group_id: str = "g") -> ErrorCode:
        return await self.groups.heartbeat(group_id, member_id, None, generation)

    async def formed(self, **changes: Any) -> str:
        """A stable group of one."""
        join = await self.join(**changes)
        await self.clock.advance(0.1)
        member_id = join.result().member_id
        sync = await self.sync(member_id, join.result().generation)
        await settle()
        assert sync.result().assignment == b"mine"
        return member_id

    async def state(self, group_id: str = "g") -> ClassicGroupState | None:
        group = await self.groups.classic_group(group_id)
        return None if group is None else group.state
