"""Protocol 2 of transactions (KIP-890) on three nodes: leaders and groups' coordinators ask an id's coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bridge.apis import api_versions
from bridge.requests.features import TRANSACTION_VERSION
from tests.apis.wire import ask_at, unique
from tests.clients.model import attempts
from tests.clients.transactions.java import JavaTransactions
from tests.clients.transactions.raw import READ_COMMITTED, READ_UNCOMMITTED, RawProducer
from tests.faults.processes import let_pass
from tests.faults.topics import create
from tests.support.java import KAFKA
from tests.support.nodes import Node, Nodes

PARTITIONS = 6
"""Of which each node leads some."""
PRODUCERS = 6
_NEVER_MS = 600_000


def transaction_version(node: Node) -> int:
    """What a node tells clients of."""
    answer = ask_at(node.kafka, api_versions.API, api_versions.Request(), 4)
    assert answer.finalized_features_epoch > 0
    told: dict[str, int] = {one.name: one.max_version_level for one in answer.finalized_features}
    return told[TRANSACTION_VERSION]


@pytest.fixture
def nodes(start_nodes: Callable[..., Nodes], topic: str) -> Nodes:
    """Three, and the topic."""
    started = start_nodes(3)
    started.wait_until_settled()
    create(started.bootstrap(), topic, PARTITIONS)
    return started


@pytest.fixture
def producers(nodes: Nodes, topic: str) -> Iterator[list[RawProducer]]:
    """Some, of ids that are coordinated on every node."""
    with ExitStack() as opened:
        made = [RawProducer(nodes.any().kafka, topic, timeout_ms=_NEVER_MS) for _ in range(PRODUCERS)]
        for producer in made:
            opened.enter_context(producer)
            producer.await_leaders(PARTITIONS)
            assert producer.init() == "NONE new id 0"
        yield made


def test_each_node_tells_clients_to_use_it(nodes: Nodes) -> None:
    assert [transaction_version(node) for node in nodes.all] == [2] * 3


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "aborts"])
def test_records_and_offsets_tell_the_transaction_themselves_on_any_node(
    producers: list[RawProducer], commits: bool
) -> None:
    for producer in producers:
        assert [producer.write(partition, 12) for partition in range(PARTITIONS)] == ["NONE"] * PARTITIONS
        assert producer.commit_offset(7, 5) == "NONE"
        assert producer.described().transaction_state == "Ongoing"
        assert producer.committed(stable=False) == "-1"
        assert producer.committed(stable=True) == "UNSTABLE_OFFSET_COMMIT"
    for producer in producers:
        assert producer.end(commits, 5) == "NONE +1"  # an epoch for each transaction
        assert producer.committed(stable=True) == ("7" if commits else "-1")
        assert producer.end(commits, 5, epoch=-1).startswith("NONE")
    assert [producers[0].held(partition) for partition in range(PARTITIONS)] == [0] * PARTITIONS


def test_a_tool_aborts_what_is_open_wherever_it_is_coordinated(producers: list[RawProducer]) -> None:
    for producer in producers:
        assert [producer.write(partition, 12) for partition in range(PARTITIONS)] == ["NONE"] * PARTITIONS
    for number, producer in enumerate(producers):
        assert producer.mark(number % PARTITIONS, committed=True) == "CLUSTER_AUTHORIZATION_FAILED"
        assert producer.mark(number % PARTITIONS, epoch=-1) == "INVALID_PRODUCER_EPOCH"
        assert producer.mark(number % PARTITIONS, stranger=True) == "NONE"
        assert producer.described().transaction_state == "Ongoing"
        assert producer.mark(number % PARTITIONS) == "NONE"
        assert producer.described().transaction_state == "CompleteAbort"
        assert producer.mark(number % PARTITIONS) == "NONE"  # nothing is open any more
        assert producer.write(0, 12) == "INVALID_PRODUCER_EPOCH"
        assert producer.end(True, 5) == "INVALID_TXN_STATE"
        assert producer.end(False, 5) == "NONE +1"  # as it is told that it did
    reader = producers[0]
    assert [reader.held(partition) for partition in range(PARTITIONS)] == [0] * PARTITIONS
    assert all(reader.offset(READ_COMMITTED, partition=one) == PRODUCERS for one in range(PARTITIONS))


def test_the_coordinator_is_killed(nodes: Nodes, producers: list[RawProducer]) -> None:
    """Its successor knows what was told; until there is one, leaders have their clients send again."""
    writer = producers[0]
    assert writer.write(0, 12) == "NONE"
    victim = nodes.at(writer.coordinated_at())
    survivor = nodes.others(victim)[0]
    partition = next(one for one in range(1, PARTITIONS) if nodes.at(writer.led_at(one)) is not victim)
    victim.kill()
    told = set()
    for _ in attempts("the next coordinator"):
        told.add(writer.write(partition, 12))
        if "NONE" in told:
            break
        let_pass(0.05)
    assert told <= {"NONE", "NOT_ENOUGH_REPLICAS"}
    writer.reconnect(survivor.kafka)
    assert writer.end(True, 5) == "NONE +1"
    victim.start()
    nodes.wait_until_settled()
    writer.reconnect(survivor.kafka)
    assert (writer.offset(READ_COMMITTED, partition=partition), writer.offset(READ_COMMITTED, partition=0)) == (1, 1)
    assert writer.held(partition) == 0


@pytest.mark.parametrize(("linked", "grows"), [(True, 1), (False, 0)], ids=["linked", "apart"])
def test_java_s_producer_uses_it_where_nodes_can_ask_each_other(
    start_nodes: Callable[..., Nodes], topic: str, tmp_path: Path, linked: bool, grows: int
) -> None:
    nodes = start_nodes(3, linked=linked)
    nodes.wait_until_settled()
    create(nodes.bootstrap(), topic, PARTITIONS)
    assert [transaction_version(node) for node in nodes.all] == [1 + linked] * 3
    java, transactional_id, group = (
        JavaTransactions(KAFKA, nodes.bootstrap(), tmp_path / "java"),
        unique("java"),
        unique("group"),
    )
    with RawProducer(nodes.any().kafka, topic, transactional_id=transactional_id) as raw:
        producer = java.producer(transactional_id)
        begun = raw.described().producer_epoch
        for number, commits in enumerate([True, False, True]):
            producer.begin()
            for partition in range(PARTITIONS):
                producer.send(topic, [f"{number}"], partition)
            producer.send_offsets(group, topic, {0: number + 1})
            producer.commit() if commits else producer.abort()
        assert raw.settled().producer_epoch - begun == 3 * grows
        reader = java.reader(topic, range(PARTITIONS), committed=True)
        assert reader.read() == {partition: ["0", "2"] for partition in range(PARTITIONS)}
        raw.group = group
        assert raw.committed(stable=True) == "3"
        assert raw.offset(READ_COMMITTED) == raw.offset(READ_UNCOMMITTED)
    java.close()
