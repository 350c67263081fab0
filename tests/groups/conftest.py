"""Stores of groups on the session's real Pulsar."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest_asyncio

from bridge.check.state_namespace import make_namespace
from bridge.config import Settings
from bridge.groups.store.store import GroupStore
from bridge.pulsar import Admin, PulsarClient
from bridge.telemetry.metrics import Metrics
from tests.support.bridges import Overrides, settings_for
from tests.support.pulsar import PulsarAddress


@dataclass
class Node:
    """What one bridge process has, as far as groups are concerned."""

    settings: Settings
    metrics: Metrics
    client: PulsarClient
    admin: Admin
    store: GroupStore
    stack: AsyncExitStack

    async def leave(self) -> None:
        """Stop in order."""
        await self.stack.aclose()

    async def vanish(self) -> None:
        """As a SIGKILL: the sockets are gone, nothing was said or stored before."""
        for slot in self.store._log.slots:
            if slot._runner is not None:
                slot._runner.cancel()
        await self.client._pool.close()


MakeNode = Callable[..., Awaitable[Node]]


@pytest_asyncio.fixture
async def node() -> AsyncIterator[MakeNode]:
    """Start one: `await node(pulsar, namespace, groups={"slots": 2})`."""
    async with AsyncExitStack() as nodes:

        async def start(at: PulsarAddress, namespace: str, **overrides: Mapping[str, Any]) -> Node:
            sections: Overrides = {"groups": {"slots": 1}, **overrides}
            settings = settings_for(at, namespace, sections)
            metrics = Metrics()
            stack = await nodes.enter_async_context(AsyncExitStack())
            client, admin = PulsarClient(settings.pulsar, metrics.pulsar), Admin(settings.pulsar)
            await admin.start()
            stack.push_async_callback(admin.close)
            await client.start()
            stack.push_async_callback(client.close)
            await make_namespace(admin, settings)
            store = GroupStore(client, admin, settings, metrics)
            await store.start()
            store.assign(range(store.slots), orphaned=range(store.slots))
            stack.push_async_callback(store.close)
            return Node(settings, metrics, client, admin, store, stack)

        yield start
