"""Two nodes change the configs of one topic at the same time: both changes are there when both have their answer."""

import asyncio
import uuid
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge.pulsar.admin import Retention
from bridge.storage import topic_properties
from bridge.storage.names import Names
from bridge.storage.topics.administration import Administration
from bridge.storage.topics.configs import ConfigSource, Operation, Policies, TopicDefaults, apply_operations
from bridge.storage.topics.topic import Topic
from bridge.storage.topics.topic_policies import OwnPolicies

_DEFAULTS = TopicDefaults(Retention(7, 7), 1 << 20)


class _Pulsar:
    """One topic's properties and policies."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = dict(properties)
        self.policies = Policies()


class _Admin:
    """One node's: its writes of properties wait until the test says so."""

    def __init__(self, pulsar: _Pulsar) -> None:
        self.pulsar = pulsar
        self.asks_to_write, self.may_write = asyncio.Event(), asyncio.Event()

    async def topic_properties(self, topic: str) -> dict[str, str]:
        return dict(self.pulsar.properties)

    async def update_topic_properties(self, topic: str, properties: Mapping[str, str]) -> None:
        self.asks_to_write.set()
        await self.may_write.wait()
        self.pulsar.properties |= properties

    async def set_topic_retention(self, topic: str, retention: Retention) -> None:
        self.pulsar.policies = self.pulsar.policies._replace(retention=retention)


class _Policies:
    """What the broker applies, at once."""

    def __init__(self, pulsar: _Pulsar) -> None:
        self._pulsar = pulsar

    async def ask(self, topic: str) -> OwnPolicies:
        return OwnPolicies(self._pulsar.policies, None)

    get = ask

    def changed(self, topic: str) -> None:
        pass


class _Node:
    def __init__(self, pulsar: _Pulsar) -> None:
        self.admin = _Admin(pulsar)
        storage = SimpleNamespace(admin=self.admin, settings=None, client=None)

        async def defaults() -> TopicDefaults:
            return _DEFAULTS

        made = Administration.__new__(Administration)
        made._storage, made._names = cast(Any, storage), Names("public/default")
        made._on_changed = lambda topic: None
        made._defaults = cast(Any, SimpleNamespace(get=defaults))
        made.policies = cast(Any, _Policies(pulsar))
        self.administration = made
        self.topic = Topic("t", 1, True, uuid.uuid4(), 0.0, dict(pulsar.properties))

    def alter(self, name: str, operation: Operation, value: str | None) -> "asyncio.Future[None]":
        def change(present: Mapping[str, str], default: Any) -> dict[str, str | None]:
            return apply_operations(present, [(name, operation, value)], default)

        return asyncio.ensure_future(self.administration.alter(self.topic, change, validate_only=False))

    async def shown(self) -> dict[str, str]:
        """The topic's own configs."""
        self.topic.set_properties(self.admin.pulsar.properties)
        found = await self.administration.describe(self.topic)
        return {one.name: one.value for one in found if one.source is ConfigSource.TOPIC}


_OLD = {"compression.type": "gzip", "max.message.bytes": "1000"}


@pytest.mark.parametrize("earlier", [{}, topic_properties.with_configs(_OLD)])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("preallocate", Operation.SET, "true"), ("flush.ms", Operation.SET, "5")),
        (("max.message.bytes", Operation.DELETE, None), ("flush.ms", Operation.SET, "5")),
        (("max.message.bytes", Operation.SET, "2000"), ("compression.type", Operation.DELETE, None)),
        (("retention.ms", Operation.SET, "120000"), ("retention.bytes", Operation.SET, "1048576")),
    ],
)
async def test_changes_on_two_nodes_at_the_same_time_both_stay(
    earlier: Mapping[str, str], one: Any, other: Any
) -> None:
    pulsar = _Pulsar(earlier)
    nodes = _Node(pulsar), _Node(pulsar)
    changing = [node.alter(*change) for node, change in zip(nodes, (one, other), strict=True)]
    async with asyncio.timeout(5):
        for node in nodes:
            await _either(node.admin.asks_to_write, changing)
        nodes[0].admin.may_write.set()
        await changing[0]  # acknowledged; the other node has asked before
        nodes[1].admin.may_write.set()
        await changing[1]
    wanted = apply_operations(topic_properties.kept_configs(earlier), [one, other])
    for node in nodes:
        assert await node.shown() == wanted
    assert pulsar.policies.retention == (Retention(2, 1) if "retention.ms" in wanted else None)


async def _either(event: asyncio.Event, done: list["asyncio.Future[None]"]) -> None:
    """Until this happens, or one is done: it had nothing to change."""
    waiting: asyncio.Future[Any] = asyncio.ensure_future(event.wait())
    await asyncio.wait([waiting, *done], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
