"""Clients are held to their quotas, each by its own means, and others are not: on the bridge and on Kafka."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import kafka
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.endpoint import Endpoint, unique
from tests.support.java import run_tool

pytestmark = pytest.mark.soak

CONFIGS = "kafka.admin.ConfigCommand"
RATE = 500_000
SECONDS = 25
"""Kafka lets an idle client have ten seconds' worth at once, so less would not do."""
SIZE = 1000
VALUE = os.urandom(SIZE)
COUNT = RATE * SECONDS // SIZE


@pytest.fixture
def topic(endpoint: Endpoint) -> str:
    name = unique("quota")
    admin = AdminClient({"bootstrap.servers": endpoint.kafka})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    return name


@pytest.fixture
def client_id(endpoint: Endpoint) -> Iterator[str]:
    """A client id with quotas, set by Kafka's tool."""
    name = unique("slow")

    def tool(*arguments: str) -> None:
        entity = ["--entity-type", "clients", "--entity-name", name]
        run_tool(CONFIGS, "--bootstrap-server", endpoint.kafka, "--alter", *entity, *arguments)

    tool("--add-config", f"producer_byte_rate={RATE},consumer_byte_rate={RATE}")
    yield name
    tool("--delete-config", "producer_byte_rate,consumer_byte_rate")


def confluent_writes(address: str, client_id: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": address, "client.id": client_id, "queue.buffering.max.messages": 2000})
    for _ in range(COUNT):
        while True:
            try:
                producer.produce(topic, VALUE)
                break
            except BufferError:
                producer.poll(0.02)
    assert producer.flush(60) == 0


def kafka_python_writes(address: str, client_id: str, topic: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=address, client_id=client_id, batch_size=100_000, linger_ms=5)
    sent = [producer.send(topic, VALUE) for _ in range(COUNT)]
    producer.flush(120)
    assert all(one.succeeded() for one in sent)
    producer.close()


def java_writes(address: str, client_id: str, topic: str) -> float:
    props = ["--producer-props", f"bootstrap.servers={address}", f"client.id={client_id}"]
    amount = ["--num-records", str(COUNT), "--record-size", str(SIZE), "--throughput", "-1"]
    printed = run_tool("org.apache.kafka.tools.ProducerPerformance", "--topic", topic, *amount, *props)
    (rate,) = re.findall(rf"{COUNT} records sent, ([\d.]+) records/sec", printed)
    return COUNT / float(rate)


def confluent_reads(address: str, client_id: str, topic: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": address, "client.id": client_id, "group.id": unique("g"), "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    count = 0
    while count < COUNT:
        count += len(consumer.consume(1000, 0.1))
    consumer.close()


def kafka_python_reads(address: str, client_id: str, topic: str) -> None:
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=address, client_id=client_id, auto_offset_reset="earliest", group_id=None
    )
    count = 0
    while count < COUNT:
        count += sum(map(len, consumer.poll(100).values()))
    consumer.close()


def java_reads(address: str, client_id: str, topic: str, config: Path) -> float:
    config.write_text(f"client.id={client_id}\nauto.offset.reset=earliest\n")
    options = ["--topic", topic, "--messages", str(COUNT), "--timeout", "60000", "--consumer.config", str(config)]
    printed = run_tool("org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", address, *options)
    rows = [line.split(", ") for line in printed.splitlines() if ", " in line]
    headings, values = next((one, two) for one, two in pairwise(rows) if "fetch.time.ms" in one)
    return float(values[headings.index("fetch.time.ms")]) / 1000


Work = Callable[[str, str, str], float | None]
WRITERS = {"confluent": confluent_writes, "kafka-python": kafka_python_writes, "java": java_writes}


def seconds(work: Work, *arguments: str) -> float:
    began = time.monotonic()
    told = work(*arguments)
    return told or time.monotonic() - began


def held(endpoint: Endpoint, took: float) -> None:
    """It had the quota's rate to within a tenth, with a moment to begin. On Kafka the first ten seconds' worth comes at
    once, and a group begins after three."""
    at_once, to_begin = (11, 4) if endpoint.name == "control" else (0, 1.5)
    assert (SECONDS - at_once) * 0.9 <= took <= SECONDS * 1.1 + to_begin


@pytest.mark.parametrize("family", WRITERS)
def test_a_producer_gets_its_rate_and_another_one_is_not_held(
    endpoint: Endpoint, topic: str, client_id: str, family: str
) -> None:
    took: list[float] = []
    slow = threading.Thread(target=lambda: took.append(seconds(WRITERS[family], endpoint.kafka, client_id, topic)))
    slow.start()
    waits = []
    other = Producer({"bootstrap.servers": endpoint.kafka, "client.id": "free", "linger.ms": 0})
    while slow.is_alive():
        began = time.monotonic()
        other.produce(topic, b"free")
        assert other.flush(30) == 0
        waits.append(time.monotonic() - began)
        slow.join(0.2)
    held(endpoint, took[0])
    assert sorted(waits)[len(waits) // 2] < 0.5


@pytest.mark.parametrize("family", ["confluent", "kafka-python", "java"])
def test_a_consumer_gets_its_rate(endpoint: Endpoint, topic: str, client_id: str, family: str, tmp_path: Path) -> None:
    confluent_writes(endpoint.kafka, "free", topic)

    def java(address: str, client_id: str, topic: str) -> float:
        return java_reads(address, client_id, topic, tmp_path / "consumer.properties")

    readers: dict[str, Work] = {"confluent": confluent_reads, "kafka-python": kafka_python_reads, "java": java}
    held(endpoint, seconds(readers[family], endpoint.kafka, client_id, topic))
