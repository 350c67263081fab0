"""docker-compose.secured.yml: no engine runs here, so its commands are run, and its settings, as processes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.check.findings import Severity
from bridge.check.table import examine
from bridge.config import Settings, load
from bridge.errors import BridgeError
from bridge.standalone.jars import ensure_pulsar_jars
from bridge.standalone.ports import HOST, any_free
from bridge.standalone.tools import find_java
from tests.support.bridges import BridgeThread
from tests.support.pulsar import NewPulsar
from tests.support.pulsar_admin import pulsar_admin
from tests.support.secured_pulsar import SecuredPulsar
from tests.support.sources import ROOT

PREFIX = "PULSAR_PREFIX_"
FILES = ("docker-compose.yml", "docker-compose.secured.yml")


def merged(below: Any, above: Any) -> Any:
    """As Compose merges services: maps by their keys, all else is replaced."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {name: merged(below.get(name), value) for name, value in above.items()}


BELOW, ABOVE = (yaml.safe_load((ROOT / name).read_text("utf-8"))["services"] for name in FILES)
SERVICES: dict[str, dict[str, Any]] = merged(BELOW, ABOVE)


class Container:
    """A directory in which Pulsar's image is played: its own programs of Java, without the scripts around them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "bin").mkdir()
        (home / "data").mkdir()
        jars = ":".join(map(str, ensure_pulsar_jars(print)))
        tokens = f"{find_java()} -cp {jars} org.apache.pulsar.utils.auth.tokens.TokensCliUtils"
        self._script("pulsar", f'case $1 in tokens) shift; exec {tokens} "$@";; *) echo "$@" > started;; esac')
        self._script("apply-config-from-env.py", 'echo "$@" > applied')

    def start(self) -> None:
        """What the service runs."""
        words = [self.inside(word) for word in SERVICES["pulsar"]["command"]]
        subprocess.run(words, cwd=self.home, check=True, timeout=60)
        assert (self.home / "applied").read_text() == "conf/standalone.conf\n"
        assert (self.home / "started").read_text() == "standalone -nfw -nss\n"

    def settings(self) -> dict[str, str]:
        """Those that the service gives to the broker."""
        given = SERVICES["pulsar"]["environment"].items()
        found = {name.removeprefix(PREFIX): self.inside(value) for name, value in given if name.startswith(PREFIX)}
        return {**found, "advertisedAddress": HOST, "proxyRoles": ""}

    def inside(self, text: str) -> str:
        """A path of the image is one of this directory."""
        return text.replace("/pulsar/data/", f"{self.home}/data/")

    def _script(self, name: str, text: str) -> None:
        file = self.home / "bin" / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)


def commands_of_the_page() -> list[str]:
    """What docs/deploy.md has run in Pulsar's container."""
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8").replace("\\\n", " ")
    return re.findall(r"docker compose exec (?:-T )?pulsar ([^\n)]+)", page)


def bridge_settings(secured: SecuredPulsar, token: str) -> Settings:
    """Of the service `bridge`, but for its addresses."""
    environment = dict(SERVICES["bridge"]["environment"])
    assert environment["BRIDGE_PULSAR_TOKEN"] == "${BRIDGE_PULSAR_TOKEN:-}"  # noqa: S105 - whose value Compose puts in
    listeners = f"OUTSIDE://{HOST}:{any_free()},INSIDE://{HOST}:{any_free()}"
    environment |= {
        "BRIDGE_PULSAR_TOKEN": token, "BRIDGE_KAFKA_LISTENERS": listeners,
        "BRIDGE_KAFKA_ADVERTISED_LISTENERS": listeners, "BRIDGE_HTTP_LISTEN": f"{HOST}:0",
        "BRIDGE_CLUSTER_INTERNAL_LISTEN": f"{HOST}:0", "BRIDGE_CLUSTER_INTERNAL_ADVERTISED": "",
        "BRIDGE_PULSAR_SERVICE_URL": secured.service_url, "BRIDGE_PULSAR_ADMIN_URL": secured.admin_url,
    }  # fmt: skip
    return load(ROOT / "config" / "bridge.toml", environment)


def test_all_bridges_have_the_token() -> None:
    bridges = {name for name in BELOW if name.startswith("bridge")}
    assert {name for name, service in ABOVE.items() if "BRIDGE_PULSAR_TOKEN" in service["environment"]} == bridges
    assert set(ABOVE) == bridges | {"pulsar"}


def said(command: str, home: Path) -> str:
    """What it prints there."""
    return subprocess.run(command.split(), cwd=home, capture_output=True, text=True, check=True).stdout.strip()


async def test_it_is_a_pulsar_with_rights_and_a_bridge_with_its_own(new_pulsar: NewPulsar, tmp_path: Path) -> None:
    container = Container(tmp_path)
    container.start()
    keys = {file.name: file.read_bytes() for file in (tmp_path / "data" / "keys").iterdir()}
    assert not [file for file in (tmp_path / "data" / "keys").iterdir() if file.stat().st_mode & 0o077]
    container.start()
    assert keys == {file.name: file.read_bytes() for file in (tmp_path / "data" / "keys").iterdir()}
    grant, show = commands_of_the_page()
    token = said(show, tmp_path)
    with SecuredPulsar(new_pulsar, container.settings(), key=keys["private.key"]) as secured:
        with pytest.raises(BridgeError, match="Auth"):
            BridgeThread(bridge_settings(secured, "")).start()
        before = {one.name: one for one in await examine(bridge_settings(secured, token))}
        assert "may not create topics" in before["namespace"].detail
        pulsar_admin(secured, grant)
        settings = bridge_settings(secured, token)
        running = BridgeThread(settings)
        running.start()
        running.stop()
        found = await examine(settings)
        assert not [one for one in found if one.severity is Severity.UNFIT], found
