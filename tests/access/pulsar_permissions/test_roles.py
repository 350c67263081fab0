import asyncio
from collections.abc import AsyncIterator

import pytest

from bridge.access.pulsar_permissions.roles import Role, Roles
from bridge.config import PulsarSettings
from bridge.pulsar.auth import Destination, RoleAccess
from bridge.pulsar.auth.credentials import StaticToken
from bridge.pulsar.auth.host_check import HostCheck
from bridge.pulsar.role_probe import RoleProbe
from bridge.telemetry.metrics import PermissionMetrics, PulsarMetrics
from tests.pulsar.fake_broker import FakeBroker, Type


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker() as broker:
        yield broker


def roles_at(broker: FakeBroker, most: int = 2) -> Roles:
    settings = PulsarSettings(service_url=broker.url)
    destination = Destination(settings, HostCheck(settings, PulsarMetrics()))

    def make(role: Role) -> RoleProbe:
        return RoleProbe(RoleAccess(destination, StaticToken(role.token or "")))

    return Roles(make, PermissionMetrics(), most)


async def log_in(roles: Roles, *tokens: str) -> None:
    for token in tokens:
        assert await roles.ask(Role(token, token), lambda probe: probe.log_in())


def who_connected(broker: FakeBroker) -> list[str]:
    return [command.connect.auth_data.decode() for command in broker.all(Type.CONNECT)]


async def test_a_role_keeps_its_connection_and_the_longest_unused_one_is_closed(broker: FakeBroker) -> None:
    roles = roles_at(broker)
    await log_in(roles, "a", "b", "a", "b", "a", "c", "a")
    assert who_connected(broker) == ["a", "b", "c"]
    assert len(roles) == 2
    await log_in(roles, "b")
    assert who_connected(broker) == ["a", "b", "c", "b"]
    await roles.close()
    assert len(roles) == 0


async def test_a_role_that_is_being_asked_about_is_not_closed(broker: FakeBroker) -> None:
    roles = roles_at(broker, most=1)
    go_on = asyncio.Event()

    async def slow(probe: RoleProbe) -> bool:
        await go_on.wait()
        return await probe.log_in()

    asking = asyncio.ensure_future(roles.ask(Role("a", "a"), slow))
    await asyncio.sleep(0)
    await log_in(roles, "b")
    go_on.set()
    assert await asking
    await log_in(roles, "c")
    assert len(roles) == 1
    await roles.close()


async def test_what_is_idle_is_closed(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.access.pulsar_permissions.roles.IDLE_SECONDS", 0.05)
    roles = roles_at(broker)
    await log_in(roles, "a")
    async with asyncio.timeout(10):
        while len(roles):  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.01)
    await log_in(roles, "a")
    assert who_connected(broker) == ["a", "a"]
    await roles.close()


def test_a_token_is_not_shown_and_tells_roles_of_one_name_apart() -> None:
    assert "secret" not in repr(Role("alice", "secret"))
    assert Role("alice", "one") != Role("alice", "two") != Role("alice")
