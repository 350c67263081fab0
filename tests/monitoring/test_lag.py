"""What two nodes tell of lag, with a real Pulsar: the same as Kafka's own tool, also where no client is."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from bridge.config import Settings
from bridge.runtime.polling import Poller
from tests.support.bridges import BridgeThread, settings_for
from tests.support.foreign import until
from tests.support.group_slots import wait_until_shared
from tests.support.group_tool import GROUPS, table
from tests.support.java import run_tool
from tests.support.pulsar import PulsarAddress

PARTITIONS = 8
Told = dict[tuple[str, int], int]
"""The lag in each partition."""


class Two:
    """Two nodes that may be stopped and started, and a client of them."""

    def __init__(self, settings: Settings, stack: ExitStack) -> None:
        self._settings = settings
        self._stack = stack
        self.nodes: list[BridgeThread] = []
        self.start()

    def start(self) -> None:
        while len(self.nodes) < 2:
            node = BridgeThread(self._settings)
            self._stack.callback(node.stop)
            node.start()
            self.nodes.append(node)
        wait_until_shared(*self.nodes)  # later a group would be at neither of them for a moment

    def stop(self, node: BridgeThread) -> None:
        self.nodes.remove(node)
        node.stop()

    @property
    def bootstrap(self) -> str:
        return ",".join(node.kafka for node in self.nodes)

    def create(self, *topics: str, partitions: int = 1) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_topics([NewTopic(topic, partitions) for topic in topics]).values():
            future.result(30)

    def write(self, topic: str, records: int, partitions: int = 1) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(records):
            producer.produce(topic, b"value", partition=number % partitions)
        assert producer.flush(30) == 0

    def commit(self, group: str, *offsets: tuple[str, int, int]) -> None:
        """By a client that has left when this returns."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition(*one) for one in offsets], asynchronous=False)
        consumer.close()

    def samples(self, name: str) -> Iterator[Sample]:
        """Those of a metric, by all nodes."""
        for node in self.nodes:
            with urllib.request.urlopen(f"{node.http}/metrics", timeout=30) as response:  # noqa: S310 - it is ours
                families = text_string_to_metric_families(response.read().decode())
            yield from (one for family in families for one in family.samples if one.name == name)

    def scraped(self, name: str, group: str) -> Told:
        """A metric of the group, by all nodes together."""
        told: Told = {}
        for sample in self.samples(name):
            if sample.labels.get("group", group) == group:
                where = sample.labels["topic"], int(sample.labels["partition"])
                told[where] = max(int(sample.value), told.get(where, -(10**9)))
        return told

    def shown(self, name: str, **labels: str) -> list[float]:
        """The samples of a metric that have these labels."""
        return [one.value for one in self.samples(name) if labels.items() <= one.labels.items()]

    def lag(self, group: str) -> Told:
        return self.scraped("bridge_group_lag_records", group)

    def by_kafkas_tool(self, group: str) -> Told:
        printed = run_tool(GROUPS, "--bootstrap-server", self.bootstrap, "--describe", "--group", group)
        return {(row["TOPIC"], int(row["PARTITION"])): int(row["LAG"]) for row in table(printed)}

    def on_page(self, group: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        for node in self.nodes:
            with urllib.request.urlopen(f"{node.http}/api/state?view=groups", timeout=30) as response:  # noqa: S310 - it is ours
                found += json.load(response)["answer"]["table"]["rows"]
        (row,) = (row for row in found if row["name"] == group)
        return row


@pytest.fixture
def two(pulsar: PulsarAddress, monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    def quick(every: float, per_second: float, at_once: int) -> Poller:
        return Poller(0.3, 10 * per_second, at_once)

    monkeypatch.setattr("bridge.storage.services.Poller", quick)
    monkeypatch.setattr("bridge.groups.lag._REFRESH_SECONDS", 0.2)
    with ExitStack() as stack:
        yield Two(settings_for(pulsar, pulsar.create_namespace()), stack)


def test_a_group_without_clients_has_its_lag_over_restarts_and_moves(two: Two) -> None:
    two.create("t", partitions=PARTITIONS)
    two.write("t", 8000, PARTITIONS)
    two.commit("dead", *(("t", partition, 0) for partition in range(PARTITIONS)))
    expected = {("t", partition): 1000 for partition in range(PARTITIONS)}
    assert until(lambda: two.lag("dead") == expected, 30), two.lag("dead")
    assert two.by_kafkas_tool("dead") == expected
    for node in list(two.nodes):  # a rolling restart: whichever node coordinates the group, it comes to the other one
        two.stop(node)
        assert until(lambda: two.lag("dead") == expected, 60), two.lag("dead")
        two.start()
    for node in list(two.nodes):
        two.stop(node)
    two.start()
    assert until(lambda: two.lag("dead") == expected, 60), two.lag("dead")
    ages = two.scraped("bridge_group_lag_seconds", "dead")
    assert until(lambda: len(two.scraped("bridge_group_lag_seconds", "dead")) == PARTITIONS, 60), ages
    assert min(two.scraped("bridge_group_lag_seconds", "dead").values()) > 0
    assert two.scraped("bridge_partition_end_offset", "dead") == expected
    row = two.on_page("dead")
    assert (row["partitions"], row["lag"], row["unknown"], row["at_least"]) == (PARTITIONS, 8000, 0, False)


def test_each_case_is_told_as_kafkas_tool_tells_it(two: Two) -> None:
    two.create("grown", "cut", "beyond", "empty", "gone")
    for topic, records in (("grown", 20), ("cut", 30), ("beyond", 10), ("gone", 10)):
        two.write(topic, records)
    admin = AdminClient({"bootstrap.servers": two.bootstrap})
    two.commit("g", ("grown", 0, 5), ("cut", 0, 3), ("beyond", 0, 50), ("empty", 0, 0), ("gone", 0, 1))
    expected = {("grown", 0): 15, ("cut", 0): 27, ("beyond", 0): -40, ("empty", 0): 0, ("gone", 0): 9}
    assert until(lambda: two.lag("g") == expected, 30), two.lag("g")
    assert two.by_kafkas_tool("g") == expected
    admin.create_partitions([NewPartitions("grown", 3)])["grown"].result(30)
    admin.delete_topics(["gone"])["gone"].result(30)
    (deleted,) = admin.delete_records([TopicPartition("cut", 0, 20)]).values()
    deleted.result(30)
    two.write("grown", 30, partitions=3)
    two.commit("g", ("grown", 1, 4))
    del expected["gone", 0]
    expected |= {("grown", 0): 25, ("grown", 1): 6}
    assert until(lambda: two.lag("g") == expected, 30), two.lag("g")
    assert two.by_kafkas_tool("g") == expected
    row = two.on_page("g")
    assert (row["lag"], row["unknown"]) == (25 + 6 + 27, 0)
    assert set(two.scraped("bridge_group_committed_offset", "g")) == set(expected)


def test_the_members_of_a_group_are_told_by_the_node_that_coordinates_it(two: Two) -> None:
    two.create("t")
    two.write("t", 1)
    words = {"bootstrap.servers": two.bootstrap, "group.id": "read", "auto.offset.reset": "earliest"}
    consumer = Consumer(words)
    consumer.subscribe(["t"])
    assert consumer.consume(1, 30)
    assert until(lambda: two.shown("bridge_group_members", group="read") == [1], 30)
    stable = {"protocol": "classic", "state": "Stable"}
    assert until(lambda: two.shown("bridge_group_info", group="read", **stable) == [1], 30)
    assert until(lambda: two.shown("bridge_groups_in_state", **stable) == [1], 30)
    consumer.close()
    assert until(lambda: two.shown("bridge_group_members", group="read") == [0], 30)
    assert until(lambda: two.shown("bridge_groups_in_state", protocol="classic", state="Empty") == [1], 30)
