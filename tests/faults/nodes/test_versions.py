"""A bridge of the version before many nodes beside new ones: they say so by name, and nothing acknowledged is lost.

It is taken from the repository's history, for it cannot be had otherwise.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from bridge.node.orphans import Guard
from bridge.standalone import probe
from bridge.standalone.child import Child
from bridge.standalone.ports import HOST
from tests.faults.checker import KAFKA_PYTHON_LEAKS
from tests.faults.clients import read_cold
from tests.faults.figures import report
from tests.faults.topics import WAIT, consumer, create, wait_for
from tests.support.nodes import Node, Nodes, stable_ports
from tests.support.pulsar import PrivatePulsar
from tests.support.servers import KafkaServer
from tests.support.sources import ROOT

pytestmark = pytest.mark.soak

BEFORE = "d7d7d3c"
"""The last commit whose bridge knows of no other nodes."""
PARTITIONS = 4
_RECORDS = 200
_REFUSALS = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError._TIMED_OUT)


@pytest.fixture(scope="module")
def old_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it was."""
    packed = subprocess.run(["git", "archive", BEFORE, "bridge"], cwd=ROOT, capture_output=True, check=True).stdout
    target = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(target, filter="data")
    return target


@pytest.fixture
def start_old(
    old_sources: Path, broker: PrivatePulsar, broker_namespace: str, guard: Guard, tmp_path: Path
) -> Iterator[Callable[..., KafkaServer]]:
    """Start a bridge of that version on the same namespace."""
    child = Child("the old bridge", guard, tmp_path / "old.log")
    tenant, _, name = broker_namespace.partition("/")

    def start(address: str = "") -> KafkaServer:
        kafka, http = stable_ports(2)
        address = address or f"{HOST}:{kafka}"
        settings = tmp_path / "old.toml"
        settings.write_text(
            f'[kafka]\nlisten = "{address}"\n[http]\nlisten = "{HOST}:{http}"\n[pulsar]\n'
            f'service_url = "{broker.service_url}"\nadmin_url = "{broker.admin_url}"\n'
            f'tenant = "{tenant}"\nnamespace = "{name}"\n'
        )
        command = [sys.executable, "-P", "-m", "bridge", "run", "--config", str(settings)]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("BRIDGE_")}
        launch = partial(child.start, command, environment=environment | {"PYTHONPATH": str(old_sources)})
        server = KafkaServer(child, launch, address)
        server.start()
        return server

    yield start
    child.kill()


def acknowledged(bootstrap: str, topic: str, name: str) -> list[tuple[int, int, bytes]]:
    """Write records through one bridge; partition, offset and value of each that was acknowledged, which all are."""
    acks: list[tuple[int, int, bytes]] = []
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(_RECORDS):
        value = f"{name}:{number}".encode()

        def done(error: object, message: object, value: bytes = value) -> None:
            if error is not None:
                errors.append(error)
            else:
                acks.append((message.partition(), message.offset(), value))  # type: ignore[attr-defined]

        producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=done)
    assert producer.flush(2 * WAIT) == 0
    assert not errors, errors[:3]
    return acks


def check_all(bootstrap: str, topic: str, acks: list[tuple[int, int, bytes]]) -> None:
    """Each acknowledged record stands where its writer was told."""
    last = [max(offset for where, offset, _ in acks if where == partition) for partition in range(PARTITIONS)]
    log = [one.records for one in read_cold(bootstrap, topic, last)]
    assert [(where, offset, value) for where, offset, value in acks if log[where].get(offset) != value] == []


def commit(bootstrap: str, topic: str, offset: int) -> bool:
    """Commit an offset of partition 0 through one bridge; whether it was acknowledged and not refused."""
    member = consumer(bootstrap, "earliest", group=f"{topic}-group")
    try:
        done = member.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    except KafkaException as error:
        assert error.args[0].code() in _REFUSALS, error
        return False
    finally:
        member.close()
    return done is not None and all(one.error is None for one in done)


def committed(bootstrap: str, topic: str) -> int:
    """The offset of partition 0 that one bridge has."""
    member = consumer(bootstrap, "earliest", group=f"{topic}-group")
    try:
        return int(member.committed([TopicPartition(topic, 0)], timeout=WAIT)[0].offset)
    finally:
        member.close()


def asked(node: Node, path: str) -> tuple[int, str]:
    """A node's answer to an operator."""
    return probe.get(int(node.http.rpartition(":")[2]), path)


def slots_with_the_old_one(node: Node) -> int:
    """The node's metric."""
    with urlopen(f"http://{node.http}/metrics", timeout=WAIT) as answer:
        found = re.search(r"^bridge_groups_slots_held_by_older (\d+)", answer.read().decode(), re.MULTILINE)
    return int(found[1]) if found else 0


def is_told(node: Node) -> bool:
    """Whether a new one says at /readyz, in its log and in a metric that groups of its own are with the old one."""
    status, body = asked(node, "/readyz")
    logged = node.logged("! slot taken by a bridge of an older version")
    return (
        status == 503
        and "older version" in body
        and "bridge-0-" in body
        and bool(logged and slots_with_the_old_one(node))
    )


@pytest.mark.parametrize("old_first", [True, False])
def test_an_old_bridge_beside_new_ones_is_told_and_nothing_is_lost(
    start_nodes: Callable[..., Nodes], start_old: Callable[..., KafkaServer], topic: str, old_first: bool
) -> None:
    if old_first:
        old_bridge = start_old()
        create(old_bridge.address, topic, PARTITIONS)
        acks = acknowledged(old_bridge.address, topic, "before")
        nodes = start_nodes(2, launched=True)
    else:
        nodes = start_nodes(2)
        create(nodes.bootstrap(), topic, PARTITIONS)
        acks = acknowledged(nodes.bootstrap(), topic, "before")
        assert commit(nodes.bootstrap(), topic, 1)
        old_bridge = start_old()
    wait_for(lambda: all(is_told(node) for node in nodes.all), "the new bridges do not tell of the old one")
    last = 0
    for turn in range(3):
        acks += acknowledged(nodes.bootstrap(), topic, f"new-{turn}")
        acks += acknowledged(old_bridge.address, topic, f"old-{turn}")
        assert not commit(nodes.bootstrap(), topic, 100 + turn)
        assert commit(old_bridge.address, topic, 2 + turn)
        last = 2 + turn
    for address in (nodes.bootstrap(), old_bridge.address):
        check_all(address, topic, acks)
    said = asked(nodes.all[0], "/readyz")[1]
    old_bridge.stop()
    wait_for(lambda: all(asked(node, "/readyz")[0] == 200 for node in nodes.all), "not ready without the old bridge")
    acks += acknowledged(nodes.bootstrap(), topic, "after")
    assert committed(nodes.bootstrap(), topic) == last
    assert commit(nodes.bootstrap(), topic, last + 1)
    check_all(nodes.bootstrap(), topic, acks)
    report(said=said)


class Lasting:
    """Clients that live on while the bridge behind their address is replaced; what each is told."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self._librdkafka = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 20_000, "log_level": 0})
        self._kafka_python = KafkaProducer(
            bootstrap_servers=bootstrap, delivery_timeout_ms=20_000, request_timeout_ms=10_000, max_block_ms=20_000
        )

    def librdkafka(self, value: bytes) -> str:
        """Write a record; the error, if there is one."""
        told: list[str] = []
        done = lambda error, _: told.append(str(error or ""))  # noqa: E731
        self._librdkafka.produce(self.topic, value, partition=0, on_delivery=done)
        self._librdkafka.flush(2 * WAIT)
        return told[0] if told else "nothing"

    def kafka_python(self, value: bytes) -> str:
        """The same by the other client."""
        try:
            self._kafka_python.send(self.topic, value, partition=0).get(WAIT)
        except KafkaPythonError as error:
            return type(error).__name__
        return ""

    def close(self) -> None:
        """Let go of what kafka-python holds."""
        self._kafka_python.close(timeout=WAIT)


@KAFKA_PYTHON_LEAKS
def test_the_way_back_to_the_old_version_keeps_what_was_acknowledged(
    start_nodes: Callable[..., Nodes], start_old: Callable[..., KafkaServer], topic: str
) -> None:
    nodes = start_nodes(2)
    address = nodes.all[0].kafka
    create(nodes.bootstrap(), topic, PARTITIONS)
    acks = acknowledged(nodes.bootstrap(), topic, "new")
    assert commit(nodes.bootstrap(), topic, 7)
    lasting = Lasting(address, topic)
    assert (lasting.librdkafka(b"1"), lasting.kafka_python(b"1")) == ("", "")
    for node in nodes.all:
        node.stop()
    old_bridge = start_old(address)
    told = {"librdkafka": lasting.librdkafka(b"2"), "kafka-python": lasting.kafka_python(b"2")}
    acks += acknowledged(address, topic, "old")
    assert committed(address, topic) == 7
    assert commit(address, topic, 8)
    check_all(address, topic, acks)
    old_bridge.stop()
    nodes.start()
    acks += acknowledged(nodes.bootstrap(), topic, "new again")
    assert committed(nodes.bootstrap(), topic) == 8
    check_all(nodes.bootstrap(), topic, acks)
    again = {"librdkafka": lasting.librdkafka(b"3"), "kafka-python": lasting.kafka_python(b"3")}
    lasting.close()
    report(told=told, again=again)
