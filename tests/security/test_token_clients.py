"""Real clients log in by tokens (OAUTHBEARER) over TLS, and again before they end; each that is wrong keeps them out.

Every client with a right token and with wrong ones: `tests/clients/logins/`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, Producer

from bridge.standalone.ports import HOST
from tests.security.issuer import CLAIMS, key_set, public_jwk, token
from tests.support.bridges import BridgeThread, settings_for
from tests.support.certificates import Authority
from tests.support.java import java_command
from tests.support.java import run_command as run
from tests.support.pulsar import PulsarAddress

AUDIENCE, ISSUER = "bridge", "https://issuer"
Tokens = Callable[[], str]


def made(seconds: float = 60.0, number: int = 0, **claims: object) -> str:
    """A token that is right but for these claims, signed with the issuer's key or with another one."""
    now = time.time()
    return token({**CLAIMS, "iat": now - 1, "exp": now + seconds, **claims}, "RS256", number, kid="one")


WRONG: dict[str, Tokens] = {
    "ended": lambda: made(-60.0),
    "of another issuer": lambda: made(iss="https://other"),
    "for another audience": lambda: made(aud="other"),
    "signed by another key": lambda: made(number=1),
    "of no user": lambda: made(sub=""),
    "not valid yet": lambda: made(nbf=time.time() + 3600),
}


class Site:
    """A bridge with a listener where tokens let clients in."""

    def __init__(self, address: str, authority: str) -> None:
        self.address, self.authority = address, authority
        self.topic = f"t-{uuid4().hex[:8]}"

    def kafka(self, tokens: Tokens, seconds: float = 60.0) -> dict[str, Any]:
        """As librdkafka is told."""
        return {
            "bootstrap.servers": self.address, "security.protocol": "SASL_SSL", "ssl.ca.location": self.authority,
            "sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda config: (tokens(), time.time() + seconds),
        }  # fmt: skip


@pytest.fixture(scope="module")
def site(pulsar: PulsarAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("tokens")
    authority = Authority(directory)
    signed = authority.sign("server")
    keys = directory / "keys.json"
    keys.write_bytes(key_set(public_jwk("RS256", kid="one", use="sig", alg="RS256")))
    base = settings_for(pulsar, pulsar.create_namespace(), {"kafka": {"listen": "127.0.0.1:9092"}})
    running = BridgeThread(
        base.with_values(
            kafka={"listeners": f"SASL_SSL://{HOST}:0", "sasl_enabled_mechanisms": "OAUTHBEARER"},
            listener={"SASL_SSL": {"ssl_certificate_file": signed.certificate, "ssl_key_file": signed.key}},
            security={
                "oauthbearer_jwks_file": str(keys),
                "oauthbearer_expected_issuer": ISSUER,
                "oauthbearer_expected_audience": AUDIENCE,
                "oauthbearer_clock_skew_seconds": 0.1,
            },
        )
    )
    running.start()
    yield Site(f"{HOST}:{running.server.listeners.ports['SASL_SSL']}", authority.file)
    running.stop()


@pytest.mark.soak
def test_librdkafka_logs_in_again_before_its_token_ends_and_fails_nothing(site: Site) -> None:
    """With shorter tokens it comes twice within a second, which is refused as by Kafka (KIP-368)."""
    given: list[str] = []
    failed: list[Any] = []
    acked: list[int] = []

    def tokens() -> str:
        given.append(made(12.0))
        return given[-1]

    def delivered(error: KafkaError | None, message: Any) -> None:
        (acked if error is None else failed).append(message.offset() if error is None else error)

    producer = Producer({**site.kafka(tokens, 12.0), "error_cb": failed.append, "linger.ms": 0})
    until = time.monotonic() + 40
    while time.monotonic() < until:
        producer.produce(site.topic, b"x", on_delivery=delivered)
        producer.poll(0.05)
    assert producer.flush(30) == 0
    assert len(given) >= 3
    assert not failed
    assert len(acked) > 50


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_token_is_told_to_librdkafka(site: Site, what: str) -> None:
    told: list[KafkaError] = []
    producer = Producer({**site.kafka(WRONG[what]), "error_cb": told.append})
    while not told:
        producer.poll(1)
    assert told[0].code() == KafkaError._AUTHENTICATION


def _java(site: Site, directory: Path, given: str) -> str:
    """What Java's topic tool says when it logs in with a token from a file."""
    held = directory / "token"
    held.write_text(given)
    words = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": site.authority,
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": held.as_uri(),
        "sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
    }
    config = directory / "java.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in words.items()))
    command = java_command(
        "org.apache.kafka.tools.TopicCommand", "--list", "--bootstrap-server", site.address,
        "--command-config", str(config),
    )  # fmt: skip
    command.insert(1, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={held.as_uri()}")
    return run(command)


def test_a_token_lets_java_in(site: Site, tmp_path: Path) -> None:
    Producer(site.kafka(made)).list_topics(site.topic, timeout=30)  # it is there
    assert site.topic in _java(site, tmp_path, made())


@pytest.mark.soak
def test_a_wrong_token_is_told_to_java(site: Site, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="SaslAuthenticationException"):
        _java(site, tmp_path, WRONG["of another issuer"]())
