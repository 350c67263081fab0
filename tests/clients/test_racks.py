"""Consumers in three racks on three nodes: what they read, from which node, and what they miss when it is killed."""

from __future__ import annotations

import re
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.node.orphans import Guard
from tests.support.java import java_command
from tests.support.nodes import Node, Nodes
from tests.support.pulsar import PulsarAddress

TOPIC, PARTITIONS, RECORDS = "t", 6, 600
VALUE_BYTES = 1000
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SECONDS = 90.0
_FETCHED = re.compile(r'^bridge_kafka_response_bytes_total\{api="Fetch"\} (\S+)$', re.MULTILINE)


@pytest.fixture
def nodes(pulsar: PulsarAddress, guard: Guard, tmp_path: Path) -> Iterator[Nodes]:
    """One in each of the racks a, b and c."""
    overrides = {"cluster": {"rack_aware_fetch": True}}
    nodes = Nodes(pulsar, pulsar.create_namespace(), guard, tmp_path, 3, overrides=overrides, racks="abc")
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.close()


def in_rack(nodes: Nodes, rack: str) -> Node:
    return next(node for node in nodes.all if node.settings.kafka.rack == rack)


def leaders(nodes: Nodes) -> dict[int, str]:
    """The rack of each partition's leader, when all nodes are replicas of each."""
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap()})
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        (described,) = admin.describe_topics(TopicCollection([TOPIC])).values()
        found = described.result(30).partitions
        racks = {one.id: one.leader.rack for one in found if one.leader is not None}
        if all(len(one.replicas) == len(one.isr) == 3 for one in found) and set(racks.values()) == set("abc"):
            return racks
    raise AssertionError(f"no three replicas of each partition: {racks}")


class Writing(threading.Thread):
    """An idempotent producer that writes on and on, and what it was told."""

    def __init__(self, nodes: Nodes, count: int) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": nodes.bootstrap(), "enable.idempotence": True})
        self._count = count
        self.ended = threading.Event()
        self.stored: dict[int, dict[int, bytes]] = {partition: {} for partition in range(PARTITIONS)}
        self.errors: list[str] = []

    def _told(self, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.stored[message.partition()][message.offset()] = message.value()

    def run(self) -> None:
        """Until it is told to end, but at least `count` records."""
        number = 0
        while number < self._count or not self.ended.is_set():
            value = b"%d " % number
            partition = number % PARTITIONS
            self._producer.produce(TOPIC, value.ljust(VALUE_BYTES, b"."), partition=partition, on_delivery=self._told)
            number += 1
            self._producer.poll(0.005 if number > self._count else 0)
        self._producer.flush(SECONDS)

    def finish(self) -> dict[int, dict[int, bytes]]:
        """Everything that is stored, by partition and offset."""
        self.ended.set()
        self.join(2 * SECONDS)
        assert not self.is_alive() and not self.errors
        return self.stored


def fill(nodes: Nodes) -> dict[int, dict[int, bytes]]:
    writing = Writing(nodes, RECORDS)
    writing.start()
    return writing.finish()


class Reading(threading.Thread):
    """librdkafka in a rack, which reads all partitions from their beginning."""

    def __init__(self, nodes: Nodes, rack: str) -> None:
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": nodes.bootstrap(), "group.id": f"g-{rack}", "client.rack": rack}
        self._consumer = Consumer({**settings, "auto.offset.reset": "error", "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        self.found: dict[int, dict[int, bytes]] = {partition: {} for partition in range(PARTITIONS)}
        self.errors: list[str] = []
        self.ended = threading.Event()

    def run(self) -> None:
        """Every record of a partition comes once, in its order."""
        while not self.ended.is_set():
            message = self._consumer.poll(0.2)
            if message is None:
                continue
            if message.error() is not None:
                self.errors.append(str(message.error()))
                continue
            found = self.found[message.partition()]
            if found and message.offset() <= max(found):
                self.errors.append(f"{message.partition()}-{message.offset()} comes twice, or late")
            found[message.offset()] = message.value()
        self._consumer.close()

    def count(self) -> int:
        return sum(map(len, self.found.values()))

    def wait_for(self, count: int) -> None:
        until = time.monotonic() + SECONDS
        while self.count() < count:
            assert time.monotonic() < until, f"{self.count()} of {count} records came; {self.errors}"
            self.ended.wait(0.05)

    def finish(self, expected: dict[int, dict[int, bytes]]) -> None:
        self.wait_for(sum(map(len, expected.values())))
        self.ended.set()
        self.join(SECONDS)
        assert self.found == expected
        assert not self.errors


def console(nodes: Nodes, rack: str, partition: int, count: int) -> subprocess.Popen[bytes]:
    """Java's consumer in a rack, which reads one partition from its beginning."""
    arguments = ["--bootstrap-server", nodes.bootstrap(), "--topic", TOPIC, "--partition", str(partition)]
    arguments += ["--offset", "earliest", "--max-messages", str(count), "--timeout-ms", "60000"]
    arguments += ["--consumer-property", f"client.rack={rack}", "--property", "print.offset=true"]
    return subprocess.Popen(java_command(CONSOLE, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def printed(running: subprocess.Popen[bytes]) -> dict[int, bytes]:
    """What it has read."""
    out, errors = running.communicate(timeout=2 * SECONDS)
    assert running.returncode == 0, errors.decode(errors="replace")
    lines = [line.removeprefix(b"Offset:").split(b"\t", 1) for line in out.splitlines()]
    offsets = [int(offset) for offset, _ in lines]
    assert offsets == sorted(set(offsets)), "one comes twice, or late"
    return {int(offset): value for offset, value in lines}


def fetched_bytes(node: Node) -> float:
    with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=30) as answer:
        found = _FETCHED.search(answer.read().decode())
    assert found, "no metrics of Fetch"
    return float(found[1])


def wait_until_fetched(node: Node, least: float) -> None:
    """The page of metrics may be a second old."""
    until = time.monotonic() + SECONDS
    while (found := fetched_bytes(node)) < least:
        assert time.monotonic() < until, f"{found} of {least} bytes came from {node.name}"
        threading.Event().wait(0.2)


def test_what_is_read_comes_from_the_node_of_the_rack(nodes: Nodes) -> None:
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap()})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    stored, leader_of = fill(nodes), leaders(nodes)
    far = next(partition for partition, rack in leader_of.items() if rack == "a")
    for rack in "bc":
        before = {node.name: fetched_bytes(node) for node in nodes.all}
        if rack == "b":
            reading = Reading(nodes, rack)
            reading.start()
            reading.finish(stored)
            size = RECORDS * VALUE_BYTES
        else:
            assert printed(console(nodes, rack, far, len(stored[far]))) == stored[far]
            size = len(stored[far]) * VALUE_BYTES
        own = in_rack(nodes, rack)
        wait_until_fetched(own, before[own.name] + size)
        came = {node.settings.kafka.rack: fetched_bytes(node) - before[node.name] for node in nodes.all}
        others = sum(count for name, count in came.items() if name != rack)
        assert others < size / 10, came


@pytest.mark.soak
def test_the_node_of_the_rack_is_killed_under_its_consumers(nodes: Nodes) -> None:
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap()})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    leader_of = leaders(nodes)
    far = next(partition for partition, rack in leader_of.items() if rack == "a")
    writing, reading = Writing(nodes, RECORDS), Reading(nodes, "b")
    count = 8 * RECORDS // PARTITIONS
    java = console(nodes, "b", far, count)
    writing.start()
    reading.start()
    reading.wait_for(RECORDS)
    victim = in_rack(nodes, "b")
    wait_until_fetched(victim, RECORDS * VALUE_BYTES // 2)
    for _ in range(2):
        victim.kill()
        reading.wait_for(reading.count() + 2 * RECORDS)
        victim.start()
        reading.wait_for(reading.count() + 2 * RECORDS)
    found = printed(java)
    stored = writing.finish()
    reading.finish(stored)
    assert found == {offset: value for offset, value in stored[far].items() if offset < count}
