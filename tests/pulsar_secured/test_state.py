"""What the bridge believes is where its role alone may write: tried by native clients with each right."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from bridge.access.security_store.security_log import TOPIC as SECURITY
from bridge.check.findings import Severity
from bridge.check.table import examine
from bridge.cli import users
from bridge.cluster.member import new_incarnation
from bridge.cluster.membership.record_format import encode
from bridge.cluster.membership.records import WholeView
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration, Sender
from bridge.cluster.topics import VIEW_LOG
from bridge.config import Settings
from bridge.errors import StartupError
from bridge.owned_log.batch import Record, pack
from bridge.pulsar import PulsarClient, PulsarError
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.security.acls import AccessControlEntry, Operation, PatternType, Permission, ResourceType
from bridge.security.records import acl_record, user_record
from bridge.security.sasl.credentials import credential_of, salted_password
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar_secured.conftest import ROLE, SHA, Start, sections
from tests.support.bridges import BridgeThread, settings_for
from tests.support.pulsar import PulsarAddress
from tests.support.secured_pulsar import PROXY, SecuredPulsar

ALL = AccessControlEntry(
    ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:mallory", "*", Operation.ALL, Permission.ALLOW
)


def forged() -> tuple[pb.MessageMetadata, bytes]:
    """A credential of the super-user, and an entry for another."""
    salt = b"salt of twelve bytes"
    credential = credential_of(SHA, salted_password(SHA, b"forged", salt, 4096), salt, 4096)
    return pack([Record(*user_record("admin", credential)), Record(*acl_record(ALL))])


def strangers_view() -> bytes:
    stranger = NodeRegistration("stranger", new_incarnation(), 7, (Endpoint("SASL_PLAINTEXT", "stranger", 9092),))
    view = ClusterView(2**31, 7, {7: stranger}, {"stranger": 7}, (7,) * 4096, (1,) * 4096, (7,) * 8)
    return encode(WholeView(Sender("stranger", 1), 0, view, "mine"))


@asynccontextmanager
async def native(secured: SecuredPulsar, role: str) -> AsyncIterator[PulsarClient]:
    settings = Settings().with_values(
        pulsar={"service_url": secured.service_url, "admin_url": secured.admin_url, "token": secured.token(role)}
    )
    client = PulsarClient(settings.pulsar, PulsarMetrics())
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def written(client: PulsarClient, topic: str, metadata: pb.MessageMetadata, payload: bytes, count: int) -> None:
    producer = client.producer(topic)
    try:
        await producer.send(metadata, payload, count)
    finally:
        await producer.close(flush=False)


async def logs_in(bridge: BridgeThread, name: str, password: str) -> bool:
    """Whether the bridge lets this user in."""
    settings = {
        "bootstrap.servers": bridge.kafka, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": SHA,
        "sasl.username": name, "sasl.password": password, "log_level": 0,
    }  # fmt: skip
    try:
        return bool(AdminClient(settings).list_topics(timeout=5).brokers)
    except confluent_kafka.KafkaException:
        return False


async def test_who_may_produce_to_the_data_administers_nothing(secured: SecuredPulsar, start_bridge: Start) -> None:
    bridge = start_bridge(**sections(secured))
    await users.add(bridge.settings, "admin", "right", [SHA], 4096)
    pulsar = bridge.settings.pulsar
    for where in (SECURITY, VIEW_LOG):
        secured.admin("PUT", pulsar.old_state_topic(where).replace("://", "/"))
    secured.grant(pulsar.full_namespace, "writer", ["produce"])
    async with native(secured, "writer") as client:
        await written(client, pulsar.old_state_topic(SECURITY), *forged(), 2)
        await written(client, pulsar.old_state_topic(VIEW_LOG), pb.MessageMetadata(), strangers_view(), 1)
        for where in (SECURITY, VIEW_LOG, "heartbeats", "groups-partition-0", "anything"):
            with pytest.raises(PulsarError) as refused:
                await written(client, pulsar.state_topic(where), *forged(), 2)
            assert refused.value.code == pb.AuthorizationError
            with pytest.raises(PulsarError):
                await client.reader(pulsar.state_topic(where), (await client.last_position(pulsar.state_topic(where))))
    again = start_bridge(**sections(secured))  # what was stored before a start is not believed either
    for one in (bridge, again):
        one.call(one.server.security.catch_up())
        assert not await logs_in(one, "admin", "forged")
        assert await logs_in(one, "admin", "right")
        assert one.server.security.entries() == []
        assert one.server.cluster is not None
        assert "stranger" not in one.server.cluster.view.ids


GRANTS: dict[str, tuple[Callable[[SecuredPulsar, str], object], str]] = {
    "produce": (
        lambda secured, state: secured.grant(state, "other", ["produce"]),
        r"role other has permissions on (\S+); run: bin/pulsar-admin namespaces revoke-permission \1 --role 'other'",
    ),
    "consume": (
        lambda secured, state: secured.grant(state, "other", ["consume"]),
        r"role other has permissions on (\S+); run: bin/pulsar-admin namespaces revoke-permission \1 --role 'other'",
    ),
    "a topic": (
        lambda secured, state: secured.grant(f"{state}/__bridge_security", "other", ["produce"]),
        r"role other has permissions on (persistent://\S+/__bridge_security); run: "
        r"bin/pulsar-admin topics revoke-permission \1 --role 'other'",
    ),
    "a subscription": (
        lambda secured, state: secured.admin("POST", f"namespaces/{state}/permissions/subscription/s", ["other"]),
        r"role other may use the subscription s of (\S+); run: bin/pulsar-admin namespaces "
        r"revoke-subscription-permission \1 --subscription 's' --role 'other'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("granted", GRANTS)
def test_a_bridge_with_log_in_does_not_start_where_another_role_may(
    secured: SecuredPulsar, tenant_namespace: str, start_bridge: Start, granted: str
) -> None:
    grant, told = GRANTS[granted]
    start_bridge(**sections(secured)).stop()
    state = f"{tenant_namespace}-bridge"
    secured.grant(state, ROLE, ["produce", "consume"])
    secured.grant(state, PROXY, ["produce", "consume"])  # who comes through a proxy needs a permission of both
    wanted = sections(secured, state_roles=f"{PROXY}, third")
    start_bridge(**wanted).stop()
    grant(secured, state)
    with pytest.raises(StartupError, match=told):
        start_bridge(**wanted)
    # where no client logs in there is none to be kept out
    start_bridge(pulsar={"token": secured.token(ROLE)})
    start_bridge(**sections(secured, trust_state_namespace=True))


async def test_the_check_names_those_who_always_can(secured: SecuredPulsar, tenant_namespace: str) -> None:
    tenant = tenant_namespace.partition("/")[0]
    secured.admin("POST", f"tenants/{tenant}", {"adminRoles": [ROLE, "boss"], "allowedClusters": ["standalone"]})
    address = PulsarAddress(secured.service_url, secured.admin_url)
    settings = settings_for(address, tenant_namespace, sections(secured, trust_state_namespace=False))
    before = {finding.name: finding for finding in await examine(settings)}
    assert "namespaces grant-permission" in before["state namespace"].remedy
    secured.admin("PUT", f"namespaces/{tenant_namespace}-bridge")
    found = {finding.name: finding for finding in await examine(settings)}
    assert found["state namespace"].severity is found["state access"].severity is Severity.FIT
    assert "always can: tenant administrators boss" in found["state access"].detail
    secured.grant(f"{tenant_namespace}-bridge", "other", ["produce"])
    found = {finding.name: finding for finding in await examine(settings)}
    assert found["state access"].severity is Severity.UNFIT
    assert found["state access"].remedy.endswith("--role 'other'")


def test_a_role_that_administers_nothing_starts_on_the_operators_word(
    secured: SecuredPulsar, start_bridge: Start, tenant_namespace: str
) -> None:
    """The bridge itself may produce and consume, and no more: it cannot see who else may."""
    start_bridge(**sections(secured)).stop()
    for where in (tenant_namespace, f"{tenant_namespace}-bridge"):
        secured.grant(where, "humble", ["produce", "consume"])
    humble = {**sections(secured)["pulsar"], "token": secured.token("humble")}
    wanted = {**sections(secured), "retention": {"ensure": False}}
    with pytest.raises(StartupError, match=r"this login may not see who may write to .*trust_state_namespace = true"):
        start_bridge(**{**wanted, "pulsar": humble})
    start_bridge(**{**wanted, "pulsar": {**humble, "trust_state_namespace": True}})
