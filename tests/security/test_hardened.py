"""config/hardened.toml: a bridge starts with it, and a client does what it may and nothing else."""

from __future__ import annotations

import asyncio
import ssl
import struct
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from bridge.apis import metadata
from bridge.cli.users import add
from bridge.standalone.ports import HOST
from tests.apis.wire import ask_at
from tests.support.bridges import BridgeThread, settings_for
from tests.support.certificates import Authority
from tests.support.pulsar import PulsarAddress

_FILE = Path(__file__).parents[2] / "config" / "hardened.toml"
_TOKEN = "of-Prometheus"  # noqa: S105
_PASSWORDS = {"admin": "first", "alice": "second"}


class Site:
    """A bridge with the example's settings, but for addresses and files."""

    def __init__(self, address: str, authority: str, http: str) -> None:
        self.address, self.authority, self.http = address, authority, http

    def get(self, path: str, **headers: str) -> int:
        """The status of an answer of the operator's side."""
        context = ssl.create_default_context(cafile=self.authority)
        try:
            with urlopen(Request(self.http + path, headers=headers), timeout=30, context=context) as answer:  # noqa: S310
                return int(answer.status)
        except HTTPError as error:
            with error:
                return error.code

    def as_user(self, name: str, password: str = "") -> dict[str, Any]:
        """As librdkafka is told."""
        return {
            "bootstrap.servers": self.address, "security.protocol": "SASL_SSL", "ssl.ca.location": self.authority,
            "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": name, "sasl.password": password or _PASSWORDS[name],
        }  # fmt: skip


@pytest.fixture(scope="module")
def site(pulsar: PulsarAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("hardened")
    authority = Authority(directory)
    signed = authority.sign("server")
    example = tomllib.loads(_FILE.read_text())
    example["kafka"] |= {"listeners": f"SASL_SSL://{HOST}:0", "advertised_listeners": ""}
    example["listener"]["SASL_SSL"] |= {"ssl_certificate_file": signed.certificate, "ssl_key_file": signed.key}
    (directory / "metrics-token").write_text(f"{_TOKEN}\n")
    example["http"] |= {
        "listen": f"{HOST}:0", "ssl_certificate_file": signed.certificate, "ssl_key_file": signed.key,
        "token_file": str(directory / "metrics-token"),
    }  # fmt: skip
    del example["pulsar"]  # this test's Pulsar has neither TLS nor tokens
    base = settings_for(pulsar, pulsar.create_namespace(), {"kafka": {"listen": "127.0.0.1:9092"}})
    settings = base.with_values(**example)
    for name, password in _PASSWORDS.items():
        asyncio.run(add(settings, name, password, ("SCRAM-SHA-512",), 4096))
    running = BridgeThread(settings)
    running.start()
    address = f"{HOST}:{running.server.listeners.ports['SASL_SSL']}"
    yield Site(address, authority.file, f"https://{HOST}:{running.server.http_port}")
    running.stop()


def sent(site: Site, user: str, topic: str) -> KafkaError | None:
    """Why a record was not stored; None if it was."""
    told: list[KafkaError | None] = []
    producer = Producer({**site.as_user(user), "message.timeout.ms": 20_000})
    producer.produce(topic, b"x", on_delivery=lambda error, message: told.append(error))
    producer.flush(30)
    return told[0]


def test_a_client_does_what_an_entry_allows_and_nothing_else(site: Site) -> None:
    admin = AdminClient(site.as_user("admin"))
    for made in admin.create_topics([NewTopic("orders", 1), NewTopic("salaries", 1)]).values():
        made.result(30)
    denied = sent(site, "alice", "orders")
    assert denied is not None
    assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    entry = AclBinding(
        ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:alice", "*",
        AclOperation.WRITE, AclPermissionType.ALLOW,
    )  # fmt: skip
    for stored in admin.create_acls([entry]).values():
        stored.result(30)
    assert sent(site, "alice", "orders") is None
    alice = AdminClient(site.as_user("alice"))
    assert set(alice.list_topics(timeout=30).topics) == {"orders"}
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        for stored in alice.create_acls([entry]).values():
            stored.result(30)


def test_who_does_not_log_in_gets_nothing(site: Site) -> None:
    with pytest.raises((OSError, struct.error)):
        ask_at(site.address, metadata.API, metadata.Request(topics=None))


def test_metrics_are_for_those_with_the_token_and_probes_for_all(site: Site) -> None:
    assert [site.get(path) for path in ("/metrics", "/cluster", "/readyz", "/healthz")] == [401, 401, 200, 200]
    assert site.get("/metrics", Authorization="Bearer guessed") == 401
    assert [site.get(path, Authorization=f"Bearer {_TOKEN}") for path in ("/metrics", "/cluster")] == [200, 200]


def test_a_wrong_password_is_refused(site: Site) -> None:
    told: list[KafkaError] = []
    producer = Producer({**site.as_user("alice", "third"), "error_cb": told.append})
    while not told:
        producer.poll(1)
    assert told[0].code() == KafkaError._AUTHENTICATION


def test_the_example_has_settings_that_there_are() -> None:
    """Its files are not here: all else is read as it is."""
    example = tomllib.loads(_FILE.read_text())
    known = tomllib.loads((_FILE.parent / "bridge.toml").read_text())
    unknown = [
        f"{section}.{name}"
        for section, values in example.items()
        for name in values
        if section != "listener" and name not in known.get(section, {})
    ]
    assert not unknown
