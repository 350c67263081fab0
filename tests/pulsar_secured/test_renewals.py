"""Certificates are replaced, sessions and tokens end, on both sides, while clients write and read: no request fails.

In the long run writers never repeat, so that a request that failed would show; but aiokafka, which does not log in
again: when its session has ended it connects again, and repeats what was open.

In the short run sessions are so short that a client on a busy machine may come too late to log in again, so clients
repeat as they do by default. librdkafka's sessions do not end there, and never those of the checker's clients, which
come and go: 2.16 may crash where a connection ends just when it is to log in again, for RD_KAFKA_OP_SASL_REAUTH is
served though the transport is gone (`rd_kafka_broker_op_serve`).
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka.net.sasl.oauth import AbstractTokenProvider

from bridge.access.password_file import line_of
from bridge.connection.listeners import client_listeners
from bridge.kafka.error_codes import ErrorCode
from bridge.standalone.ports import HOST
from tests.faults.checker import TIMEOUT_SECONDS, Load, Verdict, under_way
from tests.faults.clients import ConfluentWriter, KafkaPythonWriter, Writer
from tests.faults.figures import report
from tests.faults.nodes.writers import AioKafkaWriter, JavaWriter
from tests.faults.readers import AiokafkaReader, ConfluentReader, JavaReader, KafkaPythonReader, Reader
from tests.pulsar_secured.conftest import ROLE, Start
from tests.pulsar_secured.renewals import Audit, Certificates, TokenFile
from tests.security.issuer import CLAIMS, key_set, public_jwk, token
from tests.security.users import credential
from tests.support.bridges import BridgeThread
from tests.support.certificates import Authority, CertificateFiles
from tests.support.java import QUICK_START
from tests.support.secured_pulsar import SecuredPulsar

PASSWORD = "wonder land"  # noqa: S105
PARTITIONS = 3
SCRAMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ENDLESS_SECONDS, PULSAR_SECONDS = 3600.0, 4.0
KAFKA_PYTHON = ("k-scram", "k-token", "r-k-plain")
LIBRDKAFKA = ("c-plain", "c-token", "r-c-token")
AIOKAFKA = ("a-scram", "r-a-scram")
JAVA = ("j-scram", "j-token", "r-j-scram")
_BETWEEN_SECONDS = 0.5
_SECURITY = "org.apache.kafka.common.security"


def client_token(user: str, seconds: float) -> str:
    now = time.time()
    return token({**CLAIMS, "sub": user, "iat": now - 1, "exp": now + seconds}, "RS256", kid="one")


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, user: str, seconds: float) -> None:
        super().__init__()
        self._user, self._seconds = user, seconds

    def token(self) -> str:
        """Asked for at each log-in."""
        return client_token(self._user, self._seconds)


class Lengths(NamedTuple):
    """How long sessions last."""

    session_ms: int
    token_seconds: float
    strict: bool
    """Whether writers never repeat, and librdkafka's sessions end as well."""


SHORT, LONG = Lengths(3000, 6.0, False), Lengths(10_000, 20.0, True)


@dataclass
class Scene:
    """A bridge with a listener for passwords and one for tokens, before a Pulsar that demands tokens."""

    bridge: BridgeThread
    authority: Authority
    work: Path
    certificates: Certificates
    audit: Audit
    token_files: list[TokenFile] = field(default_factory=list)
    lengths: Lengths = SHORT

    def address(self, listener: str) -> str:
        return f"{HOST}:{self.bridge.server.listeners.ports[listener]}"

    def by_password(self, user: str, mechanism: str, listener: str = "") -> dict[str, Any]:
        """librdkafka's settings."""
        return {
            "bootstrap.servers": self.address(listener or ("PASSWORDS" if self.lengths.strict else "ENDLESS")),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.authority.file, "sasl.mechanism": mechanism, "sasl.username": user,
            "sasl.password": PASSWORD,
        }  # fmt: skip

    def by_token(self, user: str) -> dict[str, Any]:
        """librdkafka's settings."""
        seconds = self.lengths.token_seconds if self.lengths.strict else ENDLESS_SECONDS
        return {
            "bootstrap.servers": self.address("TOKENS"), "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.authority.file, "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (client_token(user, seconds), time.time() + seconds),
        }  # fmt: skip

    def python(self, user: str, mechanism: str) -> dict[str, Any]:
        """kafka-python's and aiokafka's settings."""
        login: dict[str, Any] = {"sasl_plain_username": user, "sasl_plain_password": PASSWORD}
        if mechanism == "OAUTHBEARER":
            login = {"sasl_oauth_token_provider": _Tokens(user, self.lengths.token_seconds)}
        return {
            "bootstrap_servers": self.address("TOKENS" if mechanism == "OAUTHBEARER" else "PASSWORDS"),
            "security_protocol": "SASL_SSL", "ssl_context": ssl.create_default_context(cafile=self.authority.file),
            "sasl_mechanism": mechanism, **login,
        }  # fmt: skip

    def java(self, user: str, mechanism: str) -> dict[str, str]:
        """Java's settings."""
        common = {
            "security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority.file,
        }  # fmt: skip
        if mechanism != "OAUTHBEARER":
            module = f'{_SECURITY}.scram.ScramLoginModule required username="{user}" password="{PASSWORD}";'
            return {**common, "bootstrap.servers": self.address("PASSWORDS"), "sasl.jaas.config": module}
        file = TokenFile(self.work / f"{user}.token", lambda: client_token(user, self.lengths.token_seconds), 1.0)
        file.start()
        self.token_files.append(file)
        return {
            **common, "bootstrap.servers": self.address("TOKENS"),
            "sasl.oauthbearer.token.endpoint.url": file.path.as_uri(),
            "sasl.login.callback.handler.class": f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
        }  # fmt: skip


def sections(work: Path, files: CertificateFiles, pulsar_token: Path, session_ms: int) -> dict[str, Any]:
    """The bridge's settings."""
    users, keys = work / "users", work / "keys.json"
    names = ("checker", *KAFKA_PYTHON, *LIBRDKAFKA, *AIOKAFKA, *JAVA)
    users.write_text("".join(f"{line_of(user, credential(one, PASSWORD))}\n" for user in names for one in SCRAMS))
    keys.write_bytes(key_set(public_jwk("RS256", kid="one", use="sig", alg="RS256")))
    tls = {"ssl_certificate_file": files.certificate, "ssl_key_file": files.key}
    mechanisms = f"PLAIN,{','.join(SCRAMS)}"
    return {
        "kafka": {
            "listen": "127.0.0.1:9092",  # the default
            "listeners": f"PASSWORDS://{HOST}:0,TOKENS://{HOST}:0,ENDLESS://{HOST}:0",
            "listener_security_protocol_map": "PASSWORDS:SASL_SSL,TOKENS:SASL_SSL,ENDLESS:SASL_SSL",
        },
        "listener": {
            "PASSWORDS": {**tls, "sasl_enabled_mechanisms": mechanisms, "connections_max_reauth_ms": session_ms},
            "TOKENS": {**tls, "sasl_enabled_mechanisms": "OAUTHBEARER"},
            "ENDLESS": {**tls, "sasl_enabled_mechanisms": mechanisms},
        },
        "security": {
            "password_file": str(users),
            "oauthbearer_jwks_file": str(keys),
            "oauthbearer_expected_issuer": CLAIMS["iss"],
            "oauthbearer_expected_audience": CLAIMS["aud"],
            "oauthbearer_clock_skew_seconds": 0.1,
        },
        "pulsar": {"token_file": str(pulsar_token)},
    }


@pytest.fixture
def audit() -> Iterator[Audit]:
    made, log = Audit(), logging.getLogger("bridge.audit")
    log.setLevel(logging.INFO)
    log.addHandler(made)
    yield made
    log.removeHandler(made)
    log.setLevel(logging.NOTSET)


@pytest.fixture
def scene(
    request: pytest.FixtureRequest,
    secured: SecuredPulsar,
    start_bridge: Start,
    audit: Audit,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Scene]:
    lengths: Lengths = request.param
    monkeypatch.setattr(client_listeners, "REFRESH_SECONDS", _BETWEEN_SECONDS / 2)
    authority = Authority(tmp_path)
    pulsar_token = TokenFile(tmp_path / "pulsar.token", lambda: secured.token(ROLE, PULSAR_SECONDS), PULSAR_SECONDS / 4)
    pulsar_token.start()
    scene = None
    try:
        files = authority.sign("server")
        bridge = start_bridge(**sections(tmp_path, files, pulsar_token.path, lengths.session_ms))
        address = f"{HOST}:{bridge.server.listeners.ports['PASSWORDS']}"
        certificates = Certificates(authority, address, bridge.server.metrics.tls, _BETWEEN_SECONDS)
        scene = Scene(bridge, authority, tmp_path, certificates, audit, lengths=lengths)
        yield scene
    finally:
        for file in [pulsar_token, *(scene.token_files if scene else ())]:
            file.finish()


def writers_of(scene: Scene, topic: str, changed: threading.Condition) -> list[Writer]:
    """One for each client that there is, and for each way to log in."""

    strict = scene.lengths.strict
    once = {"retries": 0} if strict else {}

    def librdkafka(name: str, server: dict[str, Any]) -> Writer:
        return ConfluentWriter(name, server | once, topic, PARTITIONS, changed, idempotent=not strict)

    def kafka_python(name: str, mechanism: str) -> Writer:
        settings = {**scene.python(name, mechanism), **once, "enable_idempotence": not strict}
        return KafkaPythonWriter(name, settings["bootstrap_servers"], topic, PARTITIONS, changed, **settings)

    def aiokafka(name: str, mechanism: str) -> Writer:
        settings = scene.python(name, mechanism)
        return AioKafkaWriter(name, settings["bootstrap_servers"], topic, PARTITIONS, changed, **settings)

    return [
        librdkafka("c-plain", scene.by_password("c-plain", "PLAIN")),
        librdkafka("c-token", scene.by_token("c-token")),
        kafka_python("k-scram", "SCRAM-SHA-256"),
        kafka_python("k-token", "OAUTHBEARER"),
        aiokafka("a-scram", "SCRAM-SHA-512"),
    ]


def readers_of(scene: Scene, topic: str) -> list[Reader]:
    return [
        ConfluentReader("r-c-token", scene.by_token("r-c-token"), topic),
        KafkaPythonReader("r-k-plain", scene.python("r-k-plain", "PLAIN"), topic),
        AiokafkaReader("r-a-scram", scene.python("r-a-scram", "SCRAM-SHA-256"), topic),
    ]


def java_writers(scene: Scene, topic: str, changed: threading.Condition) -> list[Writer]:
    """Of both listeners, each in a process of its own."""
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={(scene.work / 'j-token.token').as_uri()}"
    ways = {"j-scram": scene.java("j-scram", "SCRAM-SHA-512"), "j-token": scene.java("j-token", "OAUTHBEARER")}
    return [
        JavaWriter(
            name, words["bootstrap.servers"], topic, PARTITIONS, changed, scene.work,
            repeats=False, settings=words, options=(*QUICK_START, allowed),
        )
        for name, words in ways.items()
    ]  # fmt: skip


def java_reader(scene: Scene, topic: str) -> Reader:
    words = scene.java("r-j-scram", "SCRAM-SHA-256")
    config = scene.work / "r-j-scram.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in {**words, "group.id": "r-j-scram"}.items()))
    return JavaReader("r-j-scram", words["bootstrap.servers"], topic, config)


USUAL = {
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.REBALANCE_IN_PROGRESS,
}
"""Where there is no such topic yet, and where members join."""


def run(scene: Scene, load: Load, readers: list[Reader], again: dict[str, int], taken: int) -> None:
    """Go on until each client has logged in again so often, and so many certificates were taken; then judge."""
    audit, certificates = scene.audit, scene.certificates
    with under_way(load):
        for reader in readers:
            reader.start()
        certificates.start()
        seen = audit.again + audit.first
        load.until(
            "everything to be renewed",
            lambda: (
                all((audit.again + audit.first)[name] - seen[name] >= count for name, count in again.items())
                and (certificates.taken >= taken or bool(certificates.wrong))
            ),
            10 * TIMEOUT_SECONDS,
        )
        certificates.finish()
        verdict = load.stop()
        stored = {
            (partition, offset): value
            for partition, records in enumerate(load.follower.records)
            for offset, value in records.items()
        }
        wrong = certificates.wrong + [text for reader in readers for text in reader.finish(stored, TIMEOUT_SECONDS)]
    judge(scene, verdict, wrong)


def judge(scene: Scene, verdict: Verdict, wrong: list[str]) -> None:
    audit, certificates, metrics = scene.audit, scene.certificates, scene.bridge.server.metrics
    report(
        records=verdict, certificates=certificates.taken, refused=dict(certificates.refused),
        again=dict(audit.again), connections=dict(audit.first),
        pulsar_challenges=metrics.pulsar.auth_challenges.value, wrong=wrong,
        rejections={name: one.value for name, one in metrics.refusals.items() if one.value},
        handshakes={name: one.value for name, one in metrics.tls.handshakes.items() if one.value},
    )  # fmt: skip
    verdict.check()
    assert not wrong
    assert not audit.refused
    if scene.lengths.strict:  # the sessions that ended are aiokafka's, each followed by a new connection
        assert metrics.refusals["session_expired"].value <= sum(audit.first[name] for name in AIOKAFKA)
    assert metrics.pulsar.auth_challenges.value > 0
    assert metrics.pulsar.connections_lost.value == 0
    told = {code for api in metrics.all_apis() for code in api.errors}
    assert told <= USUAL, told


@pytest.mark.soak  # until it is known to pass on a busy machine each time
@pytest.mark.parametrize("scene", [SHORT], ids=[""], indirect=True)
def test_nothing_fails_while_certificates_sessions_and_tokens_are_renewed(scene: Scene) -> None:
    server = scene.by_password("checker", "SCRAM-SHA-512", "ENDLESS")
    load = Load(server, "renewed", PARTITIONS, lambda topic, _, changed: writers_of(scene, topic, changed))
    load.look_ups = 2
    again = dict.fromkeys((*KAFKA_PYTHON, *AIOKAFKA), 1)
    run(scene, load, readers_of(scene, "renewed"), again, taken=2)


@pytest.mark.soak
@pytest.mark.parametrize("scene", [LONG], ids=[""], indirect=True)
def test_nothing_fails_for_minutes_and_for_java(scene: Scene) -> None:
    server = scene.by_password("checker", "SCRAM-SHA-512", "ENDLESS")

    def writers(topic: str, _: int, changed: threading.Condition) -> list[Writer]:
        return [*writers_of(scene, topic, changed), *java_writers(scene, topic, changed)]

    again = dict.fromkeys((*KAFKA_PYTHON, *AIOKAFKA, "c-plain", "j-scram", "r-j-scram"), 12)
    again |= dict.fromkeys(("c-token", "k-token", "r-c-token", "j-token"), 6)
    readers = [*readers_of(scene, "long"), java_reader(scene, "long")]
    run(scene, Load(server, "long", PARTITIONS, writers), readers, again, taken=30)
