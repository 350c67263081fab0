"""Two workers before a real Pulsar, in this process and as `bridge run`: what Kafka clients see of them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.node.orphans import Guard
from bridge.node.workers.http_get import get
from bridge.node.workers.supervisor import Supervisor
from tests.faults.nodes.answers import cluster_at
from tests.node.workers.members import until_members
from tests.support.bridges import BridgeChild, BridgeThread, settings_for
from tests.support.foreign import gone
from tests.support.foreign import until as waited_until
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


def members(bootstrap: str) -> set[int]:
    """The nodes of the cluster, as clients are told that are not librdkafka: it has those that left for a minute."""
    return {node_id for node_id, _ in cluster_at(bootstrap, ()).brokers}


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


@pytest.fixture
def command(pulsar: PulsarAddress, tmp_path: Path, guard: Guard) -> Iterator[BridgeChild]:
    """`bridge run` with two workers."""
    settings = settings_for(pulsar, pulsar.create_namespace(), {"kafka": {"workers": 2, "worker_port": 0}})
    child = BridgeChild(settings, tmp_path, guard)
    child.start()
    try:
        assert waited_until(lambda: len(brokers(child.kafka)) == 2, SECONDS)
        yield child
    finally:
        child.kill()


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # which goes, and its requests with it, when unnamed
    admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(SECONDS)


def a_group_of_each(bootstrap: str) -> dict[int, str]:
    """For each node that coordinates groups, one of its own; eight slots have owners each."""
    names = [f"group-{number}" for number in range(64)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.describe_consumer_groups(names, request_timeout=SECONDS)
    return {future.result(SECONDS).coordinator.id: name for name, future in found.items()}


def joined(bootstrap: str, group: str, topic: str) -> Consumer:
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
        "heartbeat.interval.ms": 200,
    })  # fmt: skip
    consumer.subscribe([topic])
    return consumer


def poll_until(consumers: Sequence[Consumer], holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            for message in consumer.consume(100, 0.02):
                assert message.error() is None, message.error()


def held(consumer: Consumer) -> int:
    return len(consumer.assignment())


def read(consumer: Consumer) -> int:
    """How many records of what it holds are behind it."""
    return sum(max(one.offset, 0) for one in consumer.position(consumer.assignment()))


def committed(bootstrap: str, group: str, topic: str) -> int:
    asking = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    wanted = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    found = asking.committed(wanted, SECONDS)
    asking.close()
    return sum(one.offset for one in found)


def test_groups_of_both_workers_join_by_the_shared_port_commit_and_rebalance(command: BridgeChild) -> None:
    create(command.kafka, "t")
    load = Acknowledged(command.kafka, "t")
    load.send(0, 400)
    load.flush()
    groups = a_group_of_each(command.kafka)
    assert set(groups) == set(brokers(command.kafka))
    for group in groups.values():
        first, second = (joined(command.kafka, group, "t") for _ in range(2))
        both = (first, second)
        poll_until(both, lambda a=first, b=second: held(a) == held(b) == PARTITIONS // 2 and read(a) + read(b) == 400)  # type: ignore[misc]
        for consumer in both:
            consumer.commit(asynchronous=False)
        first.close()
        poll_until([second], lambda one=second: held(one) == PARTITIONS)  # type: ignore[misc]
        second.close()
        assert committed(command.kafka, group, "t") == 400


def test_another_node_takes_over_under_load_when_the_supervisor_is_told_to_stop(command: BridgeChild) -> None:
    """SIGTERM in the midst of idempotent records: the client sees no error, and each record is there once."""
    settings = command.settings.with_values(
        kafka={"listen": "127.0.0.1:0", "workers": 1}, http={"listen": "127.0.0.1:0"}
    )
    other = BridgeThread(settings)
    other.start()
    try:
        assert waited_until(lambda: len(brokers(other.kafka)) == 3, SECONDS)
        create(other.kafka, "t")
        workers = children(command.pid)
        load = Acknowledged(f"{command.kafka},{other.kafka}", "t")
        load.send(0, RECORDS // 3)
        os.kill(command.pid, signal.SIGTERM)
        load.send(RECORDS // 3, RECORDS)
        load.flush()
        assert not load.errors
        assert command.process.child.wait(SECONDS)  # a second SIGTERM would end the workers at once
        assert command.process.child.exit_description() == "exited with 0"
        assert all(gone(pid) for pid in workers)
        found = read_all(other.kafka, "t", RECORDS)
        assert dict(found) == load.offsets
        assert len(found) == RECORDS
        # a worker whose controller leaves at the same moment is found to be gone: it leads nothing meanwhile
        assert waited_until(lambda: members(other.kafka) == {other.node_id}, SECONDS)
    finally:
        other.stop()


def test_a_killed_supervisor_leaves_nothing_behind(command: BridgeChild) -> None:
    """Neither its workers, who drain, nor what guards them."""
    left = children(command.pid)
    assert len(left) == 3
    command.kill()
    assert waited_until(lambda: all(gone(pid) for pid in left), SECONDS), left


def children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True)
    return [int(one) for one in found.stdout.split()]
