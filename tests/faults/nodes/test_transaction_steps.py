"""A node is killed when Pulsar has stored what it was asked for, and before it knows: the client's repetition is right.

Between the node and Pulsar all takes a while. The kill comes as soon as Pulsar has the entry, whose receipt is then
still under way: of what adds a partition, of a record, of an offset, and of the decision.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, cast

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.apis import find_coordinator
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask_at, unique
from tests.faults.processes import let_pass
from tests.support.nodes import Node, Nodes
from tests.support.pulsar import PrivatePulsar

_DELAY_SECONDS: Final = 0.4
"""A node answers by what it asks Pulsar within 2 s, which may be two questions."""
_SECONDS: Final = 60.0
_LONG: Final = {"transaction.timeout.ms": 300_000, "linger.ms": 0}
_OWN: Final = {"log_level": 0, "metadata.recovery.strategy": "none"}


class Scene:
    """One topic, and a transaction that is under way."""

    def __init__(self, broker: PrivatePulsar, nodes: Nodes, topic: str) -> None:
        self.topic = topic
        self._broker = broker
        self._nodes = nodes
        self._server = {"bootstrap.servers": nodes.bootstrap(), **_OWN}
        self._admin = AdminClient(self._server)
        self._admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        self.begin()

    def begin(self) -> None:
        """Of a new id, with the offsets of a new group."""
        self.id, self.group = unique("id"), unique("group")
        self._consumer = Consumer({**self._server, "group.id": self.group})
        self.producer = Producer({**self._server, "transactional.id": self.id, **_LONG})
        self.producer.init_transactions(_SECONDS)
        self.producer.begin_transaction()

    # ---- steps -------------------------------------------------------------------------------------------------------

    def write(self, value: str) -> None:
        """One record, to its acknowledgement."""
        told: list[Any] = []
        self.producer.produce(self.topic, value, partition=0, on_delivery=lambda error, _: told.append(error))
        self.producer.flush(_SECONDS)
        assert told == [None]

    def commit_offset(self, offset: int) -> None:
        """Of the group, in the transaction."""
        metadata = self._consumer.consumer_group_metadata()
        self.producer.send_offsets_to_transaction([TopicPartition(self.topic, 0, offset)], metadata, _SECONDS)

    def commit(self) -> None:
        """The transaction."""
        self.producer.commit_transaction(_SECONDS)

    # ---- kills -------------------------------------------------------------------------------------------------------

    def kill_before_the_receipt(self, victim: Node, topics: list[str], step: Callable[[], None]) -> None:
        """Do a step whose entry goes to one of these topics; the node is started again when it is done."""
        relay, before = victim.relay("pulsar"), self._ends(topics)
        relay.delay_seconds = _DELAY_SECONDS
        with ThreadPoolExecutor(1) as beside:
            doing = beside.submit(step)
            until = time.monotonic() + _SECONDS
            while self._ends(topics) == before:
                assert time.monotonic() < until, "Pulsar was given nothing"
                let_pass(0.02)
            victim.kill()
            relay.delay_seconds = 0
            doing.result(_SECONDS)
        victim.start()
        self._nodes.wait_until_settled()

    def coordinator(self, name: str, key_type: int) -> Node:
        """Of a transactional id, or of a group."""
        asked = find_coordinator.Request(key=name, key_type=key_type)
        for _ in range(100):
            found = ask_at(self._nodes.any().kafka, find_coordinator.API, asked, 3)
            if found.error_code == ErrorCode.NONE:
                return self._nodes.at(f"{found.host}:{found.port}")
            let_pass(0.1)
        raise AssertionError(found)

    def leader(self) -> Node:
        """Of the partition."""
        told = self._admin.list_topics(self.topic, timeout=30)
        broker = told.brokers[told.topics[self.topic].partitions[0].leader]
        return self._nodes.at(f"{broker.host}:{broker.port}")

    def slots(self, name: str) -> list[str]:
        """The partitions of one of the bridge's topics."""
        return [f"{self._nodes.namespace}-bridge/{name}-partition-{number}" for number in range(8)]

    def data(self) -> list[str]:
        """The partition's topic."""
        return [f"{self._nodes.namespace}/{self.topic}-partition-0"]

    def _ends(self, topics: list[str]) -> list[str]:
        told = [self._broker.admin("GET", f"persistent/{topic}/internalStats") for topic in topics]
        return [cast("dict[str, str]", one)["lastConfirmedEntry"] for one in told]

    # ---- what is there -----------------------------------------------------------------------------------------------

    def read(self) -> list[str]:
        """All that is committed, by a reader that comes now."""
        reader = Consumer({**self._server, "group.id": "unused", "isolation.level": "read_committed"})
        place = TopicPartition(self.topic, 0, OFFSET_BEGINNING)
        reader.assign([place])
        _, end = reader.get_watermark_offsets(place, _SECONDS)
        values: list[str] = []
        until = time.monotonic() + _SECONDS
        while (at := max(reader.position([place])[0].offset, 0)) < end:
            assert time.monotonic() < until, f"read up to {at} of {end}"
            values += [one.value().decode() for one in reader.consume(100, 0.2) if one.error() is None]
        reader.close()
        return values

    def committed(self) -> int:
        """The group's stable offset."""
        return int(self._consumer.committed([TopicPartition(self.topic, 0)], _SECONDS)[0].offset)


@pytest.mark.timeout(300)
def test_what_was_stored_before_the_kill_counts_once(
    broker: PrivatePulsar, start_nodes: Callable[..., Nodes], topic: str
) -> None:
    nodes = start_nodes(3, relayed=True)
    nodes.wait_until_settled()
    scene = Scene(broker, nodes, topic)
    transactions = scene.slots("__bridge_transactions")

    holder = scene.coordinator(scene.id, find_coordinator.TRANSACTION)
    scene.kill_before_the_receipt(holder, transactions, lambda: scene.write("first"))
    scene.kill_before_the_receipt(scene.leader(), scene.data(), lambda: scene.write("second"))
    scene.commit_offset(1)
    of_group = scene.coordinator(scene.group, find_coordinator.GROUP)
    scene.kill_before_the_receipt(of_group, scene.slots("__bridge_groups"), lambda: scene.commit_offset(2))
    assert scene.read() == []
    holder = scene.coordinator(scene.id, find_coordinator.TRANSACTION)
    scene.kill_before_the_receipt(holder, transactions, scene.commit)
    assert scene.read() == ["first", "second"]
    assert scene.committed() == 2

    scene.begin()
    scene.write("aborted")
    holder = scene.coordinator(scene.id, find_coordinator.TRANSACTION)
    scene.kill_before_the_receipt(holder, transactions, lambda: scene.producer.abort_transaction(_SECONDS))
    scene.producer.begin_transaction()
    scene.write("third")
    scene.commit()
    assert scene.read() == ["first", "second", "third"]
