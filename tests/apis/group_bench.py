"""The classic group APIs on a coordinator and a store in memory."""

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

from bridge.apis import (
    join_group,
    load,
    sync_group,
)
from bridge.config import Settings
from bridge.groups.coordinator import GroupCoordinator
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Broker
from bridge.requests.responses import DeferredResponse
from bridge.requests.session import Session
from bridge.telemetry.metrics import Metrics
from tests.apis.wire import answer_of
from tests.groups.clock import FakeClock
from tests.groups.fake_topics import FakeTopics
from tests.groups.store.fake_store import FakeStore

TABLE = load()


class Bench:
    """A node without sockets."""

    def __init__(self, topics: FakeTopics | None = None) -> None:
        self.store = FakeStore()
        self.clock = FakeClock()
        metrics = Metrics()
        self.groups = GroupCoordinator(
            self.store, Settings().groups, metrics.groups, topics or FakeTopics(), self.clock
        )
        none = cast(Any, None)
        self.broker = Broker(Settings(), none, none, metrics, TABLE, self.groups, none, none)

    async def call(self, api: Any, version: int, **fields: Any) -> Any:
        """The answer to a request, written and read as in that version; a held one is a future."""
        session = Session(id=1, peer="10.0.0.1:5000", listener="", client_id="client", api_version=version)
        result = await api.API.handle(api.Request(**fields), self.broker, session)
        if isinstance(result, DeferredResponse):
            return asyncio.ensure_future(self._written(api, version, answer_of(result)))
        api.API.encode(result, version)
        return result

    async def _written(self, api: Any, version: int, answer: Awaitable[Any]) -> Any:
        result = await answer
        api.API.encode(result, version)
        return result

    async def join(self, version: int = 9, member_id: str = "", group_id: str = "g", **changes: Any) -> Any:
        values: dict[str, Any] = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": [join_group.Protocol(name="range", metadata=b"topics")],
            **changes,
        }
        return await self.call(join_group, version, group_id=group_id, member_id=member_id, **values)

    async def formed(self, version: int = 9, **changes: Any) -> str:
        """A stable group of one; its member's id."""
        answer = await self.join(version, **changes)
        if not isinstance(answer, asyncio.Future):
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            answer = await self.join(version, answer.member_id, **changes)
        await self.clock.advance(1)
        joined = await answer
        assert joined.error_code == 0
        assignments = [sync_group.Assignment(member_id=joined.member_id, assignment=b"mine")]
        answer = await self.call(
            sync_group, 5, group_id=changes.get("group_id", "g"), generation_id=joined.generation_id,
            member_id=joined.member_id, group_instance_id=changes.get("group_instance_id"), assignments=assignments,
            protocol_type="consumer", protocol_name="range",
        )  # fmt: skip
        synced = await answer if isinstance(answer, asyncio.Future) else answer
        assert (synced.error_code, synced.assignment) == (0, b"mine")
        assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")
        return str(joined.member_id)
