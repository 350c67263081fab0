"""A Pulsar that lets in who does not log in, as `anonymousUserRole`: what a bridge there and its check say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.check.findings import Finding, Severity
from bridge.check.table import examine
from bridge.errors import StartupError
from tests.pulsar_secured.conftest import ROLE, Start, sections
from tests.support.bridges import BridgeThread, settings_for
from tests.support.certificates import COMMON_NAME, Authority
from tests.support.pulsar import NewPulsar, PulsarAddress
from tests.support.secured_pulsar import ADMIN, SecuredPulsar

ANONYMOUS = "nobody"
ALL_OF_THEM = rf"role {ANONYMOUS} \(anonymousUserRole: all who do not log in\)"


@pytest.fixture(scope="module")
def secured(new_pulsar: NewPulsar) -> Iterator[SecuredPulsar]:
    with SecuredPulsar(new_pulsar, {"anonymousUserRole": ANONYMOUS}) as started:
        yield started


async def found_by_check(secured: SecuredPulsar, namespace: str, **wanted: Any) -> Finding:
    """What `bridge check` says of who may work in the state namespace."""
    wanted["pulsar"] = {"trust_state_namespace": False, **wanted["pulsar"]}
    address = PulsarAddress(secured.service_url, secured.admin_url)
    findings = await examine(settings_for(address, namespace, wanted))
    return next(finding for finding in findings if finding.name == "state access")


async def test_who_does_not_log_in_may_have_no_rights(
    secured: SecuredPulsar, tenant_namespace: str, start_bridge: Start
) -> None:
    start_bridge(**sections(secured))
    assert (await found_by_check(secured, tenant_namespace, **sections(secured))).severity is Severity.FIT


@pytest.mark.parametrize("actions", [("produce",), ("consume",)])
async def test_no_one_can_vouch_for_who_does_not_log_in(
    secured: SecuredPulsar, tenant_namespace: str, start_bridge: Start, actions: tuple[str, ...]
) -> None:
    start_bridge(**sections(secured)).stop()
    state = f"{tenant_namespace}-bridge"
    secured.grant(state, ANONYMOUS, actions)
    wanted = sections(secured, state_roles=ANONYMOUS)
    revoke = f"bin/pulsar-admin namespaces revoke-permission {state} --role '{ANONYMOUS}'"
    with pytest.raises(StartupError, match=f"{ALL_OF_THEM} has permissions on {state}; run: {re.escape(revoke)}"):
        start_bridge(**wanted)
    found = await found_by_check(secured, tenant_namespace, **wanted)
    assert (found.severity, found.remedy) == (Severity.UNFIT, revoke)
    secured.revoke(state, ANONYMOUS)
    start_bridge(**wanted)


async def test_who_does_not_log_in_may_not_administer_the_tenant(
    secured: SecuredPulsar, tenant_namespace: str, start_bridge: Start
) -> None:
    tenant = tenant_namespace.partition("/")[0]
    administrators = {"adminRoles": [ROLE, ANONYMOUS], "allowedClusters": ["standalone"]}
    secured.admin("POST", f"tenants/{tenant}", administrators)
    command = rf"bin/pulsar-admin tenants update {tenant} --admin-roles '{ROLE}'"
    # at the first start, and where the namespace is there
    for _ in range(2):
        with pytest.raises(StartupError, match=rf"anonymousUserRole={ANONYMOUS}: .*{command}"):
            start_bridge(**sections(secured))
    found = await found_by_check(secured, tenant_namespace, **sections(secured))
    assert (found.severity, found.remedy.endswith(command)) == (Severity.UNFIT, True)
    secured.admin("POST", f"tenants/{tenant}", {**administrators, "adminRoles": [ROLE]})
    start_bridge(**sections(secured))


async def test_a_bridge_that_does_not_log_in_cannot_keep_others_out(
    secured: SecuredPulsar, tenant_namespace: str, start_bridge: Start
) -> None:
    start_bridge(**sections(secured)).stop()
    for where in (tenant_namespace, f"{tenant_namespace}-bridge"):
        secured.grant(where, ANONYMOUS, ("produce", "consume"))
    wanted = {**sections(secured, token=""), "retention": {"ensure": False}}
    told = "the bridge has no role of its own in Pulsar.*; run: give the bridge a token or a certificate"
    with pytest.raises(StartupError, match=told):
        start_bridge(**wanted)
    del wanted["kafka"]  # all its clients may do everything, as who does not log in may in Pulsar
    start_bridge(**wanted)


async def test_a_token_that_pulsar_does_not_look_at_names_nobody(new_pulsar: NewPulsar, tmp_path: Path) -> None:
    """Without a provider for tokens, Pulsar takes who has one for the anonymous role: here a super-user."""
    authority = Authority(tmp_path)
    more = {
        "anonymousUserRole": ANONYMOUS, "superUserRoles": f"{ADMIN},{ANONYMOUS}",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderTls",
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationDisabled",
        "brokerClientAuthenticationParameters": "",
    }  # fmt: skip
    own = authority.sign("bridge", {COMMON_NAME: ROLE})
    with SecuredPulsar(new_pulsar, more, authority) as secured:
        namespace = secured.create_tenant(ROLE)
        login = {
            "service_url": secured.tls_service_url, "admin_url": secured.tls_admin_url, "tls_ca_file": authority.file,
            "tls_cert_file": own.certificate, "tls_key_file": own.key,
        }  # fmt: skip
        address = PulsarAddress(secured.service_url, secured.admin_url)
        # whether the bridge proves tokens itself or not
        for key in ("", secured.public_key(tmp_path / "key")):
            for authorizer, told in (("kafka", f"anonymousUserRole={ANONYMOUS}"), ("pulsar", "signed by no key")):
                wanted = sections(secured)
                wanted["kafka"] |= {"sasl_enabled_mechanisms": "PLAIN", "authorizer": authorizer}
                wanted["pulsar"] = {**login, "token_public_key_file": key, "trust_state_namespace": False}
                settings = settings_for(address, namespace, wanted)
                with pytest.raises(StartupError, match=told):
                    BridgeThread(settings).start()
                found = {finding.name: finding.severity for finding in await examine(settings)}
                assert found["state access"] is Severity.UNFIT
                assert found.get("roles") is (Severity.UNFIT if authorizer == "pulsar" else None)
