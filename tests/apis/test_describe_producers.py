"""DescribeProducers: the idempotent producers of a partition."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from bridge.apis import (
    create_topics,
    describe_producers,
)
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread


@pytest.fixture
def topic(bridge: BridgeThread) -> Iterator[str]:
    """Two partitions; 7 records of one idempotent producer in the first, which is still there."""
    name = unique("producers")
    wanted = create_topics.RequestTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
    assert ask(bridge, create_topics.API, create_topics.Request(topics=[wanted])).topics[0].error_code == 0
    producer = Producer({"bootstrap.servers": bridge.kafka, "enable.idempotence": True})
    for number in range(7):
        producer.produce(name, b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    yield name
    del producer


def test_producers_are_listed_with_their_last_sequence(bridge: BridgeThread, topic: str) -> None:
    topics = [describe_producers.RequestTopic(name=topic, partition_indexes=[0, 1])]
    (answer,) = ask(bridge, describe_producers.API, describe_producers.Request(topics=topics)).topics
    written, silent = answer.partitions
    (producer,) = written.active_producers
    assert producer.producer_id >= 0
    assert (producer.producer_epoch, producer.last_sequence) == (0, 6)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)
    assert silent.active_producers == []
