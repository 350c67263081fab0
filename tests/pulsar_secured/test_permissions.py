"""Kafka's operations, judged by permissions in a real Pulsar; log-in by its tokens."""

import time
from collections.abc import AsyncIterator

import jwt
import pytest

from bridge.access.pulsar_permissions.permissions import PulsarPermissions
from bridge.access.pulsar_permissions.roles import Role
from bridge.access.pulsar_permissions.token_login import TokenPasswords
from bridge.config import Settings
from bridge.pulsar import Access, Admin
from bridge.security.acls import CLUSTER, Operation, Resource, ResourceType
from bridge.security.principal import user
from bridge.security.sasl.credentials import LoginAttempt
from bridge.telemetry.metrics import PermissionMetrics, PulsarMetrics
from tests.pulsar_secured.conftest import ROLE
from tests.support.secured_pulsar import SecuredPulsar


@pytest.fixture
async def permissions(secured: SecuredPulsar, tenant_namespace: str) -> AsyncIterator[PulsarPermissions]:
    tenant, _, namespace = tenant_namespace.partition("/")
    settings = Settings().with_values(
        pulsar={
            "service_url": secured.service_url, "admin_url": secured.admin_url, "tenant": tenant,
            "namespace": namespace, "token": secured.token(ROLE),
        }
    )  # fmt: skip
    access = Access.by(settings.pulsar, PulsarMetrics())
    admin = Admin(settings.pulsar, access)
    await admin.start()
    for name in ("orders", "other"):
        await admin.create_partitioned(f"persistent://{tenant_namespace}/{name}", 1)
    made = PulsarPermissions(settings.pulsar, access, admin, PermissionMetrics())
    yield made
    await made.close()
    await admin.close()
    await access.close()


def topic(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)


def group(name: str) -> Resource:
    return Resource(ResourceType.GROUP, name)


async def test_who_may_consume_from_one_topic_may_use_groups_for_it(
    secured: SecuredPulsar, permissions: PulsarPermissions, tenant_namespace: str
) -> None:
    alice = Role("alice", secured.token("alice"))
    assert permissions.known(alice, Operation.READ, topic("orders"), tenant_namespace) is None
    assert not await permissions.allows(alice, Operation.READ, group("g"), tenant_namespace)
    assert permissions.known(alice, Operation.READ, group("g"), tenant_namespace) is False

    bob = Role("bob", secured.token("bob"))
    secured.grant(f"{tenant_namespace}/orders", "bob", ["consume"])
    secured.admin("POST", f"namespaces/{tenant_namespace}/permissions/subscription/hers", ["alice"])
    permissions._grants.clear()
    assert await permissions.allows(bob, Operation.READ, topic("orders"), tenant_namespace)
    assert await permissions.allows(bob, Operation.READ, group("g"), tenant_namespace)
    assert permissions.known(bob, Operation.READ, group("g"), tenant_namespace) is True
    assert not await permissions.allows(bob, Operation.READ, group("hers"), tenant_namespace)
    assert not await permissions.allows(bob, Operation.READ, topic("other"), tenant_namespace)
    assert not await permissions.allows(bob, Operation.WRITE, topic("orders"), tenant_namespace)
    assert await permissions.allows(bob, Operation.DESCRIBE, topic("orders"), tenant_namespace)
    assert not await permissions.allows(bob, Operation.DESCRIBE, topic("other"), tenant_namespace)


async def test_an_administrator_of_the_tenant_administers_topics_and_not_the_cluster(
    secured: SecuredPulsar, permissions: PulsarPermissions, tenant_namespace: str
) -> None:
    role = Role(ROLE, secured.token(ROLE))
    for operation in (Operation.CREATE, Operation.DELETE, Operation.ALTER_CONFIGS, Operation.WRITE, Operation.READ):
        assert await permissions.allows(role, operation, topic("orders"), tenant_namespace)
    assert await permissions.allows(role, Operation.CREATE, CLUSTER, tenant_namespace)
    assert not await permissions.allows(role, Operation.ALTER, CLUSTER, tenant_namespace)
    assert await permissions.allows(
        role, Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, "x"), tenant_namespace
    )


async def test_a_principal_without_a_token_is_no_one_where_no_proxy_role_speaks_for_it(
    permissions: PulsarPermissions, tenant_namespace: str
) -> None:
    assert not await permissions.allows(Role(ROLE), Operation.READ, topic("orders"), tenant_namespace)
    assert permissions.known(Role(ROLE), Operation.READ, topic("orders"), tenant_namespace) is False


async def test_a_token_of_pulsars_logs_in(
    secured: SecuredPulsar, permissions: PulsarPermissions, tenant_namespace: str
) -> None:
    passwords, now = TokenPasswords(permissions, tenant_namespace), time.time()
    token = secured.token("alice", 3600)
    for name in ("alice", tenant_namespace, tenant_namespace.partition("/")[0]):
        login = await passwords.check(name, f"token:{token}", now)
        assert login is not None
        assert (login.principal, login.token) == (user("alice"), token)
        assert login.expires_at is not None
        assert 3500 < login.expires_at - now < 3700
    endless = secured.token("alice")
    assert await passwords.check("alice", f"token:{endless}", now) == LoginAttempt(user("alice"), None, endless)


async def test_no_other_token_logs_in(
    secured: SecuredPulsar, permissions: PulsarPermissions, tenant_namespace: str
) -> None:
    passwords, now = TokenPasswords(permissions, tenant_namespace), time.time()
    good = secured.token("alice")
    wrong = {
        "bob": good,
        "alice": "",
        "": jwt.encode({"sub": ""}, "k" * 32, "HS256"),
        "admin": jwt.encode({"sub": "admin"}, "k" * 32, "HS256"),
        "ended": secured.token("ended", -1),
        "none": jwt.encode({"sub": "none"}, "", "none"),
        "noise": "token:token:token",
    }
    for name, token in wrong.items():
        assert await passwords.check(name, f"token:{token}", now) is None, name
    assert await passwords.check("alice", good, now) is None
