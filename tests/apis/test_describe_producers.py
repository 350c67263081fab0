"""DescribeProducers: the idempotent producers of a partition."""

from typing import Any

import pytest

from bridge.apis import describe_producers
from bridge.requests import leadership
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


def test_a_partition_that_is_named_often_is_looked_at_once(
    bridge: BridgeThread, written_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look asks Pulsar for the end of the log, and what is recorded of transactions."""
    looked: list[int] = []
    opened = leadership.opened

    async def counted(broker: Any, topic: Any, partition: int) -> Any:
        looked.append(partition)
        return await opened(broker, topic, partition)

    monkeypatch.setattr(leadership, "opened", counted)
    topic = describe_producers.RequestTopic(name=written_topic, partition_indexes=[0, 1] * 50)
    answer = ask(bridge, describe_producers.API, describe_producers.Request(topics=[topic, topic]))
    assert [[one.partition_index for one in of.partitions] for of in answer.topics] == [[0, 1] * 50] * 2
    assert sorted(looked) == [0, 1]
