"""Aborted transactions of which nothing is left are forgotten, on two nodes and a real Pulsar; nothing else changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.pulsar.admin.rest import topic_path
from tests.apis.transactional import Nodes, transactions_of
from tests.support.bridges import BridgeThread
from tests.support.group_slots import wait_until_shared
from tests.support.pulsar import PulsarAddress

TRIMMED, KEPT, DELETED = "trimmed", "kept", "deleted"
_DAYS = 2 * 86_400


@pytest.fixture
def nodes(
    bridge_with: Callable[..., BridgeThread], pulsar: PulsarAddress, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Nodes]:
    """Two whose looks are two days later than it is."""
    namespace = pulsar.create_namespace()
    bridges = bridge_with(in_namespace=namespace), bridge_with(in_namespace=namespace)
    for node in bridges:
        monkeypatch.setattr(transactions_of(node)._pruning, "_wall", lambda: time.time() + _DAYS)
    admin = AdminClient({"bootstrap.servers": bridges[0].kafka})
    for created in admin.create_topics([NewTopic(name, 1, 1) for name in (TRIMMED, KEPT, DELETED)]).values():
        created.result(30)
    wait_until_shared(*bridges)  # a look remembers what it found in its own slots alone
    yield bridges


def _transaction(producer: Producer, topics: list[str], value: str, *, committed: bool) -> None:
    producer.begin_transaction()
    for topic in topics:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0  # an abort would take back what is not sent
    if committed:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def _send_offset(producer: Producer, bootstrap: str) -> None:
    """In the transaction that is open."""
    metadata = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"}).consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(KEPT, 0, 1)], metadata, 30)


def _read(node: BridgeThread, topic: str, *, committed: bool) -> list[str]:
    """All values that are there now."""
    level = "read_committed" if committed else "read_uncommitted"
    consumer = Consumer({"bootstrap.servers": node.kafka, "group.id": "reader", "isolation.level": level})
    partition = TopicPartition(topic, 0)
    low, high = consumer.get_watermark_offsets(partition, 30)
    consumer.assign([TopicPartition(topic, 0, low)])
    found: list[str] = []
    while consumer.position([partition])[0].offset < high and low < high:
        record = consumer.poll(30)
        assert record is not None
        if record.error() is None:
            value = record.value()
            found.append(value.decode() if isinstance(value, bytes) else str(value))
    consumer.close()
    return found


def _aborted(node: BridgeThread) -> int:
    """The records of aborted transactions that a node knows."""
    outcomes = transactions_of(node).outcomes
    return sum(map(outcomes.count_aborted, outcomes.known_slots()))


def _look(nodes: Nodes) -> None:
    for node in nodes:
        node.call(transactions_of(node)._pruning.look())
    for node in nodes:  # when all have looked: what one has deleted the other hears a little later
        node.call(transactions_of(node).outcomes.confirm())


def _trim(node: BridgeThread, topic: str) -> None:
    full = f"persistent://{node.namespace}/{topic}-partition-0"
    node.call(node.server.topics._storage.admin.unload(full))
    node.call(node.server.topics._storage.admin.call("DELETE", f"{topic_path(full)}/truncate"))


def _wait_until_settled(node: BridgeThread) -> None:
    """Until no transaction has a pending offset: groups settle those of a decided one a moment after it."""
    until = time.monotonic() + 30
    while left := node.call(node.server.store.pending_transactions()):
        assert time.monotonic() < until, left


def test_what_nothing_is_left_of_is_forgotten_and_nothing_aborted_is_shown(nodes: Nodes) -> None:
    bootstrap = ",".join(node.kafka for node in nodes)
    producers = [Producer({"bootstrap.servers": bootstrap, "transactional.id": f"id-{number}"}) for number in range(4)]
    for producer in producers:
        producer.init_transactions(30)
        _transaction(producer, [TRIMMED], "before", committed=True)
        _transaction(producer, [TRIMMED], "aborted", committed=False)
        producer.begin_transaction()
        _send_offset(producer, bootstrap)
        producer.abort_transaction(30)
        _transaction(producer, [DELETED], "aborted", committed=False)
        _transaction(producer, [TRIMMED, KEPT], "aborted", committed=False)
    _wait_until_settled(nodes[0])
    _look(nodes)
    assert [_aborted(node) for node in nodes] == [4 * 4] * 2
    _look(nodes)
    assert [_aborted(node) for node in nodes] == [4 * 3] * 2  # those with an offset alone, which is settled

    _trim(nodes[0], TRIMMED)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([DELETED])[DELETED].result(30)
    for producer in producers:
        _transaction(producer, [TRIMMED, KEPT], "after", committed=True)
    _look(nodes)
    assert [_aborted(node) for node in nodes] == [4 * 3] * 2
    _look(nodes)
    for node in nodes:
        assert _aborted(node) == 4  # those that have left something in the topic that is kept
        assert _read(node, KEPT, committed=True) == ["after"] * 4
        assert _read(node, KEPT, committed=False) == ["aborted"] * 4 + ["after"] * 4
        assert _read(node, TRIMMED, committed=True) == ["after"] * 4
    assert sum(node.server.metrics.transactions.pruned_records.value for node in nodes) == 12

    _trim(nodes[1], KEPT)
    _look(nodes)
    _look(nodes)
    assert [_aborted(node) for node in nodes] == [0, 0]


def test_pending_offsets_of_all_groups_are_read_by_each_node(nodes: Nodes) -> None:
    bootstrap = ",".join(node.kafka for node in nodes)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "pending"})
    producer.init_transactions(30)
    producer.begin_transaction()
    _send_offset(producer, bootstrap)
    found = [node.call(node.server.store.pending_transactions()) for node in nodes]
    assert found[0] == found[1]
    assert len(found[0]) == 1
    producer.abort_transaction(30)
    _wait_until_settled(nodes[1])
