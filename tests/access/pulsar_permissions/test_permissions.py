"""Groups of a role that may use single topics, at a scripted broker; `pulsar_secured/` has a real one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from bridge.access.pulsar_permissions import permissions as module
from bridge.access.pulsar_permissions.permissions import PulsarPermissions
from bridge.access.pulsar_permissions.roles import Role
from bridge.config import PulsarSettings
from bridge.pulsar import Access, Admin, AdminError
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.security.acls import Operation, Resource, ResourceType
from bridge.telemetry.metrics import PermissionMetrics, PulsarMetrics
from tests.pulsar.fake_broker import FakeBroker, Peer, Type

NAMESPACE = "acme/orders"
ALICE = Role("alice", "a token")
GROUP = Resource(ResourceType.GROUP, "g")


class Policies:
    """The part of `Admin` that is asked: which grants there are, when the test lets it answer."""

    def __init__(self) -> None:
        self.roles: dict[str, list[str]] = {}
        self.asked = 0
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.fails = False

    async def create_partitioned(self, topic: str, partitions: int) -> None:
        """What there is already."""

    async def namespace_policies(self, namespace: str) -> dict[str, Any]:
        assert namespace == NAMESPACE
        self.asked += 1
        self.was_asked.set()
        await self.may_answer.wait()
        if self.fails:
            raise AdminError(503, "not now")
        return {"auth_policies": {"destination_auth": {f"persistent://{NAMESPACE}/mine": dict(self.roles)}}}


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    """Who asks may consume from `mine`, and from nothing else."""

    def subscribed(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        asked = command.subscribe
        if "/mine-partition-" in asked.topic:
            peer.error(asked.request_id, pb.TopicNotFound, "no such partition")
        else:
            peer.error(asked.request_id, pb.AuthorizationError, "Client is not authorized to subscribe")

    async with FakeBroker() as broker:
        broker.on(Type.SUBSCRIBE, subscribed)
        yield broker


@pytest.fixture
def policies() -> Policies:
    return Policies()


@pytest.fixture
async def permissions(broker: FakeBroker, policies: Policies) -> AsyncIterator[PulsarPermissions]:
    settings = PulsarSettings(service_url=broker.url)
    access = Access.by(settings, PulsarMetrics())
    made = PulsarPermissions(settings, access, cast(Admin, policies), PermissionMetrics())
    yield made
    await made.close()
    await access.close()


def known(permissions: PulsarPermissions) -> bool | None:
    return permissions.known(ALICE, Operation.READ, GROUP, NAMESPACE)


async def allows(permissions: PulsarPermissions) -> bool:
    return await permissions.allows(ALICE, Operation.READ, GROUP, NAMESPACE)


async def test_nothing_is_denied_between_the_namespaces_answer_and_the_grants(
    permissions: PulsarPermissions, policies: Policies
) -> None:
    """A client asks twice; the namespace's refusal is known when the second question comes, the grants are not."""
    policies.roles["alice"] = ["consume"]
    policies.may_answer.clear()
    first = asyncio.ensure_future(allows(permissions))
    await policies.was_asked.wait()
    assert known(permissions) is None
    second = asyncio.ensure_future(allows(permissions))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not second.done()
    policies.may_answer.set()
    assert await first and await second
    assert known(permissions) is True
    assert policies.asked == 1  # for both


async def test_a_grant_is_noticed_however_often_a_client_asks(
    permissions: PulsarPermissions, policies: Policies
) -> None:
    """Each question finds the namespace's refusal fresh, for the one before has had it asked again."""
    assert not await allows(permissions)
    assert known(permissions) is False
    policies.roles["alice"] = ["consume"]
    permissions._grants[NAMESPACE]._cached.forget()  # as when its time is over
    assert known(permissions) is None


async def test_while_the_grants_cannot_be_read_those_read_last_count(
    permissions: PulsarPermissions, policies: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GRANTS_SECONDS", 0.0)
    policies.roles["alice"] = ["consume"]
    assert await allows(permissions)
    policies.fails = True
    assert await allows(permissions)
    assert known(permissions) is True
