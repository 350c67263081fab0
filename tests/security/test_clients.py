"""Real clients log in over every security protocol, and are told at once when the password is wrong; Kafka likewise.

Every client by every mechanism over TLS: `tests/clients/logins/`.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer

from bridge.access.password_file import line_of
from bridge.apis import metadata
from bridge.standalone.ports import HOST, any_free
from tests.apis.wire import ask_at
from tests.security.users import credential
from tests.support.bridges import BridgeThread, settings_for
from tests.support.certificates import Authority
from tests.support.java import run_tool
from tests.support.kafka_broker import KafkaBroker
from tests.support.pulsar import PulsarAddress

USER, PASSWORD, WRONG = "alice", "wonder land", "under land"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SCRAMS = MECHANISMS[1:]
_LOGINS = [("SASL_PLAINTEXT", mechanism) for mechanism in MECHANISMS]
_WAYS = [("PLAINTEXT", None), ("SSL", None), *_LOGINS]


@dataclass(frozen=True)
class Way:
    """How a client comes in."""

    address: str
    protocol: str
    mechanism: str | None
    authority: str
    password: str = PASSWORD

    @property
    def has_tls(self) -> bool:
        return "SSL" in self.protocol

    @property
    def python(self) -> dict[str, Any]:
        """As kafka-python and aiokafka are told."""
        login = {
            "sasl_mechanism": self.mechanism, "sasl_plain_username": USER, "sasl_plain_password": self.password,
        }  # fmt: skip
        context = ssl.create_default_context(cafile=self.authority) if self.has_tls else None
        return {
            "bootstrap_servers": self.address, "security_protocol": self.protocol, "ssl_context": context,
            **(login if self.mechanism else {}),
        }  # fmt: skip

    @property
    def kafka(self) -> dict[str, str]:
        """As librdkafka is told."""
        words = {"bootstrap.servers": self.address, "security.protocol": self.protocol}
        if self.has_tls:
            words["ssl.ca.location"] = self.authority
        if self.mechanism:
            words |= {"sasl.mechanism": self.mechanism, "sasl.username": USER, "sasl.password": self.password}
        return words

    def java(self, directory: Path) -> str:
        """A file as Java is told."""
        words = {"security.protocol": self.protocol}
        if self.has_tls:
            words |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.authority}
        if self.mechanism:
            module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
            words["sasl.mechanism"] = self.mechanism
            words["sasl.jaas.config"] = (
                f'org.apache.kafka.common.security.{module} required username="{USER}" password="{self.password}";'
            )
        path = directory / f"{uuid4().hex}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in words.items()))
        return str(path)


@dataclass
class Server:
    """The bridge, or a real Kafka, with a listener of each security protocol."""

    authority: str
    addresses: dict[str, str]
    is_bridge: bool
    topic: str = field(default_factory=lambda: f"t-{uuid4().hex[:8]}")

    def way(self, protocol: str, mechanism: str | None, password: str = PASSWORD) -> Way:
        return Way(self.addresses[protocol], protocol, mechanism, self.authority, password)


class _Kafka(KafkaBroker):
    """A real Kafka with the same listeners."""

    def __init__(self, *args: Any, addresses: dict[str, str], **options: Any) -> None:
        super().__init__(*args, **options)
        self._addresses = addresses

    def _properties(self, controller: int) -> str:
        listeners = ",".join(f"{name}://{address}" for name, address in self._addresses.items())
        mapped = ",".join(f"{name}:{name}" for name in self._addresses)
        self.kafka = self._addresses["PLAINTEXT"]
        return super()._properties(controller) + (
            f"listeners={listeners},CONTROLLER://127.0.0.1:{controller}\nadvertised.listeners={listeners}\n"
            f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,{mapped}\n"
        )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("security")


@pytest.fixture(scope="module")
def ours(pulsar: PulsarAddress, files: Path) -> Iterator[Server]:
    authority = Authority(files)
    signed = authority.sign("server")
    users = files / "users"
    users.write_text("".join(line_of(USER, credential(name, PASSWORD)) + "\n" for name in SCRAMS))
    tls = {"ssl_certificate_file": signed.certificate, "ssl_key_file": signed.key}
    base = settings_for(pulsar, pulsar.create_namespace(), {"kafka": {"listen": "127.0.0.1:9092"}})
    running = BridgeThread(
        base.with_values(
            kafka={
                "listeners": ",".join(f"{protocol}://{HOST}:0" for protocol in PROTOCOLS),
                "sasl_enabled_mechanisms": ",".join(MECHANISMS),
            },
            listener={"SSL": tls, "SASL_SSL": tls},
            security={"password_file": str(users)},
        )
    )
    running.start()
    ports = running.server.listeners.ports
    yield Server(authority.file, {protocol: f"{HOST}:{ports[protocol]}" for protocol in PROTOCOLS}, is_bridge=True)
    running.stop()


@pytest.fixture(scope="module")
def control(guard: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("control")
    authority = Authority(directory)
    signed = authority.sign("server")
    keystore = directory / "keystore.pem"
    keystore.write_text(Path(signed.key).read_text() + Path(signed.certificate).read_text())
    taken: set[int] = set()
    for _ in PROTOCOLS:
        taken.add(any_free(taken))
    addresses = {protocol: f"{HOST}:{port}" for protocol, port in zip(PROTOCOLS, taken, strict=True)}
    settings = {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
    }
    for protocol in ("sasl_plaintext", "sasl_ssl"):
        base = "org.apache.kafka.common.security"
        settings[f"listener.name.{protocol}.plain.sasl.jaas.config"] = (
            f'{base}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        )
        for scram in SCRAMS:
            settings[f"listener.name.{protocol}.{scram.lower()}.sasl.jaas.config"] = (
                f"{base}.scram.ScramLoginModule required;"
            )
    broker = _Kafka(directory, guard, settings=settings, addresses=addresses)
    broker.start()
    try:
        where = ("--bootstrap-server", broker.kafka, "--entity-type", "users", "--entity-name", USER)
        for scram in SCRAMS:  # Kafka takes one of a user at a time
            run_tool("kafka.admin.ConfigCommand", *where, "--alter", "--add-config", f"{scram}=[password={PASSWORD}]")
        yield Server(authority.file, addresses, is_bridge=False)
    finally:
        broker.stop()


@pytest.fixture(
    scope="module", params=["ours", pytest.param("control", marks=pytest.mark.soak)], ids=["bridge", "Kafka"]
)
def server(request: pytest.FixtureRequest) -> Server:
    made: Server = request.getfixturevalue(request.param)
    return made


# ---- the right password ----------------------------------------------------------------------------------------------


def _kafka_python(way: Way, topic: str, value: bytes, directory: Path) -> bool:
    producer = KafkaProducer(**way.python)
    sent = producer.send(topic, value).get(timeout=30)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=30_000, **way.python)
    found = next(record.value for record in consumer if record.offset == sent.offset)
    consumer.close()
    return bool(found == value)


def _confluent(way: Way, topic: str, value: bytes, directory: Path) -> bool:
    told: list[Any] = []
    producer = Producer(way.kafka)
    producer.produce(topic, value, on_delivery=lambda error, message: told.append(error or message.offset()))
    assert producer.flush(30) == 0
    consumer = Consumer({**way.kafka, "group.id": f"g-{uuid4().hex[:8]}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = None
    while found is None or found.offset() != told[0]:
        found = consumer.poll(30)
        assert found is not None and found.error() is None
    consumer.close()
    return bool(found.value() == value)


def _aiokafka(way: Way, topic: str, value: bytes, directory: Path) -> bool:
    async def run() -> bool:
        async with AIOKafkaProducer(**way.python) as producer:
            sent = await producer.send_and_wait(topic, value)
        async with AIOKafkaConsumer(**way.python) as consumer:
            at = TopicPartition(topic, sent.partition)
            consumer.assign([at])
            consumer.seek(at, sent.offset)
            return bool((await consumer.getone()).value == value)

    return asyncio.run(asyncio.wait_for(run(), 60))


def _java(way: Way, topic: str, value: bytes, directory: Path) -> bool:
    config = way.java(directory)
    where = ("--bootstrap-server", way.address, "--topic", topic)
    run_tool("org.apache.kafka.tools.ConsoleProducer", *where, "--producer.config", config, stdin=value + b"\n")
    options = ("--consumer.config", config, "--from-beginning", "--timeout-ms", "10000")
    said = run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *where, *options)
    return value.decode() in said.splitlines()


CLIENTS: dict[str, Callable[[Way, str, bytes, Path], bool]] = {
    "kafka-python": _kafka_python, "confluent-kafka": _confluent, "aiokafka": _aiokafka,
}  # fmt: skip


@pytest.mark.parametrize(("protocol", "mechanism"), _WAYS)
@pytest.mark.parametrize("client", CLIENTS)
def test_the_right_password_lets_a_client_in(
    server: Server, client: str, protocol: str, mechanism: str | None, tmp_path: Path
) -> None:
    value = f"{client} {protocol} {mechanism}".encode()
    assert CLIENTS[client](server.way(protocol, mechanism), server.topic, value, tmp_path)


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        pytest.param("SSL", None, marks=pytest.mark.soak),
        pytest.param("SASL_PLAINTEXT", "SCRAM-SHA-256", marks=pytest.mark.soak),
        ("SASL_SSL", "PLAIN"),
    ],
)
def test_it_lets_java_in(server: Server, protocol: str, mechanism: str | None, tmp_path: Path) -> None:
    """A JVM takes seconds to start, so these are not all."""
    assert _java(server.way(protocol, mechanism), server.topic, f"java {protocol}".encode(), tmp_path)


# ---- a wrong one -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("protocol", "mechanism"), _LOGINS)
def test_a_wrong_password_is_told_to_librdkafka(server: Server, protocol: str, mechanism: str) -> None:
    told: list[KafkaError] = []
    producer = Producer({**server.way(protocol, mechanism, WRONG).kafka, "error_cb": told.append})
    while not told:
        producer.poll(1)
    assert told[0].code() == KafkaError._AUTHENTICATION


@pytest.mark.parametrize(("protocol", "mechanism"), _LOGINS)
async def test_a_wrong_password_is_told_to_aiokafka(
    server: Server, protocol: str, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    producer = AIOKafkaProducer(**server.way(protocol, mechanism, WRONG).python)
    with pytest.raises(KafkaConnectionError):
        await producer.start()
    await producer.stop()
    assert "SaslAuthenticationFailed" in caplog.text


_KAFKA_PYTHON = """
import logging, ssl, sys
from kafka import KafkaProducer
logging.basicConfig()
address, protocol, mechanism, authority, user, password = sys.argv[1:]
context = ssl.create_default_context(cafile=authority) if protocol == "SASL_SSL" else None
KafkaProducer(
    bootstrap_servers=address, security_protocol=protocol, ssl_context=context, sasl_mechanism=mechanism,
    sasl_plain_username=user, sasl_plain_password=password, bootstrap_timeout_ms=1000,
)
"""
"""In a process of its own, for it leaves its sockets open."""


@pytest.mark.parametrize(("protocol", "mechanism"), [("SASL_PLAINTEXT", "PLAIN")])
def test_a_wrong_password_is_told_to_kafka_python(server: Server, protocol: str, mechanism: str) -> None:
    way = server.way(protocol, mechanism, WRONG)
    words = (way.address, protocol, mechanism, way.authority, USER, WRONG)
    done = subprocess.run([sys.executable, "-c", _KAFKA_PYTHON, *words], capture_output=True, text=True, timeout=120)
    assert "KafkaTimeoutError: Unable to bootstrap" in done.stderr, "it does not give up by itself"
    if server.is_bridge:  # Kafka's answer comes together with the end, and kafka-python 3.0 drops it then
        assert "SaslAuthenticationFailedError" in done.stderr


@pytest.mark.parametrize(("protocol", "mechanism"), [("SASL_PLAINTEXT", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-512")])
def test_a_wrong_password_is_told_to_java(server: Server, protocol: str, mechanism: str, tmp_path: Path) -> None:
    way = server.way(protocol, mechanism, WRONG)
    with pytest.raises(AssertionError, match="SaslAuthenticationException"):
        run_tool(
            "org.apache.kafka.tools.TopicCommand", "--list", "--bootstrap-server", way.address,
            "--command-config", way.java(tmp_path),
        )  # fmt: skip


def test_who_does_not_log_in_gets_nothing(server: Server) -> None:
    with pytest.raises((OSError, Exception)):
        ask_at(server.addresses["SASL_PLAINTEXT"], metadata.API, metadata.Request(topics=None))


def test_a_client_that_trusts_another_authority_stays_away(server: Server, tmp_path: Path) -> None:
    way = server.way("SSL", None)
    words = {**way.kafka, "ssl.ca.location": Authority(tmp_path).file, "group.id": "g"}
    consumer = Consumer(words)
    with pytest.raises(KafkaException):
        consumer.list_topics(timeout=3)
    consumer.close()
