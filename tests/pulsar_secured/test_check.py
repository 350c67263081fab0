"""`bridge check` as a role that may work in some tenants' namespaces only."""

from __future__ import annotations

from bridge.check.findings import Severity
from bridge.check.table import examine
from tests.pulsar_secured.conftest import ROLE
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress
from tests.support.secured_pulsar import SecuredPulsar


async def test_a_namespace_where_the_role_may_not_work_is_told(secured: SecuredPulsar, tenant_namespace: str) -> None:
    allowed, denied = secured.create_tenant(ROLE), secured.create_tenant("another")
    address = PulsarAddress(secured.service_url, secured.admin_url)
    rules = f"principal User:a -> {allowed}\nprincipal User:b -> {denied}"
    settings = settings_for(
        address, tenant_namespace, {"pulsar": {"token": secured.token(ROLE)}, "tenants": {"rules": rules}}
    )
    found = {finding.name: finding for finding in await examine(settings)}
    assert found[f"tenant {allowed}"].severity is Severity.FIT
    told = found[f"tenant {denied}"]
    assert told.severity is Severity.UNFIT
    assert f"grant-permission {denied}" in told.remedy


async def test_a_role_that_may_not_create_topics_is_not_fit(secured: SecuredPulsar) -> None:
    namespace = secured.create_tenant("another")
    secured.grant(namespace, ROLE, ["produce", "consume"])
    address = PulsarAddress(secured.service_url, secured.admin_url)
    settings = settings_for(address, namespace, {"pulsar": {"token": secured.token(ROLE)}})
    found = {finding.name: finding for finding in await examine(settings)}
    told = found["namespace"]
    assert told.severity is Severity.UNFIT
    assert f"tenants update {namespace.partition('/')[0]} --admin-roles" in told.remedy
    settings = settings_for(address, secured.create_tenant(ROLE), {"pulsar": {"token": secured.token(ROLE)}})
    found = {finding.name: finding for finding in await examine(settings)}
    assert found["namespace"].severity is Severity.FIT
