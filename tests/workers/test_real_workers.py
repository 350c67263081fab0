"""Two workers before a real Pulsar: what Kafka clients see of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.workers.http_get import get
from bridge.workers.supervisor import Supervisor
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import until

SECONDS = 60.0
PARTITIONS = 8
RECORDS = 3000


@pytest.fixture
async def supervisor(pulsar: PulsarAddress) -> AsyncIterator[Supervisor]:
    namespace = await asyncio.to_thread(pulsar.create_namespace)
    settings = settings_for(pulsar, namespace, {"kafka": {"workers": 2, "worker_port": 0}})
    supervisor = Supervisor(settings)
    try:
        await supervisor.start()
        yield supervisor
    finally:
        await supervisor.stop()


def brokers(bootstrap: str) -> dict[int, int]:
    """The port of each broker's id."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=SECONDS).brokers
    return {id_: broker.port for id_, broker in found.items()}


async def until_members(supervisor: Supervisor, count: int) -> None:
    """Both are in the view: a worker serves as soon as it sees itself."""

    async with asyncio.timeout(SECONDS):
        while True:
            answer = await get(supervisor.http_port, "/cluster", SECONDS)
            if answer.status == 200 and len(json.loads(answer.body)["members"]) == count:
                return
            await asyncio.sleep(0.05)


async def test_clients_are_told_the_workers_own_ports(supervisor: Supervisor) -> None:
    await until_members(supervisor, 2)
    ports = {worker.ready.kafka for worker in supervisor.workers if worker.ready is not None}
    found = await asyncio.to_thread(brokers, f"127.0.0.1:{supervisor.kafka_port}")
    assert set(found.values()) == ports
    assert len(ports) == 2
    status = await get(supervisor.http_port, "/readyz", SECONDS)
    assert status.status == 200


class Acknowledged:
    """Sends numbered records and remembers which were acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.offsets: dict[bytes, tuple[int, int]] = {}
        self.errors: list[KafkaError] = []
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1})

    def send(self, first: int, last: int) -> None:
        for number in range(first, last):
            value = f"{number}".encode()
            told = partial(self._told, value)
            self._producer.produce(self._topic, value, partition=number % PARTITIONS, on_delivery=told)
            self._producer.poll(0.001)

    def flush(self) -> None:
        assert self._producer.flush(2 * SECONDS) == 0

    def _told(self, value: bytes, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        self.offsets[value] = (partition, offset)


def read_all(bootstrap: str, topic: str, count: int) -> list[tuple[bytes, tuple[int, int]]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: list[tuple[bytes, tuple[int, int]]] = []
    while len(found) < count:
        messages = consumer.consume(count, SECONDS)
        assert messages, f"{len(found)} of {count} records"
        for message in messages:
            assert message.error() is None, message.error()
            value, partition, offset = message.value(), message.partition(), message.offset()
            assert value is not None and partition is not None and offset is not None
            found.append((bytes(value), (partition, offset)))
    consumer.close()
    return found


async def test_nothing_acknowledged_is_lost_when_a_worker_is_killed_under_load(supervisor: Supervisor) -> None:
    await until_members(supervisor, 2)
    bootstrap = f"127.0.0.1:{supervisor.kafka_port}"
    topic = "numbers"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    await asyncio.to_thread(admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result, SECONDS)
    load = Acknowledged(bootstrap, topic)
    await asyncio.to_thread(load.send, 0, RECORDS // 3)
    worker = supervisor.workers[0]
    pid = worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await asyncio.to_thread(load.send, RECORDS // 3, RECORDS)
    await asyncio.to_thread(load.flush)
    assert not load.errors
    await until(lambda: worker.ready is not None and worker.pid != pid, SECONDS)
    await until_members(supervisor, 2)
    found = await asyncio.to_thread(read_all, bootstrap, topic, RECORDS)
    assert dict(found) == load.offsets
    assert len(found) == RECORDS  # none twice
