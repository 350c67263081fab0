"""What a bridge shows of itself has no secret: its log at every level, metrics, command lines, errors, configs."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from bridge.node.orphans import Guard
from bridge.standalone.bridge_process import BridgeProcess
from bridge.standalone.ports import HOST
from tests.hostile.grounds import write_users
from tests.hostile.healthy import password, user_name
from tests.support.bridges import settings_for
from tests.support.certificates import Authority
from tests.support.login import Login
from tests.support.nodes import stable_ports
from tests.support.pulsar import NewPulsar

WRONG = "a-wrong-password-of-somewhere-else"
MECHANISMS = ("PLAIN", "SCRAM-SHA-512")
PAGES = ("/metrics", "/healthz", "/readyz")


class Site:
    """A bridge with a token towards Pulsar and users of its own."""

    def __init__(self, process: BridgeProcess, kafka: str, http: str, authority: str, directory: Path) -> None:
        self.process, self.kafka, self.http, self._authority = process, kafka, http, authority
        self.log = directory / "logs" / "bridge.log"
        self.secrets: dict[str, str] = {}
        self.told: list[str] = []
        """Texts of errors that clients got."""

    def client(self, mechanism: str, word: str) -> dict[str, Any]:
        """As librdkafka is told."""
        return {
            "bootstrap.servers": self.kafka, "security.protocol": "SASL_SSL", "ssl.ca.location": self._authority,
            "sasl.mechanism": mechanism, "sasl.username": user_name(0), "sasl.password": word,
            "error_cb": lambda error: self.told.append(str(error)),
        }  # fmt: skip


@pytest.fixture(scope="module")
def site(new_pulsar: NewPulsar, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory, login = tmp_path_factory.mktemp("secrets"), Login()
    pulsar = new_pulsar(login.broker_settings)
    pulsar.start()
    authority, users = Authority(directory), directory / "users"
    signed, token = authority.sign("bridge"), login.token("admin")
    write_users(users)
    port, http = stable_ports(2)
    settings = settings_for(pulsar, pulsar.create_namespace(), {
        "kafka": {
            "listen": f"{HOST}:9092", "listeners": f"SASL_SSL://{HOST}:{port}",
            "sasl_enabled_mechanisms": ",".join(MECHANISMS),
        },
        "listener": {"SASL_SSL": {"ssl_certificate_file": signed.certificate, "ssl_key_file": signed.key}},
        "security": {"password_file": str(users)}, "pulsar": {"token": token},
        "http": {"listen": f"{HOST}:{http}"}, "log": {"level": "debug"},
    })  # fmt: skip
    process = BridgeProcess(settings, directory, guard)
    process.start()
    made = Site(process, f"{HOST}:{port}", f"http://{HOST}:{http}", authority.file, directory)
    _, _, salted = users.read_text().splitlines()[0].partition("$")
    made.secrets = {
        "the right password": password(0), "a wrong password": WRONG, "the token": token,
        "the token's signature": token.rpartition(".")[2], "the stored key": salted.rpartition("$")[2],
        "the private key": Path(signed.key).read_text().splitlines()[1],
    }  # fmt: skip
    yield made
    process.kill()
    pulsar.kill()


@pytest.fixture(scope="module")
def used(site: Site) -> Site:
    """Clients have logged in, rightly and wrongly, and asked for what there is."""
    for mechanism in MECHANISMS:
        admin = AdminClient(site.client(mechanism, password(0)))
        admin.create_topics([NewTopic(f"of-{mechanism}", 1, 1)])[f"of-{mechanism}"].result(30)
        resource = ConfigResource(ResourceType.BROKER, "0")
        for configs in admin.describe_configs([resource]).values():
            site.told += [f"{one.name}={one.value}" for one in configs.result(30).values()]
        refused: list[KafkaError] = []
        wrong = Producer(site.client(mechanism, WRONG) | {"error_cb": refused.append})
        while not refused:
            wrong.poll(1)
        site.told += map(str, refused)
    return site


def forms(secret: str) -> list[str]:
    """As it is, and as base64, which SASL messages and headers use."""
    encoded = [base64.b64encode(b"\0" * shift + secret.encode()).decode()[4:-4] for shift in range(3)]
    return [secret, *(one for one in encoded if len(one) > 12)]


def shown_by(site: Site) -> dict[str, str]:
    """Everything that others may come to see."""
    shown = {page: urlopen(site.http + page).read().decode() for page in PAGES}  # noqa: S310 - our own bridge
    shown["log"] = site.log.read_text(encoding="utf-8")
    shown["command line"] = Path(f"/proc/{site.process.pid}/cmdline").read_bytes().decode()
    shown["answers"] = "\n".join(site.told)
    return shown


def test_no_secret_is_shown(used: Site) -> None:
    shown = shown_by(used)
    assert all(shown.values()), "nothing is shown where something should be"
    assert user_name(0) in shown["log"], "log-ins are not in the log"
    found = [
        f"{what} in {where}"
        for what, secret in used.secrets.items()
        for where, text in shown.items()
        if any(form in text for form in forms(secret))
    ]
    assert not found


def test_a_secret_would_be_found() -> None:
    secret = "of some length, and with a word"  # noqa: S105
    for at in range(3):
        sent = base64.b64encode(b"n" * at + secret.encode() + b"more").decode()
        assert any(form in sent for form in forms(secret))
