"""Real clients that may not: each is told at once by its own exception, and goes on when it may. Kafka likewise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import GroupAuthorizationFailedError as AioGroupError
from aiokafka.errors import TopicAuthorizationFailedError as AioTopicError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

from bridge.node.orphans import Guard
from bridge.security.acls import Operation, PatternType, ResourceType
from tests.apis.wire import unique
from tests.authorization.login import PASSWORD, LoggedIn
from tests.authorization.rights import SUPER, Entry, Right
from tests.authorization.servers import PROTOCOL, bridge, real_kafka
from tests.authorization.world import World
from tests.clients.model import attempts

READ, WRITE, ALL = Operation.READ, Operation.WRITE, Operation.ALL
FAMILIES = ("kafka-python", "confluent-kafka", "aiokafka")
SECONDS = 20.0
USERS = [Right(SUPER), *(Right(f"{family}-{what}") for family in FAMILIES for what in ("writer", "reader", "member"))]


@dataclass
class Server:
    """The bridge, or a real Kafka, where none of the users may do anything."""

    address: str
    world: World

    def login(self, user: str) -> dict[str, Any]:
        """As kafka-python and aiokafka are told."""
        return {
            "bootstrap_servers": self.address, "security_protocol": PROTOCOL, "sasl_mechanism": "PLAIN",
            "sasl_plain_username": user, "sasl_plain_password": PASSWORD,
        }  # fmt: skip

    def librdkafka(self, user: str) -> dict[str, Any]:
        """As librdkafka is told."""
        return {
            "bootstrap.servers": self.address, "security.protocol": PROTOCOL, "sasl.mechanism": "PLAIN",
            "sasl.username": user, "sasl.password": PASSWORD,
        }  # fmt: skip

    def topic(self) -> str:
        """A new topic with a record."""
        name = unique("denied")
        self.world.create(name, name)
        return name

    def grant(self, user: str, operation: Operation, topic: str, group: str = "") -> None:
        """Allow it."""
        entries = [Entry(ResourceType.TOPIC, operation, name=topic, pattern=PatternType.LITERAL)]
        if group:
            entries.append(Entry(ResourceType.GROUP, operation, name=group, pattern=PatternType.LITERAL))
        self.world.grant([Right(user, entries)])


@pytest.fixture(
    scope="module", params=["pulsar", pytest.param("new_kafka", marks=pytest.mark.soak)], ids=["bridge", "control"]
)
def server(request: pytest.FixtureRequest, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if request.param == "pulsar":
        running: Any = bridge(request.getfixturevalue("pulsar"), USERS)
    else:
        running = real_kafka(tmp_path_factory.mktemp("kafka"), guard, USERS)
    with running as address:
        admin = LoggedIn(address, SUPER)
        yield Server(address, World(admin))
        admin.close()


def _until(what: str, attempt: Callable[[], Any], denied: type[Exception] | tuple[type[Exception], ...]) -> Any:
    """What the same client gets when it may: other nodes learn of it within a second."""
    for _ in attempts(what):
        try:
            return attempt()
        except denied:
            continue


# ---- who may not write -----------------------------------------------------------------------------------------------


def test_kafka_python_is_told_that_it_may_not_write(server: Server) -> None:
    topic, user = server.topic(), "kafka-python-writer"
    # who may not have a producer id has to be made again
    producer = KafkaProducer(**server.login(user), max_block_ms=SECONDS * 1000, enable_idempotence=False)

    def send() -> int:
        return int(producer.send(topic, b"x").get(timeout=SECONDS).offset)

    with closing(producer):
        with pytest.raises(TopicAuthorizationFailedError):
            send()
        server.grant(user, WRITE, topic)
        assert _until("a right", send, TopicAuthorizationFailedError) == 1


def test_librdkafka_is_told_that_it_may_not_write(server: Server) -> None:
    topic, user = server.topic(), "confluent-kafka-writer"
    producer = Producer(server.librdkafka(user))
    told: list[Any] = []

    def send() -> Any:
        producer.produce(topic, b"x", on_delivery=lambda error, message: told.append(error or message.offset()))
        assert producer.flush(SECONDS) == 0
        if isinstance(told[-1], KafkaError):
            raise KafkaException(told[-1])
        return told[-1]

    with pytest.raises(KafkaException) as failed:
        send()
    assert failed.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    server.grant(user, WRITE, topic)
    assert _until("a right", send, KafkaException) == 1


async def test_aiokafka_is_told_that_it_may_not_write(server: Server) -> None:
    topic, user = server.topic(), "aiokafka-writer"
    async with AIOKafkaProducer(**server.login(user)) as producer:
        with pytest.raises(AioTopicError):
            await asyncio.wait_for(producer.send_and_wait(topic, b"x"), SECONDS)
        server.grant(user, WRITE, topic)
        for _ in attempts("a right"):
            try:
                sent = await asyncio.wait_for(producer.send_and_wait(topic, b"x"), SECONDS)
                break
            except AioTopicError:
                continue
        assert sent.offset == 1


# ---- who may not read ------------------------------------------------------------------------------------------------


def test_kafka_python_is_told_that_it_may_not_read(server: Server) -> None:
    topic, group = server.topic(), unique("group")
    consumer = KafkaConsumer(topic, group_id=group, auto_offset_reset="earliest", **server.login("kafka-python-reader"))

    def poll() -> bytes:
        for _ in attempts("a record"):
            for records in consumer.poll(1000).values():
                return bytes(records[0].value)
        raise AssertionError

    denied = (TopicAuthorizationFailedError, GroupAuthorizationFailedError)
    with closing(consumer):
        with pytest.raises(denied):
            poll()
        server.grant("kafka-python-reader", READ, topic, group)
        assert _until("a right", poll, denied) == b"v"


def _polled(consumer: Consumer) -> bytes:
    for _ in attempts("a record"):
        message = consumer.poll(1)
        if message is not None and message.error():
            raise KafkaException(message.error())
        if message is not None:
            return bytes(message.value())
    raise AssertionError


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_is_told_that_it_may_not_read(server: Server, protocol: str) -> None:
    topic, group = server.topic(), unique("group")
    user = "confluent-kafka-" + {"classic": "reader", "consumer": "member"}[protocol]
    told = {"group.id": group, "auto.offset.reset": "earliest", "group.protocol": protocol}
    consumer = Consumer({**server.librdkafka(user), **told})
    consumer.subscribe([topic])
    with pytest.raises(KafkaException) as failed:
        _polled(consumer)
    assert failed.value.args[0].code() in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED,
    )  # fmt: skip
    server.grant(user, READ, topic, group)
    if protocol == "consumer":  # librdkafka takes the group's error for a fatal one there
        consumer.close()
        consumer = Consumer({**server.librdkafka(user), **told})
        consumer.subscribe([topic])
    assert _until("a right", lambda: _polled(consumer), KafkaException) == b"v"
    consumer.close()


async def test_aiokafka_is_told_that_it_may_not_read(server: Server) -> None:
    topic, group = server.topic(), unique("group")
    login = server.login("aiokafka-reader")
    consumer = AIOKafkaConsumer(topic, group_id=group, auto_offset_reset="earliest", **login)
    denied = (AioTopicError, AioGroupError)
    with pytest.raises(denied):
        await asyncio.wait_for(consumer.start(), SECONDS)
        await asyncio.wait_for(consumer.getone(), SECONDS)
    await consumer.stop()
    server.grant("aiokafka-reader", READ, topic, group)
    for _ in attempts("a right"):
        consumer = AIOKafkaConsumer(topic, group_id=group, auto_offset_reset="earliest", **login)
        try:
            await asyncio.wait_for(consumer.start(), SECONDS)
            found = await asyncio.wait_for(consumer.getone(), SECONDS)
            break
        except denied:
            continue
        finally:
            await consumer.stop()
    assert found.value == b"v"
