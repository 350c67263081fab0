"""The bridge and a real Kafka with the same listeners and users: SASL_SSL with each mechanism, and mutual TLS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from bridge.access.password_file import line_of
from bridge.node.orphans import Guard
from bridge.standalone.ports import HOST, any_free
from tests.clients.logins.ways import MUTUAL_TLS, PASSWORD, PASSWORDS, USER, Way
from tests.security.issuer import CLAIMS, key_set, public_jwk
from tests.security.users import credential
from tests.support.bridges import BridgeThread, settings_for
from tests.support.certificates import Authority, CertificateFiles
from tests.support.java import run_tool
from tests.support.kafka_broker import KafkaBroker
from tests.support.pulsar import PulsarAddress

SASL, MUTUAL = "SASL_SSL", "SSL"
"""The listeners' names."""
SCRAMS = PASSWORDS[1:]
_SASL_MECHANISMS = (*PASSWORDS, "OAUTHBEARER")
_LOGIN = "org.apache.kafka.common.security"


class Files:
    """What servers and clients are told by files: certificates, users, the token issuer's keys."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        authority = Authority(directory)
        self.authority = authority.file
        self.server = authority.sign("server")
        self.clients: dict[str, CertificateFiles | None] = {
            "right": authority.sign("client"),
            "expired certificate": authority.sign("expired", lasts=timedelta(hours=-1)),
            "certificate of another authority": Authority(directory, "another").sign("foreign"),
            "no certificate": None,
        }
        self.keys = directory / "keys.json"
        self.keys.write_bytes(key_set(public_jwk("RS256", kid="one", use="sig", alg="RS256")))
        self.users = directory / "users"
        self.users.write_text("".join(line_of(USER, credential(name, PASSWORD)) + "\n" for name in SCRAMS))


@dataclass
class Server:
    """Where clients log in."""

    is_bridge: bool
    files: Files
    addresses: dict[str, str]
    topic: str = field(default_factory=lambda: f"t-{uuid4().hex[:8]}")

    def way(self, mechanism: str, case: str) -> Way:
        """How a client comes in here."""
        if mechanism == MUTUAL_TLS:
            return Way(self.addresses[MUTUAL], self.files.authority, mechanism, case, self.files.clients[case])
        return Way(self.addresses[SASL], self.files.authority, mechanism, case)


@contextmanager
def bridge(pulsar: PulsarAddress, directory: Path) -> Iterator[Server]:
    """Start one. No address is blocked for its failures: all that come here are of one address."""
    files = Files(directory)
    tls = {"ssl_certificate_file": files.server.certificate, "ssl_key_file": files.server.key}
    base = settings_for(pulsar, pulsar.create_namespace(), {"kafka": {"listen": "127.0.0.1:9092"}})
    running = BridgeThread(
        base.with_values(
            kafka={
                "listeners": f"{SASL}://{HOST}:0,{MUTUAL}://{HOST}:0",
                "sasl_enabled_mechanisms": ",".join(_SASL_MECHANISMS),
                "max_failed_logins_per_ip_per_second": 0,
            },
            listener={
                SASL: tls,
                MUTUAL: {**tls, "ssl_client_auth": "required", "ssl_client_ca_file": files.authority},
            },
            security={
                "password_file": str(files.users),
                "oauthbearer_jwks_file": str(files.keys),
                "oauthbearer_expected_issuer": CLAIMS["iss"],
                "oauthbearer_expected_audience": CLAIMS["aud"],
            },
        )
    )
    running.start()
    ports = running.server.listeners.ports
    try:
        yield Server(True, files, {name: f"{HOST}:{ports[name]}" for name in (SASL, MUTUAL)})
    finally:
        running.stop()


class _Kafka(KafkaBroker):
    """It comes to itself by a listener without a log-in."""

    def __init__(self, *args: Any, addresses: dict[str, str], **options: Any) -> None:
        super().__init__(*args, **options)
        self._addresses = addresses

    def _properties(self, controller: int) -> str:
        self.kafka = self._addresses["PLAINTEXT"]
        listeners = ",".join(f"{name}://{address}" for name, address in self._addresses.items())
        mapped = ",".join(f"{name}:{name}" for name in self._addresses)
        return super()._properties(controller) + (
            f"listeners={listeners},CONTROLLER://127.0.0.1:{controller}\nadvertised.listeners={listeners}\n"
            f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,{mapped}\n"
        )


@contextmanager
def real_kafka(guard: Guard, directory: Path) -> Iterator[Server]:
    """Start one, and add its user."""
    files = Files(directory)
    taken: list[int] = []
    for _ in range(3):
        taken.append(any_free(set(taken)))
    addresses = {name: f"{HOST}:{port}" for name, port in zip((SASL, MUTUAL, "PLAINTEXT"), taken, strict=True)}
    broker = _Kafka(
        directory,
        guard,
        addresses=addresses,
        settings=_kafka_settings(files),
        options=(
            "-XX:+UseSerialGC",
            "-Xshare:auto",
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={files.keys.as_uri()}",
        ),
    )
    broker.start()
    try:
        where = ("--bootstrap-server", broker.kafka, "--entity-type", "users", "--entity-name", USER)
        for scram in SCRAMS:  # Kafka takes one of a user at a time
            run_tool("kafka.admin.ConfigCommand", *where, "--alter", "--add-config", f"{scram}=[password={PASSWORD}]")
        yield Server(False, files, addresses)
    finally:
        broker.stop()


def _kafka_settings(files: Files) -> dict[str, str]:
    """What a real Kafka is told."""
    keystore, listener = files.directory / "keystore.pem", f"listener.name.{SASL.lower()}"
    keystore.write_text(Path(files.server.key).read_text() + Path(files.server.certificate).read_text())
    return {
        "sasl.enabled.mechanisms": ",".join(_SASL_MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        f"listener.name.{MUTUAL.lower()}.ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": files.authority,
        f"{listener}.plain.sasl.jaas.config": f'{_LOGIN}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        **{
            f"{listener}.{one.lower()}.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;" for one in SCRAMS
        },
        f"{listener}.oauthbearer.sasl.jaas.config": f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule required;",
        f"{listener}.oauthbearer.sasl.server.callback.handler.class": (
            f"{_LOGIN}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        # without it Kafka 4.1.1 takes any token that is well-formed, also one that another key has signed
        f"{listener}.sasl.oauthbearer.jwt.validator.class": f"{_LOGIN}.oauthbearer.BrokerJwtValidator",
        f"{listener}.sasl.oauthbearer.jwks.endpoint.url": files.keys.as_uri(),
        f"{listener}.sasl.oauthbearer.expected.issuer": CLAIMS["iss"],
        f"{listener}.sasl.oauthbearer.expected.audience": CLAIMS["aud"],
    }
