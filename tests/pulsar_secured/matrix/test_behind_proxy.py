"""Behind a real Pulsar proxy that asks for log-ins: the bridge works, and gives no role more than Pulsar itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.check.findings import Severity
from bridge.check.table import examine
from bridge.config import Settings
from bridge.errors import StartupError
from bridge.node.orphans import Guard
from tests.pulsar_secured.conftest import ROLE, sections
from tests.pulsar_secured.matrix.cells import BEHIND, kept
from tests.pulsar_secured.matrix.matrix import Matrix, more_than
from tests.support.bridges import BridgeThread, settings_for
from tests.support.certificates import COMMON_NAME, Authority
from tests.support.pulsar_admin import pulsar_admin
from tests.support.pulsar_proxy import PulsarProxy, proxy_jars
from tests.support.secured_pulsar import PROXY, SecuredPulsar

BOTH = ("produce", "consume")


@pytest.fixture(scope="module")
def proxy(
    secured: SecuredPulsar, authority: Authority, guard: Guard, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PulsarProxy]:
    directory = tmp_path_factory.mktemp("proxy") / "proxy"
    with PulsarProxy(secured.behind_proxy(authority), directory, guard, proxy_jars()) as started:
        yield started


@pytest.mark.parametrize(
    "way", ["token", *(pytest.param(way, marks=pytest.mark.soak) for way in ("certificate", "OAuth2"))]
)
def test_a_bridge_gives_what_pulsar_gives(matrix: Matrix, way: str) -> None:
    namespace = matrix.tenant(grants=True)
    native = matrix.native(namespace)
    answers = matrix.through(namespace, way, "pulsar", by_proxy=False)
    assert not more_than(answers, native), (answers, native)
    assert answers == kept()[BEHIND][f"{way} | pulsar"]


@pytest.fixture
def matrix(secured: SecuredPulsar, authority: Authority, proxy: PulsarProxy, tmp_path: Path) -> Matrix:
    return Matrix(secured, tmp_path, authority, proxy)


@pytest.fixture(scope="module")
def without_certificate(
    secured: SecuredPulsar, authority: Authority, guard: Guard, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PulsarProxy]:
    """One that takes certificates, and logs in to brokers by a token, without TLS."""
    directory = tmp_path_factory.mktemp("proxy") / "proxy"
    settings = secured.behind_proxy(authority, by_certificate=False)
    with PulsarProxy(settings, directory, guard, proxy_jars()) as started:
        yield started


def test_tls_may_end_at_the_proxy(
    secured: SecuredPulsar, authority: Authority, without_certificate: PulsarProxy, tmp_path: Path
) -> None:
    matrix = Matrix(secured, tmp_path, authority, without_certificate)
    more = {
        "service_url": without_certificate.tls_service_url, "admin_url": without_certificate.tls_admin_url,
        "tls_ca_file": authority.file,
    }  # fmt: skip
    answers = matrix.through(matrix.tenant(grants=True), "token", "pulsar", by_proxy=False, more=more)
    assert answers == kept()[BEHIND]["token | pulsar"]


def by_certificate(proxy: PulsarProxy, authority: Authority) -> dict[str, str]:
    """The settings of a bridge that logs in to the proxy so."""
    own = authority.sign("bridge", {COMMON_NAME: ROLE})
    return {
        "service_url": proxy.tls_service_url, "admin_url": proxy.tls_admin_url, "tls_ca_file": authority.file,
        "tls_cert_file": own.certificate, "tls_key_file": own.key,
    }  # fmt: skip


async def test_a_proxy_that_cannot_pass_on_a_certificate_is_named(
    secured: SecuredPulsar, authority: Authority, without_certificate: PulsarProxy
) -> None:
    login = by_certificate(without_certificate, authority)
    settings = settings_for(without_certificate, secured.create_tenant(ROLE), {"pulsar": login})
    told = r"does not know the bridge \(HTTP 401.*a certificate only where it logs in to the brokers by one itself"
    with pytest.raises(StartupError, match=told):
        BridgeThread(settings).start()
    found = {finding.name: finding for finding in await examine(settings)}
    assert found["admin reachable"].severity is Severity.UNFIT
    assert "AuthenticationTls" in found["admin reachable"].remedy


@pytest.mark.parametrize("way", ["token", "certificate", "OAuth2"])
def test_who_speaks_for_others_is_not_heard_through_a_proxy(matrix: Matrix, way: str) -> None:
    namespace = matrix.tenant(grants=True)
    with pytest.raises(StartupError, match=r"proxy_token_file may not speak for others"):
        matrix.through(namespace, way, "pulsar", by_proxy=True)


def test_who_is_no_proxy_speaks_for_none(secured: SecuredPulsar, tmp_path: Path) -> None:
    matrix = Matrix(secured, tmp_path)
    (tmp_path / "other").write_text(secured.token("mallory"))
    with pytest.raises(StartupError, match=r"may not speak for others \(.*Invalid roles.*proxyRoles"):
        matrix.through(
            matrix.tenant(grants=True), "token", "pulsar", by_proxy=False,
            more={"proxy_token_file": str(tmp_path / "other")},
        )  # fmt: skip


async def test_the_proxy_needs_permissions_as_well(secured: SecuredPulsar, proxy: PulsarProxy) -> None:
    namespace = secured.create_tenant(ROLE)
    state = f"{namespace}-bridge"

    def settings(**more: object) -> Settings:
        return settings_for(proxy, namespace, sections(secured, trust_state_namespace=False, **more))

    for where in (namespace, state):
        needs = f"this login may not produce and consume in {where} .*the proxy's role needs the same; run: .* {where} "
        with pytest.raises(StartupError, match=needs):
            BridgeThread(settings()).start()
        found = {finding.name: finding.severity for finding in await examine(settings())}
        assert found["state rights"] is Severity.UNFIT
        secured.grant(where, PROXY, BOTH)
    secured.revoke(state, PROXY)
    (told,) = [one for one in await examine(settings(state_roles=PROXY)) if one.severity is Severity.UNFIT]
    assert told.remedy.startswith("bin/pulsar-admin namespaces grant-permission ")
    pulsar_admin(secured, told.remedy)
    with pytest.raises(StartupError, match=f"role {PROXY} has permissions on {state}"):
        BridgeThread(settings()).start()
    bridge = BridgeThread(settings(state_roles=PROXY))
    bridge.start()
    bridge.stop()
    found = {finding.name: finding.severity for finding in await examine(settings(state_roles=PROXY))}
    assert found["state rights"] is found["state access"] is Severity.FIT


async def test_the_proxy_administers_the_tenant_as_well_for_a_certificate(
    secured: SecuredPulsar, authority: Authority, proxy: PulsarProxy
) -> None:
    namespace = secured.create_tenant(ROLE)
    wanted = sections(secured, trust_state_namespace=False)
    wanted["pulsar"] |= {"token": "", **by_certificate(proxy, authority)}
    settings = settings_for(proxy, namespace, wanted)
    found = {finding.name: finding for finding in await examine(settings)}
    assert found["namespace"].severity is Severity.UNFIT
    command, _, hint = found["namespace"].remedy.partition("   ")
    assert hint.endswith("behind a Pulsar proxy also its role)")
    pulsar_admin(secured, command.replace(f"'{ROLE}'", f"'{ROLE},{PROXY}'"))
    running = BridgeThread(settings)
    running.start()
    running.stop()
    assert not [one for one in await examine(settings) if one.severity is Severity.UNFIT]
