"""A bridge as an operator sets one up: by config/hardened.toml, or by what Helm's chart renders, on a real Pulsar."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bridge.access.password_file import line_of
from bridge.config import Settings, load
from bridge.standalone.ports import HOST, any_free
from tests.deploy.manifests import container, manifests
from tests.pulsar_secured.conftest import ROLE
from tests.security.users import credential
from tests.support.certificates import Authority
from tests.support.pulsar_admin import pulsar_admin
from tests.support.secured_pulsar import SecuredPulsar
from tests.support.sources import ROOT

WAYS = ("hardened.toml", "chart")
MECHANISM = "SCRAM-SHA-512"
PASSWORDS = {"admin": "first", "alice": "second", "mallory": "third"}
_COMMANDS = re.compile(r"`((?:bin/pulsar-admin|…) [^`]+)`")


def commands_of(row: str) -> list[str]:
    """Those of a row of the table in docs/security.md, which begins so."""
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    (line,) = [one for one in page.splitlines() if one.startswith(f"| {row} |")]
    return [one.replace("…", "bin/pulsar-admin namespaces") for one in _COMMANDS.findall(line)]


class Deployed:
    """The files of one bridge, with a tenant of its own."""

    def __init__(self, way: str, secured: SecuredPulsar, authority: Authority, directory: Path) -> None:
        self.secured, self.authority = secured, authority
        self.tenant = f"t-{secrets.token_hex(4)}"
        self.data, self.state = f"{self.tenant}/orders", f"{self.tenant}/orders-bridge"
        self._directory = directory
        self.port = any_free()
        self._ports = self.port, any_free({self.port})
        self._users = way == "hardened.toml"
        self._file, self._env = directory / "bridge.toml", dict[str, str]()
        for command in (f"tenants create {self.tenant}", f"namespaces create {self.data}"):
            pulsar_admin(secured, f"bin/pulsar-admin {command}")
        if way == "chart":
            self._as_the_chart_says()
        else:
            self._as_the_example_says()

    def grant(self, rows: Sequence[str], *, without: str = " of nothing ") -> None:
        """Run the commands of these rows of the page, but for those that have `without`."""
        for row in rows:
            for command in commands_of(row):
                command = command.replace("TENANT", self.tenant).replace("NAMESPACE", "orders")
                if without not in command:
                    pulsar_admin(self.secured, command.replace("OTHERS", "boss"))

    def settings(self) -> Settings:
        """What the bridge reads."""
        return load(self._file, self._env)

    def log_in_as(self, role: str) -> None:
        """Have the bridge show a token of this role to Pulsar."""
        Path(self.settings().pulsar.token_file).write_text(self.secured.token(role))

    def with_setting(self, section: str, line: str) -> None:
        """Write a line more into a section that is there, or is not."""
        text, header = self._file.read_text("utf-8"), f"[{section}]\n"
        self._file.write_text(text.replace(header, header + line) if header in text else text + header + line)

    def check(self) -> tuple[bool, dict[str, Any]]:
        """What `bridge check` says: whether it is fit, and its findings by name."""
        told = json.loads(self.bridge("check", "--json"))
        return told["fit"], {one["name"]: one for one in told["findings"]}

    def add_users(self) -> None:
        """As the example's comment says; the chart's are in a Secret."""
        if self._users:
            for name, password in PASSWORDS.items():
                self.bridge("user", "add", name, said=password)

    def bridge(self, *arguments: str, said: str = "") -> str:
        """Run a command of the bridge's; what it prints."""
        words = [sys.executable, "-m", "bridge", *arguments, "--config", str(self._file)]
        ran = subprocess.run(
            words, input=said, capture_output=True, text=True, env={**os.environ, **self._env}, check=False, timeout=120
        )
        assert ran.returncode == 0 or arguments[0] == "check", ran.stderr
        return ran.stdout

    def as_user(self, name: str) -> dict[str, Any]:
        """As librdkafka is told."""
        return {
            "bootstrap.servers": f"{HOST}:{self.port}", "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.authority.file, "sasl.mechanism": MECHANISM, "sasl.username": name,
            "sasl.password": PASSWORDS[name],
        }  # fmt: skip

    def _as_the_example_says(self) -> None:
        where = self._directory / "etc"
        self._secrets({
            "tls.crt": where / "tls.crt", "tls.key": where / "tls.key", "pulsar-ca.crt": where / "pulsar-ca.crt",
            "pulsar-token": where / "pulsar-token", "metrics-token": where / "metrics-token",
        })  # fmt: skip
        text = (ROOT / "config" / "hardened.toml").read_text("utf-8")
        kafka, http = self._ports
        self._file.write_text(
            _edited(text, {
                "SASL_SSL://0.0.0.0:9093": f"SASL_SSL://{HOST}:{kafka}", "kafka.example:9093": f"{HOST}:{kafka}",
                "0.0.0.0:7092": f"{HOST}:{http}", "/etc/bridge/": f"{where}/",
                "pulsar+ssl://pulsar.example:6651": self.secured.tls_service_url,
                "https://pulsar.example:8443": self.secured.tls_admin_url,
                'tenant = "kafka"': f'tenant = "{self.tenant}"', '"kafka/orders-bridge"': f'"{self.state}"',
            })
        )  # fmt: skip

    def _as_the_chart_says(self) -> None:
        where = self._directory / "etc"
        self._secrets({
            "tls.crt": where / "tls" / "tls.crt", "tls.key": where / "tls" / "tls.key",
            "pulsar-ca.crt": where / "pulsar-ca" / "ca.crt", "pulsar-token": where / "pulsar-token" / "token",
            "metrics-token": where / "metrics-token" / "token", "users": where / "users" / "users",
        })  # fmt: skip
        self._file.write_text(
            _edited(manifests("full")["ConfigMap"]["data"]["bridge.toml"], {"/etc/bridge-secrets/": f"{where}/"})
        )
        kafka, http = self._ports
        inside = any_free(set(self._ports))
        given = {one["name"]: one["value"] for one in container("full")["env"] if "value" in one}
        text = json.dumps(given)
        self._env = json.loads(
            _edited(text, {
                "//0.0.0.0:9093": f"//{HOST}:{kafka}", "$(POD_NAME).kafka.example:9093": f"{HOST}:{kafka}",
                "//0.0.0.0:9092": f"//{HOST}:{inside}",
                "$(POD_NAME).bridge-nodes.kafka.svc.cluster.local:9092": f"{HOST}:{inside}",
                "0.0.0.0:7092": f"{HOST}:{http}", "$(POD_NAME)": "bridge-0", "/etc/bridge-secrets/": f"{where}/",
                "pulsar+ssl://pulsar.example:6651": self.secured.tls_service_url,
                "https://pulsar.example:8443": self.secured.tls_admin_url,
                '"BRIDGE_PULSAR_TENANT": "kafka"': f'"BRIDGE_PULSAR_TENANT": "{self.tenant}"',
            })
        )  # fmt: skip

    def _secrets(self, places: Mapping[str, Path]) -> None:
        own = self.authority.sign(self.tenant)
        known = {name: credential(MECHANISM, password) for name, password in PASSWORDS.items()}
        contents = {
            "tls.crt": Path(own.certificate).read_text(), "tls.key": Path(own.key).read_text(),
            "pulsar-ca.crt": Path(self.authority.file).read_text(), "pulsar-token": self.secured.token(ROLE),
            "metrics-token": "of-Prometheus\n",
            "users": "".join(line_of(name, one) + "\n" for name, one in known.items()),
        }  # fmt: skip
        for name, place in places.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(contents[name])
            place.chmod(0o640)


def _edited(text: str, changes: Mapping[str, str]) -> str:
    """The text with names and paths replaced, of which each has to be there."""
    for before, after in changes.items():
        assert before in text, before
        text = text.replace(before, after)
    return text
