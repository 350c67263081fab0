"""Transactions behind one address: whichever node a client reaches, its requests get to who coordinates."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.apis.wire import unique
from tests.clients.transactions.confluent import ConfluentTransactions
from tests.clients.transactions.raw import RawProducer
from tests.support.one_address import OneAddress

PARTITIONS = 3
NODES = range(3)
IDS = 6
"""So many that some are coordinated on each node."""


@pytest.fixture
def topic(one_address: OneAddress) -> str:
    name = unique("transactions")
    admin = AdminClient({"bootstrap.servers": one_address.kafka})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    return name


def through(one_address: OneAddress, node: int, topic: str, of: RawProducer | None = None) -> RawProducer:
    """A producer at one node; `of`: the same, on another connection."""
    made = RawProducer(
        one_address.kafka,
        topic,
        transactional_id=None if of is None else of.transactional_id,
        through=one_address.direct[node],
    )
    if of is not None:
        made.group, made.producer_id, made.epoch = of.group, of.producer_id, of.epoch
    return made


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("commits", [True, False], ids=["commits", "aborts"])
@pytest.mark.parametrize("node", NODES)
def test_it_does_not_matter_which_node_is_asked(
    one_address: OneAddress, topic: str, node: int, protocol: int, commits: bool
) -> None:
    for _ in range(IDS):
        with through(one_address, node, topic) as producer:
            assert producer.init().startswith("NONE")
            if protocol == 1:
                assert [producer.add(one) for one in range(PARTITIONS)] == ["NONE"] * PARTITIONS
                assert producer.add_group() == "NONE"
            assert [producer.write(one, 10 + protocol) for one in range(PARTITIONS)] == ["NONE"] * PARTITIONS
            assert producer.commit_offset(7, 3 + protocol) == "NONE"
            assert producer.described().transaction_state == producer.listed() == "Ongoing"
            assert producer.end(commits, 3 + protocol).startswith("NONE")
            assert producer.committed(stable=True) == ("7" if commits else "-1")
    with through(one_address, (node + 1) % 3, topic) as reader:
        assert [reader.held(one) for one in range(PARTITIONS)] == [0] * PARTITIONS
        assert reader.listed() == "not listed"


@pytest.mark.parametrize(("first", "second"), [(one, other) for one in NODES for other in NODES if one != other])
def test_a_request_on_an_older_connection_at_another_node_closes_it(
    one_address: OneAddress, topic: str, first: int, second: int
) -> None:
    """Else it would end the next transaction of the epoch."""
    for _ in range(IDS):
        with through(one_address, first, topic) as old:
            assert old.init().startswith("NONE")
            assert old.add() == "NONE"
            with through(one_address, second, topic, old) as new:
                assert new.end(True, 4) == "NONE"
                assert new.add(1) == "NONE"
                with pytest.raises(ConnectionError):
                    old.end(False, 4)
                assert new.described().transaction_state == "Ongoing"
                assert new.end(True, 4) == "NONE"


def test_a_tool_aborts_at_any_node(one_address: OneAddress, topic: str) -> None:
    for number in range(IDS):
        with through(one_address, 0, topic) as producer, through(one_address, number % 3, topic) as tool:
            assert producer.init().startswith("NONE")
            assert producer.write(0, 12) == "NONE"
            tool.producer_id, tool.epoch = producer.producer_id, producer.epoch
            assert tool.mark() == "NONE"
            assert producer.described().transaction_state == "CompleteAbort"
            assert producer.held() == 0


def test_a_client_s_transactions(one_address: OneAddress, topic: str) -> None:
    family, transactional_id, group = ConfluentTransactions(one_address.kafka), unique("id"), unique("group")
    producer = family.producer(transactional_id)
    for number, commits in enumerate([True, False, True]):
        producer.begin()
        producer.send(topic, [f"{number}"])
        producer.send_offsets(group, topic, {0: number + 1})
        producer.commit() if commits else producer.abort()
    reader = family.reader(topic, [0], committed=True)
    assert reader.read() == {0: ["0", "2"]}
    with RawProducer(one_address.kafka, topic) as raw:
        raw.group = group
        assert raw.committed(stable=True) == "3"
    family.close()
