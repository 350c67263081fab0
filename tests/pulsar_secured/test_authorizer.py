"""`kafka.authorizer = "pulsar"` with real clients: what their roles may in Pulsar, they may here."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import kafka.errors
import pytest
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.cli import users
from bridge.telemetry.exposition import Exposition
from tests.pulsar_secured.conftest import ROLE, Start
from tests.support.bridges import BridgeThread
from tests.support.java import run_tool
from tests.support.secured_pulsar import PROXY, SecuredPulsar

TOPICS = ("orders", "other")


class Scene:
    """A bridge, two topics, and clients that log in with tokens of their roles."""

    def __init__(self, secured: SecuredPulsar, bridge: BridgeThread) -> None:
        self.secured = secured
        self.bridge = bridge
        self.namespace = bridge.namespace
        self.errors: list[object] = []
        admin = self.admin(ROLE)
        created = admin.create_topics([NewTopic(name, 2, 1) for name in TOPICS])
        for future in created.values():
            future.result(30)

    def settings(self, role: str, **more: object) -> dict[str, object]:
        return {
            "bootstrap.servers": self.bridge.kafka, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
            "sasl.username": role, "sasl.password": f"token:{self.secured.token(role)}", "log_level": 0, **more,
        }  # fmt: skip

    def admin(self, role: str) -> AdminClient:
        return AdminClient(self.settings(role))

    def topics(self, role: str) -> list[str]:
        """Those that are listed for this role."""
        admin = self.admin(role)
        return sorted(admin.list_topics(timeout=30).topics)

    def produce(self, role: str, topic: str = "orders", value: bytes = b"v") -> int:
        """The error of one record; 0: it is stored."""
        producer = confluent_kafka.Producer(self.settings(role))
        outcome: list[int] = []
        producer.produce(topic, value, on_delivery=lambda error, _: outcome.append(error.code() if error else 0))
        assert producer.flush(30) == 0
        return outcome[0]

    def consume(self, role: str, topic: str = "orders", group: str = "g") -> bytes | int:
        """The first record, or the error that comes instead."""
        settings = self.settings(role, **{"group.id": group, "auto.offset.reset": "earliest"})
        consumer = confluent_kafka.Consumer(settings)
        consumer.subscribe([topic])
        try:
            for _ in range(60):
                message = consumer.poll(0.5)
                if message is not None:
                    error = message.error()
                    return bytes(message.value()) if error is None else int(error.code())
        finally:
            consumer.close()
        raise AssertionError("neither a record nor an error")


@pytest.fixture
def scene(secured: SecuredPulsar, start_bridge: Start) -> Scene:
    return Scene(secured, start_bridge(**sections(secured)))


def sections(secured: SecuredPulsar, **pulsar: str) -> dict[str, dict[str, object]]:
    return {
        "kafka": {
            "listen": "127.0.0.1:9092", "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256", "authorizer": "pulsar",
        },
        "pulsar": {"token": secured.token(ROLE), **pulsar},
    }  # fmt: skip


DENIED = ClientError.TOPIC_AUTHORIZATION_FAILED


def test_a_role_that_may_only_produce(scene: Scene) -> None:
    scene.secured.grant(scene.namespace, "producer", ["produce"])
    assert scene.produce("producer") == 0
    assert scene.consume("producer") in (DENIED, ClientError.GROUP_AUTHORIZATION_FAILED)
    assert scene.topics("producer") == list(TOPICS)


def test_a_role_that_may_only_consume(scene: Scene) -> None:
    scene.secured.grant(scene.namespace, "consumer", ["consume"])
    assert scene.produce(ROLE, value=b"first") == 0
    assert scene.consume("consumer") == b"first"
    assert scene.produce("consumer") == DENIED
    assert scene.topics("consumer") == list(TOPICS)


def test_a_role_that_may_do_nothing(scene: Scene) -> None:
    assert scene.topics("stranger") == []
    assert scene.produce("stranger") == DENIED
    assert scene.consume("stranger") in (DENIED, ClientError.GROUP_AUTHORIZATION_FAILED)
    stranger = scene.admin("stranger")
    (created,) = stranger.create_topics([NewTopic("mine", 1, 1)]).values()
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        created.result(30)
    assert caught.value.args[0].code() == DENIED
    (deleted,) = stranger.delete_topics(["orders"]).values()
    with pytest.raises(confluent_kafka.KafkaException):
        deleted.result(30)
    assert scene.topics(ROLE) == list(TOPICS)


def test_a_role_that_may_use_one_topic(scene: Scene) -> None:
    scene.secured.grant(f"{scene.namespace}/orders", "one", ["produce", "consume"])
    assert scene.topics("one") == ["orders"]
    assert scene.produce("one", value=b"mine") == 0
    assert scene.consume("one") == b"mine"
    assert scene.produce("one", "other") == DENIED
    assert scene.consume("one", "other") == DENIED


@pytest.mark.parametrize("action", ["produce", "consume"])
def test_a_right_that_is_revoked_ends_while_the_client_is_connected(scene: Scene, action: str) -> None:
    scene.secured.grant(scene.namespace, "alice", [action])
    ended = (produced if action == "produce" else consumed)(scene)
    first = next(ended)
    assert first == 0
    scene.secured.revoke(scene.namespace, "alice")
    revoked = time.monotonic()
    code = next(code for code in ended if code)
    assert code == DENIED
    assert time.monotonic() - revoked < 40  # no bound of its own: the test shall end


def test_kafka_python_is_told_the_same(scene: Scene) -> None:
    scene.secured.grant(scene.namespace, "producer", ["produce"])
    scene.secured.grant(scene.namespace, "consumer", ["consume"])

    def login(role: str) -> dict[str, Any]:
        return {
            "bootstrap_servers": scene.bridge.kafka, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN",
            "sasl_plain_username": scene.namespace, "sasl_plain_password": f"token:{scene.secured.token(role)}",
        }  # fmt: skip

    producer = kafka.KafkaProducer(**login("producer"))
    assert producer.send("orders", b"v", partition=0).get(30).offset == 0
    producer.close()
    consumer = kafka.KafkaConsumer("orders", group_id="k", auto_offset_reset="earliest", **login("consumer"))
    assert next(consumer).value == b"v"
    assert consumer.topics() == set(TOPICS)
    consumer.close()
    with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
        kafka.KafkaProducer(**login("consumer")).send("orders", b"v", partition=0).get(30)
    consumer = kafka.KafkaConsumer("orders", group_id="k", auto_offset_reset="earliest", **login("producer"))
    with pytest.raises(kafka.errors.GroupAuthorizationFailedError):
        for _ in range(60):
            consumer.poll(500)
    consumer.close()
    consumer = kafka.KafkaConsumer(group_id=None, **login("stranger"))
    assert consumer.topics() == set()
    consumer.close()


def test_java_is_told_the_same(scene: Scene, tmp_path: Path) -> None:
    scene.secured.grant(scene.namespace, "producer", ["produce"])

    def config(role: str) -> str:
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        token = scene.secured.token(role)
        file = tmp_path / f"{role}.properties"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={module} required username="{role}" password="token:{token}";\n'
        )
        return str(file)

    def tool(name: str, role: str, option: str, *arguments: str, stdin: bytes = b"") -> str:
        server = ("--bootstrap-server", scene.bridge.kafka)
        return run_tool(f"org.apache.kafka.tools.{name}", *server, option, config(role), *arguments, stdin=stdin)

    lines = tool("TopicCommand", "producer", "--command-config", "--list").split()
    assert lines == list(TOPICS)
    assert tool("TopicCommand", "stranger", "--command-config", "--list").split() == []
    tool("ConsoleProducer", "producer", "--producer.config", "--topic", "orders", stdin=b"one\n")
    assert scene.consume(ROLE, group="java") == b"one"
    with pytest.raises(AssertionError, match=r"TopicAuthorizationException|Not authorized to access topics"):
        tool("TopicCommand", "producer", "--command-config", "--delete", "--topic", "orders")
    assert scene.topics(ROLE) == list(TOPICS)


def test_a_token_of_oauthbearer_is_passed_through(secured: SecuredPulsar, start_bridge: Start, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(secured.key_set())
    wanted = sections(secured)
    wanted["kafka"]["sasl_enabled_mechanisms"] = "PLAIN,OAUTHBEARER"
    wanted["security"] = {"oauthbearer_jwks_file": str(keys), "oauthbearer_expected_audience": "bridge"}
    scene = Scene(secured, start_bridge(**wanted))
    secured.grant(scene.namespace, "alice", ["produce"])
    end = time.time() + 600
    claims = {"aud": "bridge", "iat": time.time() - 1}

    def login(role: str, **more: object) -> dict[str, object]:
        return {
            "bootstrap.servers": scene.bridge.kafka, "security.protocol": "SASL_PLAINTEXT", "log_level": 0,
            "sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: (secured.token(role, 600, **claims), end), **more,
        }  # fmt: skip

    scene.settings = login  # type: ignore[method-assign]
    assert scene.produce("alice") == 0
    assert scene.produce("stranger") == DENIED


def test_a_session_ends_with_its_token(scene: Scene) -> None:
    scene.secured.grant(scene.namespace, "alice", ["produce"])
    assert scene.produce("alice") == 0  # the topic is open before the token's few seconds begin
    settings = scene.settings("alice") | {"sasl.password": f"token:{scene.secured.token('alice', 6)}"}
    producer = confluent_kafka.Producer(settings | {"message.timeout.ms": 4000})
    outcome: list[int] = []

    def send() -> int:
        producer.produce("orders", b"v", on_delivery=lambda error, _: outcome.append(error.code() if error else 0))
        producer.flush(30)
        return outcome[-1]

    started = time.monotonic()
    assert send() == 0
    while send() == 0:
        assert time.monotonic() - started < 60
    assert outcome[-1] in (
        ClientError._MSG_TIMED_OUT,
        ClientError.SASL_AUTHENTICATION_FAILED,
        ClientError._AUTHENTICATION,
    )


def test_no_token_is_told(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the bridge's nor its clients': not by logs, metrics, or what is shown of objects."""
    caplog.set_level(logging.DEBUG)
    scene.secured.grant(scene.namespace, "alice", ["produce"])
    secrets = [scene.bridge.settings.pulsar.token, scene.secured.token("alice"), scene.secured.token("stranger")]
    assert scene.produce("alice") == 0
    assert scene.produce("stranger") == DENIED
    wrong = confluent_kafka.Producer(scene.settings("bob", **{"sasl.password": "token:" + secrets[1]}))
    wrong.poll(1)
    shown = "\n".join(str(vars(record)) for record in caplog.records)
    shown += Exposition(scene.bridge.server.metrics.families).render(open_metrics=False)[0].decode() + repr(
        scene.bridge.settings
    )
    assert "denied" in shown
    for secret in secrets:
        assert secret not in shown
        assert secret.rpartition(".")[2] not in shown


def produced(scene: Scene) -> Iterator[int]:
    producer = confluent_kafka.Producer(scene.settings("alice"))
    outcome: list[int] = []
    while True:
        producer.produce("orders", b"v", on_delivery=lambda error, _: outcome.append(error.code() if error else 0))
        producer.flush(30)
        yield outcome[-1]


def consumed(scene: Scene) -> Iterator[int]:
    settings = scene.settings("alice", **{"group.id": "g", "auto.offset.reset": "earliest"})
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe(["orders"])
    try:
        while True:
            scene.produce(ROLE)
            message = consumer.poll(1.0)
            if message is not None:
                error = message.error()
                yield 0 if error is None else error.code()
    finally:
        consumer.close()


def test_users_of_kafkas_own_are_asked_about_by_a_proxy_role(
    secured: SecuredPulsar, start_bridge: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("proxy") / "token"
    file.write_text(secured.token(PROXY))
    bridge = start_bridge(**sections(secured, proxy_token_file=str(file)))
    scene = Scene(secured, bridge)
    asyncio.run(users.add(bridge.settings, "alice", "alice's words", (), 4096))
    secured.grant(bridge.namespace, PROXY, ["produce", "consume"])
    secured.grant(bridge.namespace, "alice", ["produce"])
    scram = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.password": "alice's words"}
    settings: Callable[..., dict[str, object]] = scene.settings
    scene.settings = lambda role, **more: settings(role, **more) | (scram if role == "alice" else {})  # type: ignore[method-assign]
    assert scene.produce("alice") == 0
    assert scene.consume("alice") in (DENIED, ClientError.GROUP_AUTHORIZATION_FAILED)
