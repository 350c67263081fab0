"""DescribeProducers: the idempotent producers of a partition."""

from bridge.apis import describe_producers
from tests.apis.wire import ask
from tests.support.bridges import BridgeThread


def test_producers_are_listed_with_their_last_sequence(bridge: BridgeThread, written_topic: str) -> None:
    topics = [describe_producers.RequestTopic(name=written_topic, partition_indexes=[0, 1])]
    (answer,) = ask(bridge, describe_producers.API, describe_producers.Request(topics=topics)).topics
    written, silent = answer.partitions
    (producer,) = written.active_producers
    assert producer.producer_id >= 0
    assert (producer.producer_epoch, producer.last_sequence) == (0, 6)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)
    assert silent.active_producers == []
