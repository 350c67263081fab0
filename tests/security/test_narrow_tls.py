"""Real clients on a bridge with a key store, one version of TLS and one suite, withdrawn certificates, two issuers."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from bridge.standalone.ports import HOST
from tests.security.issuer import CLAIMS, key_set, public_jwk, token
from tests.support.bridges import BridgeThread, settings_for
from tests.support.certificates import COMMON_NAME, Authority, CertificateFiles
from tests.support.java import run_tool
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import until

PASSWORD = "of the store"  # noqa: S105
SUITE = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


class Site:
    """The bridge, and what its clients have."""

    def __init__(self, running: BridgeThread, authority: Authority, directory: Path) -> None:
        self.running, self.authority, self.directory = running, authority, directory
        self.addresses = {name: f"{HOST}:{port}" for name, port in running.server.listeners.ports.items()}

    def by_certificate(self, files: CertificateFiles) -> dict[str, Any]:
        """As librdkafka is told."""
        return {
            "bootstrap.servers": self.addresses["SSL"], "security.protocol": "SSL",
            "ssl.ca.location": self.authority.file, "ssl.certificate.location": files.certificate,
            "ssl.key.location": files.key,
        }  # fmt: skip

    def java(self, files: CertificateFiles, versions: str) -> str:
        """A file of settings for Kafka's tools."""
        store = self.directory / "client.pem"
        store.write_text(Path(files.key).read_text() + Path(files.certificate).read_text())
        path = self.directory / "client.properties"
        path.write_text(
            f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={self.authority.file}\n"
            f"ssl.keystore.type=PEM\nssl.keystore.location={store}\nssl.enabled.protocols={versions}\n"
            f"ssl.protocol={versions}\n"
        )
        return str(path)


@pytest.fixture(scope="module")
def site(pulsar: PulsarAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("narrow")
    authority = Authority(directory)
    signed = authority.sign("server")
    keystore, password = directory / "server.p12", directory / "password"
    subprocess.run(
        [
            "openssl", "pkcs12", "-export", "-inkey", signed.key, "-in", signed.certificate, "-out", keystore,
            "-passout", f"pass:{PASSWORD}",
        ],
        check=True,
    )  # fmt: skip
    password.write_text(PASSWORD)
    for number, name in enumerate(("own", "partner")):
        (directory / name).write_bytes(key_set(public_jwk("RS256", number, kid="one")))
    tls = {
        "ssl_keystore_file": str(keystore), "ssl_key_password_file": str(password), "ssl_enabled_protocols": "TLSv1.2",
        "ssl_cipher_suites": SUITE,
    }  # fmt: skip
    clients = {
        "ssl_client_auth": "required", "ssl_client_ca_file": authority.file,
        "ssl_client_crl_file": authority.withdraw(),
    }  # fmt: skip
    issuers = (
        f"https://issuer  jwks={directory}/own      audience=bridge\n"
        f"https://partner jwks={directory}/partner  audience=bridge  prefix=partner-\n"
    )
    settings = settings_for(pulsar, pulsar.create_namespace(), {"kafka": {"listen": "127.0.0.1:9092"}}).with_values(
        kafka={"listeners": f"SSL://{HOST}:0,SASL_SSL://{HOST}:0", "sasl_enabled_mechanisms": "OAUTHBEARER"},
        listener={"SSL": {**tls, **clients}, "SASL_SSL": tls},
        security={"oauthbearer_issuers": issuers},
    )
    running = BridgeThread(settings)
    running.start()
    yield Site(running, authority, directory)
    running.stop()


def stored(settings: dict[str, Any]) -> KafkaError | None:
    """The first error that a producer tells of; None if its record is stored before any."""
    told: list[KafkaError | None] = []
    producer = Producer({**settings, "message.timeout.ms": 20_000, "error_cb": told.append})
    producer.produce("narrow", b"x", on_delivery=lambda error, message: told.append(error))
    while not told:
        producer.poll(0.1)
    producer.purge()
    return told[0]


def test_librdkafka_is_let_in_until_its_certificate_is_withdrawn(site: Site) -> None:
    alice, bob = (site.authority.sign(name, {COMMON_NAME: name}) for name in ("alice", "bob"))
    assert stored(site.by_certificate(alice)) is None
    tls = site.running.server.metrics.tls
    before = tls.reloads.value
    site.authority.withdraw(alice)
    asyncio.run(until(lambda: tls.reloads.value > before))
    refused = stored(site.by_certificate(alice))
    assert refused is not None and refused.code() in (KafkaError._SSL, KafkaError._TRANSPORT)
    assert stored(site.by_certificate(bob)) is None


def test_java_gets_the_version_that_is_enabled_and_no_other(site: Site) -> None:
    carol = site.authority.sign("carol", {COMMON_NAME: "carol"})
    tool = "org.apache.kafka.tools.TopicCommand"
    where = ("--bootstrap-server", site.addresses["SSL"], "--list", "--command-config")
    run_tool(tool, *where, site.java(carol, "TLSv1.2"))
    with pytest.raises(AssertionError, match=r"SslAuthenticationException|protocol_version|handshake"):
        run_tool(tool, *where, site.java(carol, "TLSv1.3"))


@pytest.mark.parametrize(
    ("suites", "gets_in"), [("ECDHE-ECDSA-AES128-GCM-SHA256", True), ("ECDHE-ECDSA-AES256-GCM-SHA384", False)]
)
def test_a_suite_that_is_not_chosen_is_not_spoken(site: Site, suites: str, gets_in: bool) -> None:
    dave = site.authority.sign("dave", {COMMON_NAME: "dave"})
    error = stored({**site.by_certificate(dave), "ssl.cipher.suites": suites})
    assert (error is None) is gets_in


@pytest.mark.parametrize(
    ("number", "issuer", "gets_in"),
    [(0, "https://issuer", True), (1, "https://partner", True), (1, "https://issuer", False)],
)
def test_tokens_of_both_issuers_let_in_each_by_its_own_keys(
    site: Site, number: int, issuer: str, gets_in: bool
) -> None:
    now = time.time()
    given = token({**CLAIMS, "iss": issuer, "iat": now - 1, "exp": now + 60}, "RS256", number, kid="one")
    error = stored(
        {
            "bootstrap.servers": site.addresses["SASL_SSL"], "security.protocol": "SASL_SSL",
            "ssl.ca.location": site.authority.file, "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda config: (given, now + 60),
        }
    )  # fmt: skip
    assert (error is None) is gets_in
