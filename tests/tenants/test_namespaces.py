"""Tenants on a real Pulsar: real clients with the same names in two namespaces, and what leads nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition

from bridge.apis import describe_user_scram_credentials, list_groups, metadata
from bridge.kafka.error_codes import ErrorCode
from tests.support.bridges import BridgeThread
from tests.support.java import run_tool
from tests.support.pulsar import PulsarAddress
from tests.tenants.world import World, world_of

TOPIC, GROUP = "orders", "readers"


@pytest.fixture(scope="module")
def world(pulsar: PulsarAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_of(pulsar, tmp_path_factory.mktemp("tenants")) as made:
        yield made


def _produced(words: dict[str, Any], value: str) -> None:
    told: list[Any] = []
    producer = Producer(words)
    producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, _: told.append(error))
    assert producer.flush(30) == 0 and told == [None]


def _read(words: dict[str, Any], group: str, count: int) -> list[str]:
    """Read from the committed offset on, and commit."""
    consumer = Consumer({**words, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([TOPIC])
    found: list[str] = []
    while len(found) < count:
        record = consumer.poll(30)
        assert record is not None and record.error() is None
        value = record.value()
        found.append(value.decode() if isinstance(value, bytes) else str(value))
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def _committed(words: dict[str, Any], group: str) -> int:
    consumer = Consumer({**words, "group.id": group})
    (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=30)
    consumer.close()
    return int(found.offset)


def test_librdkafka_s_clients_of_two_tenants_have_the_same_names_for_different_things(world: World) -> None:
    acme, beta = world.kafka("acme-1"), world.kafka("beta-1", mechanism="PLAIN")
    admins = [AdminClient(words) for words in (acme, beta)]
    for admin, partitions in zip(admins, (1, 3), strict=True):
        admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result(30)
    for number in range(3):
        _produced(acme, f"acme {number}")
    _produced(beta, "beta 0")
    assert _read(acme, GROUP, 3) == ["acme 0", "acme 1", "acme 2"]
    assert _read(beta, GROUP, 1) == ["beta 0"]
    assert [_committed(words, GROUP) for words in (acme, world.kafka("acme-2"), beta)] == [3, 3, 1]
    listed = admins[1].list_topics(timeout=30).topics
    assert {name: len(topic.partitions) for name, topic in listed.items()} == {TOPIC: 3}
    admins[1].delete_topics([TOPIC])[TOPIC].result(30)
    assert _read(acme, "others", 3)[-1] == "acme 2"
    names = {name.rpartition("/")[2] for name in world.topics(world.beta)}
    assert not {name for name in names if not name.startswith("__")}
    assert f"persistent://{world.acme}/{TOPIC}-partition-0" in world.topics(world.acme)
    assert not {name for name in world.topics(world.own) if TOPIC in name}


def test_kafka_python_s_clients_of_two_tenants_read_their_own(world: World) -> None:
    for user in ("acme-1", "beta-1"):
        producer = KafkaProducer(**world.python(user))
        producer.send("python", user.encode()).get(timeout=30)
        producer.close()
    for user in ("acme-1", "beta-1"):
        consumer = KafkaConsumer(
            group_id="python", auto_offset_reset="earliest", consumer_timeout_ms=30_000, **world.python(user)
        )
        consumer.subscribe(["python"])
        assert next(consumer).value == user.encode()
        consumer.commit()
        assert consumer.committed(PythonPartition("python", 0)) == 1
        assert "python" in consumer.topics()
        consumer.close()


def test_java_s_clients_of_two_tenants_read_their_own(world: World) -> None:
    where = ("--bootstrap-server", world.address(), "--topic", "java")
    for user in ("acme-1", "beta-1"):
        run_tool(
            "org.apache.kafka.tools.ConsoleProducer", *where, "--producer.config", world.java(user),
            stdin=f"of {user}\n".encode(),
        )  # fmt: skip
    for user in ("acme-1", "beta-1"):
        said = run_tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer", *where, "--consumer.config", world.java(user),
            "--from-beginning", "--group", "java", "--max-messages", "1", "--timeout-ms", "20000",
        )  # fmt: skip
        assert said.split("\n")[0] == f"of {user}"
    listed = run_tool(
        "org.apache.kafka.tools.TopicCommand", "--list", "--bootstrap-server", world.address(),
        "--command-config", world.java("beta-1"),
    )  # fmt: skip
    assert "java" in listed.splitlines()


def test_a_tenant_that_has_all_its_transactions_leaves_others_theirs(world: World) -> None:
    def begun(user: str, number: int, seconds: float = 30) -> Producer:
        producer = Producer({**world.kafka(user), "transactional.id": f"id-{number}"})
        producer.init_transactions(seconds)
        producer.begin_transaction()
        producer.produce("limited", b"x", partition=0)
        return producer

    first = begun("acme-1", 0)
    assert first.flush(30) == 0
    second = begun("acme-1", 1)
    assert second.flush(1) == 1
    with pytest.raises(KafkaException) as too_many:
        begun("acme-2", 2, 3)
    assert too_many.value.args[0].code() == KafkaError.POLICY_VIOLATION
    others = [begun("beta-1", number) for number in range(3)]
    assert [other.flush(30) for other in others] == [0, 0, 0]
    for producer in (first, second, *others):
        producer.commit_transaction(30)


def test_a_user_name_of_kop_s_form_is_a_namespace(world: World) -> None:
    """`tenant/namespace` as the user name, where a rule says so."""
    _produced(world.kafka("beta-1"), "from beta")
    assert "from beta" in _read(world.kafka(world.beta), "kop", 1)


def test_a_listener_s_clients_work_in_its_namespace(world: World) -> None:
    words = {"bootstrap.servers": world.address("GAMMA"), "client.id": "lab-1"}
    _produced(words, "gamma")
    assert f"persistent://{world.gamma}/{TOPIC}-partition-0" in world.topics(world.gamma)
    assert _read(words, GROUP, 1) == ["gamma"]


def test_a_client_id_leads_where_no_one_has_to_prove_anything(world: World) -> None:
    words = {"bootstrap.servers": world.address("OPEN")}
    _produced({**words, "client.id": "lab-7"}, "lab")
    assert _read({**words, "client.id": "lab-8"}, GROUP, 1) == ["lab"]
    assert f"persistent://{world.lab}/{TOPIC}-partition-0" in world.topics(world.lab)
    with pytest.raises(KafkaException):
        AdminClient({**words, "client.id": "other"}).list_topics(timeout=3)
    assert world.nodes[0].server.metrics.refusals["no_namespace"].value >= 1


@pytest.mark.parametrize("user", ["stranger", "public/..", "own"])
def test_a_user_without_a_namespace_cannot_log_in(world: World, user: str) -> None:
    """`own`: a name that would lead to the bridge's own namespace, where the users of all are administered."""
    name = world.own if user == "own" else user
    with pytest.raises(PermissionError, match="58: Authentication failed"):
        world.connect(name)
    told: list[KafkaError] = []
    producer = Producer({**world.kafka(name), "error_cb": told.append})
    while not told:
        producer.poll(1)
    assert told[0].code() == KafkaError._AUTHENTICATION


def test_a_namespace_that_pulsar_does_not_have_is_not_created(world: World) -> None:
    with world.connect("public/t-none") as connection, pytest.raises(ConnectionError, match="hung up"):
        connection.ask(metadata.API, metadata.Request(topics=None))
    assert world.nodes[0].server.metrics.refusals["namespace_unavailable"].value >= 1
    found = world.pulsar.admin("GET", "namespaces/public")
    assert isinstance(found, list) and "public/t-none" not in found


def test_the_own_namespace_is_the_administrator_s(world: World) -> None:
    with world.connect("admin") as connection:
        told = connection.ask(metadata.API, metadata.Request(topics=None))
        assert [topic.name for topic in told.topics] == []
        groups = connection.ask(list_groups.API, list_groups.Request())
        assert groups.groups == []


def test_who_is_let_in_without_a_rule_is_no_administrator(pulsar: PulsarAddress, tmp_path: Path) -> None:
    with world_of(pulsar, tmp_path, [{"tenants": {"required": False}}]) as world:
        asked = describe_user_scram_credentials.Request(users=None)
        for user, code in (("stranger", ErrorCode.CLUSTER_AUTHORIZATION_FAILED), ("admin", ErrorCode.NONE)):
            with world.connect(user) as connection:
                wanted = [metadata.RequestTopic(name=TOPIC)]
                told = connection.ask(metadata.API, metadata.Request(topics=wanted))
                assert [topic.error_code for topic in told.topics] == [ErrorCode.NONE]
                assert connection.ask(describe_user_scram_credentials.API, asked).error_code == code
        assert f"persistent://{world.own}/{TOPIC}-partition-0" in world.topics(world.own)


def test_no_more_namespaces_are_opened_than_allowed(pulsar: PulsarAddress, tmp_path: Path) -> None:
    with world_of(pulsar, tmp_path, [{"tenants": {"max_namespaces": 1}}]) as world:
        _produced(world.kafka("acme-1"), "acme")
        with world.connect("beta-1") as connection, pytest.raises(ConnectionError, match="hung up"):
            connection.ask(metadata.API, metadata.Request(topics=None))
        assert world.nodes[0].server.metrics.tenant_namespaces.value == 1
        _produced(world.kafka("acme-2"), "acme")
        with world.connect("admin") as connection:
            connection.ask(metadata.API, metadata.Request(topics=None))


def test_what_was_committed_is_there_after_a_restart(pulsar: PulsarAddress, tmp_path: Path) -> None:
    with world_of(pulsar, tmp_path) as world:
        acme = world.kafka("acme-1")
        for number in range(2):
            _produced(acme, f"acme {number}")
        assert _read(acme, GROUP, 1) == ["acme 0"]
        world.stop()
        again = world.start()
        assert isinstance(again, BridgeThread)
        words = world.kafka("acme-1", node=1)
        assert _committed(words, GROUP) in (1, 2)
        assert again.server.metrics.tenant_namespaces.value == 1
