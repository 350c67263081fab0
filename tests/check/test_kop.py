"""What `bridge check` tells of a KoP: that it was there, and runs, what it had, what of it will be served."""

from __future__ import annotations

import secrets

import pytest

from bridge.check.findings import Severity
from bridge.check.kop import examine_kop
from bridge.check.table import examine
from bridge.config import PulsarSettings
from bridge.pulsar import Access, Admin, PulsarClient
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.telemetry.metrics import PulsarMetrics
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress


@pytest.fixture
def pulsar_of_a_tenant(pulsar: PulsarAddress) -> PulsarSettings:
    """A tenant that is new, with the namespaces of data and of KoP's own topics."""
    tenant = f"t-{secrets.token_hex(4)}"
    pulsar.admin("PUT", f"tenants/{tenant}", {"allowedClusters": ["standalone"]})
    for namespace in ("data", "__kafka"):
        pulsar.admin("PUT", f"namespaces/{tenant}/{namespace}")
    return settings_for(pulsar, f"{tenant}/data").pulsar


async def test_what_is_told_of_kop(pulsar_of_a_tenant: PulsarSettings) -> None:
    settings = pulsar_of_a_tenant
    access = Access.by(settings, PulsarMetrics())
    admin, client = Admin(settings, access), PulsarClient(settings, PulsarMetrics(), access)
    await admin.start()
    await client.start()
    own = f"persistent://{settings.tenant}/__kafka"

    async def told() -> list[str]:
        return [one.detail for one in await examine_kop(admin, settings)]

    try:
        assert await told() == []
        await admin.create_partitioned(f"{own}/__consumer_offsets", 3)
        (committed,) = await told()
        assert committed.startswith("groups have committed")
        await admin.create_partitioned(f"{own}/__transaction_state", 2)
        assert [one.split(":")[0] for one in await told()] == [
            committed,
            f"there were transactions ({settings.tenant}/__kafka)",
        ]
        producer = client.producer(f"{own}/__consumer_offsets-partition-1")
        await producer.send(MessageMetadata(), b"", 1)
        runs, *_ = await examine_kop(admin, settings)
        assert runs.detail.startswith("it runs: 1 of its producers and readers")
        assert runs.severity is Severity.UNFIT
        await producer.close()
        assert len(await told()) == 2
    finally:
        await client.close()
        await admin.close()
        await access.close()


async def test_what_will_be_served_is_told_and_what_not(
    pulsar: PulsarAddress, pulsar_of_a_tenant: PulsarSettings
) -> None:
    tenant = pulsar_of_a_tenant.tenant
    pulsar.admin("PUT", f"persistent/{tenant}/__kafka/__consumer_offsets/partitions", 2)
    for topic in ("orders", "payments", "no%20name"):
        pulsar.admin("PUT", f"persistent/{tenant}/data/{topic}/partitions", 2)
    pulsar.admin("PUT", f"persistent/{tenant}/data/alone")
    pulsar.admin("PUT", f"namespaces/{tenant}/__kafka_schemaregistry")
    pulsar.admin("PUT", f"persistent/{tenant}/__kafka_schemaregistry/__schema-registry")
    admin = Admin(pulsar_of_a_tenant)
    await admin.start()
    try:
        findings = await examine_kop(admin, pulsar_of_a_tenant)
    finally:
        await admin.close()
    told = [(one.name, one.severity, one.detail) for one in findings[1:]]
    assert [one[:2] for one in told] == [
        ("KoP topics", Severity.FIT), ("KoP topics", Severity.RISK), ("KoP", Severity.RISK),
    ]  # fmt: skip
    assert told[0][2].startswith(f"3 topics of {tenant}/data are served")
    assert told[1][2].startswith("not served, as Kafka has no such names: no")
    assert f"({tenant}/__kafka_schemaregistry) is not served" in told[2][2]


async def test_it_is_part_of_the_check(pulsar: PulsarAddress, pulsar_of_a_tenant: PulsarSettings) -> None:
    tenant = pulsar_of_a_tenant.tenant
    pulsar.admin("PUT", f"persistent/{tenant}/__kafka/__consumer_offsets/partitions", 2)
    findings = await examine(settings_for(pulsar, f"{tenant}/data"))
    (found,) = [one for one in findings if one.name == "KoP"]
    assert f"--metadata-namespace {tenant}/__kafka" in found.remedy
