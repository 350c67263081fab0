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
from tests.pulsar_secured.matrix.cells import RIGHTS, kept
from tests.pulsar_secured.matrix.matrix import Matrix, more_than
from tests.pulsar_secured.matrix.native import Native
from tests.support.bridges import BridgeThread, settings_for
from tests.support.pulsar_proxy import PulsarProxy, proxy_jars
from tests.support.secured_pulsar import PROXY, SecuredPulsar

BOTH = ("produce", "consume")


@pytest.fixture(scope="module")
def proxy(secured: SecuredPulsar, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarProxy]:
    directory = tmp_path_factory.mktemp("proxy") / "proxy"
    with PulsarProxy(secured.behind_proxy(), directory, guard, proxy_jars()) as started:
        yield started


def reached_by(proxy: PulsarProxy) -> dict[str, str]:
    return {"service_url": proxy.service_url, "admin_url": proxy.admin_url}


def test_a_bridge_gives_what_pulsar_gives(secured: SecuredPulsar, proxy: PulsarProxy, tmp_path: Path) -> None:
    matrix = Matrix(secured, tmp_path)
    namespace = matrix.tenant(grants=True)
    native = {right: Native(secured, namespace).may(role) for right, role in RIGHTS.items()}
    answers = matrix.through(namespace, "token", "pulsar", by_proxy=False, more=reached_by(proxy))
    assert not more_than(answers, native), (answers, native)
    assert answers == kept()["authorization"]["token | pulsar"]


def test_who_speaks_for_others_is_not_heard_through_a_proxy(
    secured: SecuredPulsar, proxy: PulsarProxy, tmp_path: Path
) -> None:
    matrix = Matrix(secured, tmp_path)
    namespace = matrix.tenant(grants=True)
    with pytest.raises(StartupError, match=r"proxy_token_file may not speak for others"):
        matrix.through(namespace, "token", "pulsar", by_proxy=True, more=reached_by(proxy))


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
    with pytest.raises(StartupError, match=f"role {PROXY} has permissions on {state}"):
        BridgeThread(settings()).start()
    bridge = BridgeThread(settings(state_roles=PROXY))
    bridge.start()
    bridge.stop()
    found = {finding.name: finding.severity for finding in await examine(settings(state_roles=PROXY))}
    assert found["state rights"] is found["state access"] is Severity.FIT
