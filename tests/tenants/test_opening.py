"""How namespaces are opened and closed: once for all who come, not again at once where it failed, and with the node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge.apis import create_acls, describe_acls, list_groups, metadata, offset_commit
from bridge.config.tenants import TenantSettings
from bridge.connection.tenant_runner import NamespaceUnavailable
from bridge.kafka import message
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Broker
from bridge.security.acls import Operation, PatternType, Permission, ResourceType
from bridge.security.tenants import Tenants
from bridge.telemetry.metrics import Metrics
from bridge.tenants import namespaces as namespaces_module
from bridge.tenants.namespaces import Namespaces
from tests.support.bridges import BridgeThread
from tests.support.group_slots import wait_until_shared
from tests.support.pulsar import PulsarAddress
from tests.support.virtual_clock import on_a_virtual_clock
from tests.support.waiting import until
from tests.tenants.world import World, world_of

_REQUEST_SECONDS = 10
GROUPS = [f"g-{number}" for number in range(12)]


@pytest.fixture
def world(pulsar: PulsarAddress, tmp_path: Path) -> Iterator[World]:
    with world_of(pulsar, tmp_path) as made:
        yield made


def namespaces_of(node: BridgeThread) -> Namespaces:
    found = node.server._namespaces
    assert found is not None
    return found


def topics_of(world: World, user: str) -> list[str]:
    with world.connect(user) as connection:
        told = connection.ask(metadata.API, metadata.Request(topics=None))
    return [str(topic.name) for topic in told.topics]


def test_many_clients_that_come_at_once_open_it_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bridge.tenants.namespaces")
    with ThreadPoolExecutor(10) as pool:
        assert list(pool.map(lambda _: topics_of(world, "acme-1"), range(20))) == [[]] * 20
    assert [record.getMessage() for record in caplog.records].count("= namespace opened") == 1
    assert world.nodes[0].server.metrics.tenant_namespaces.value == 1


def test_one_that_could_not_be_opened_is_tried_again_later(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    namespaces, missing = namespaces_of(world.nodes[0]), "public/t-none"

    async def ask() -> str:
        with pytest.raises(NamespaceUnavailable) as raised:
            await namespaces.for_clients(missing, administers=False)
        return str(raised.value)

    async def both() -> list[str]:
        return [await ask(), await ask()]

    told = world.nodes[0].call(both())
    assert (
        told[0]
        == told[1]
        == "pulsar.namespace: public/t-none does not exist; run: pulsar-admin namespaces create " + missing
    )
    assert [record.getMessage() for record in caplog.records].count("! namespace not opened") == 1
    monkeypatch.setattr(namespaces_module, "loop_time", lambda: asyncio.get_running_loop().time() + 6)
    world.nodes[0].call(ask())
    assert [record.getMessage() for record in caplog.records].count("! namespace not opened") == 2
    assert world.nodes[0].server.metrics.tenant_namespaces.value == 0


def test_a_node_that_stops_opens_none_and_leaves_none_half_open(world: World) -> None:
    namespaces = namespaces_of(world.nodes[0])

    async def stopping() -> list[str]:
        waiting = [
            asyncio.ensure_future(namespaces.for_clients(one, administers=False))
            for one in (world.acme, world.beta, world.acme)
        ]
        await asyncio.sleep(0)
        namespaces.stop()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(one, NamespaceUnavailable) for one in found)
        with pytest.raises(NamespaceUnavailable):
            await namespaces.for_clients(world.gamma, administers=False)
        await namespaces.close()
        return [one.name for one in namespaces.others()]

    assert world.nodes[0].call(stopping()) == []
    world.stop()


def test_a_client_that_gives_up_does_not_end_the_opening_for_others(world: World) -> None:
    namespaces = namespaces_of(world.nodes[0])

    async def giving_up() -> str:
        first = asyncio.ensure_future(namespaces.for_clients(world.acme, administers=False))
        second = asyncio.ensure_future(namespaces.for_clients(world.acme, administers=False))
        await asyncio.sleep(0)
        first.cancel()
        return (await second).settings.pulsar.full_namespace

    assert world.nodes[0].call(giving_up()) == world.acme


class Scripted(Namespaces):
    """Namespaces of which those called `stuck` never open: Pulsar does not answer."""

    def __init__(self) -> None:
        nothing: Any = None
        rules = Tenants(TenantSettings(max_namespaces=10_000), "public/own")
        super().__init__(rules, nothing, Metrics(), nothing, nothing, nothing)
        self._plain = cast(Broker, object())

    async def _opened_services(self, namespace: str) -> Any:
        if "stuck" in namespace:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(0.1)
        return SimpleNamespace(for_clients=namespace, services=self._own)


@pytest.mark.parametrize("count", [4, 100])
def test_namespaces_that_do_not_open_hold_up_no_other(count: int) -> None:
    """Their clients come back again and again."""

    async def come_back(namespaces: Namespaces, name: str) -> None:
        while True:
            with suppress(NamespaceUnavailable):
                await namespaces.for_clients(name, administers=False)
            await asyncio.sleep(1)

    async def work() -> None:
        namespaces, loop = Scripted(), asyncio.get_running_loop()
        clients = [loop.create_task(come_back(namespaces, f"public/stuck-{number}")) for number in range(count)]
        for number in range(20):
            await asyncio.sleep(7)
            opened = namespaces.for_clients(f"public/other-{number}", administers=False)
            assert str(await asyncio.wait_for(opened, _REQUEST_SECONDS)) == f"public/other-{number}"
        for task in clients:
            task.cancel()
        namespaces.stop()
        await asyncio.gather(*clients, *namespaces._opening.values(), return_exceptions=True)

    on_a_virtual_clock(work)


def _commit_all(world: World, user: str) -> None:
    partition = offset_commit.RequestPartition(partition_index=0, committed_offset=1, committed_metadata=user)
    wanted = message.with_defaults(offset_commit.RequestTopic, name="t", partitions=[partition])
    with world.connect(user) as connection:
        connection.ask(metadata.API, metadata.Request(topics=[metadata.RequestTopic(name="t")]))
        for group in GROUPS:
            request = message.with_defaults(
                offset_commit.Request, group_id=group, generation_id_or_member_epoch=-1, topics=[wanted]
            )
            (topic,) = connection.ask(offset_commit.API, request, 8).topics
            assert [one.error_code for one in topic.partitions] == [ErrorCode.NONE]


def _groups(world: World, user: str, node: int) -> set[str]:
    with world.connect(user, node) as connection:
        told = connection.ask(list_groups.API, list_groups.Request())
    assert told.error_code == ErrorCode.NONE
    return {group.group_id for group in told.groups}


def test_groups_of_tenants_move_with_the_nodes(world: World) -> None:
    """A node that joins takes its share of each namespace that is open, and gives it back when it leaves."""
    users = ("acme-1", "beta-1")
    for user in users:
        _commit_all(world, user)
    joined = world.start()
    first = world.nodes[0]
    wait_until_shared(*world.nodes)
    for user in users:
        shares = [_groups(world, user, node) for node in range(2)]
        assert shares[0] | shares[1] == set(GROUPS)
        assert not shares[0] & shares[1]
        assert all(shares)
    joined.stop()
    first.call(until(lambda: first.server.store.owned_slots() == [0, 1]))
    for user in users:
        assert _groups(world, user, 0) == set(GROUPS)


def test_permissions_count_in_the_namespace_of_their_user(pulsar: PulsarAddress, tmp_path: Path) -> None:
    """And a super user of a tenant administers nothing of the cluster."""
    authorizer = {"authorizer": "kafka", "super_users": "User:admin;User:beta-1"}
    with world_of(pulsar, tmp_path, [{"kafka": authorizer}]) as world:
        entry = create_acls.Creation(
            resource_type=ResourceType.TOPIC, resource_name="t", resource_pattern_type=PatternType.LITERAL,
            principal="User:acme-1", host="*", operation=Operation.ALL, permission_type=Permission.ALLOW,
        )  # fmt: skip
        request = create_acls.Request(creations=[entry])
        for user, code in (
            ("acme-1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            ("beta-1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            ("admin", ErrorCode.NONE),
        ):
            with world.connect(user) as connection:
                (result,) = connection.ask(create_acls.API, request).results
                assert result.error_code == code, user
        with world.connect("beta-1") as connection:
            asked = message.with_defaults(
                describe_acls.Request, resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
            )
            told = connection.ask(describe_acls.API, asked)
            assert (told.error_code, told.resources) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
        codes = {}
        for user in ("acme-1", "acme-2", "beta-1"):
            with world.connect(user) as connection:
                wanted = [metadata.RequestTopic(name="t"), metadata.RequestTopic(name="u")]
                told = connection.ask(metadata.API, metadata.Request(topics=wanted))
                codes[user] = [topic.error_code for topic in told.topics]
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert codes == {"acme-1": [0, denied], "acme-2": [denied, denied], "beta-1": [0, 0]}
