"""ListOffsets: what each special timestamp finds, and in which versions."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from bridge.apis import (
    create_topics,
    delete_records,
    list_offsets,
)
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread


@pytest.fixture
def topic(bridge: BridgeThread) -> Iterator[str]:
    """Two partitions; 7 records of one idempotent producer in the first, which is still there."""
    name = unique("offsets")
    wanted = create_topics.RequestTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
    assert ask(bridge, create_topics.API, create_topics.Request(topics=[wanted])).topics[0].error_code == 0
    producer = Producer({"bootstrap.servers": bridge.kafka, "enable.idempotence": True})
    for number in range(7):
        producer.produce(name, b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    yield name
    del producer


def found(bridge: BridgeThread, topic: str, timestamp: int, version: int) -> tuple[int, int]:
    """The error and the offset."""
    partition = list_offsets.RequestPartition(partition_index=0, timestamp=timestamp)
    topics = [list_offsets.RequestTopic(name=topic, partitions=[partition])]
    (answer,) = ask(bridge, list_offsets.API, list_offsets.Request(replica_id=-1, topics=topics), version).topics
    return answer.partitions[0].error_code, answer.partitions[0].offset


def test_all_records_are_local(bridge: BridgeThread, topic: str) -> None:
    assert found(bridge, topic, list_offsets.EARLIEST_LOCAL, 8) == (ErrorCode.NONE, 0)
    assert found(bridge, topic, list_offsets.LATEST_TIERED, 9) == (ErrorCode.NONE, -1)
    partition = delete_records.RequestPartition(partition_index=0, offset=3)
    topics = [delete_records.RequestTopic(name=topic, partitions=[partition])]
    answer: Any = ask(bridge, delete_records.API, delete_records.Request(topics=topics, timeout_ms=30_000))
    assert answer.topics[0].partitions[0].low_watermark == 3
    assert found(bridge, topic, list_offsets.EARLIEST_LOCAL, 10) == (ErrorCode.NONE, 3)


def test_special_timestamps_are_unsupported_before_their_version(bridge: BridgeThread, topic: str) -> None:
    unsupported = (ErrorCode.UNSUPPORTED_VERSION, -1)
    for timestamp, since in (
        (list_offsets.MAX_TIMESTAMP, 7),
        (list_offsets.EARLIEST_LOCAL, 8),
        (list_offsets.LATEST_TIERED, 9),
    ):
        assert found(bridge, topic, timestamp, since - 1) == unsupported
        assert found(bridge, topic, timestamp, since)[0] == ErrorCode.NONE
    assert found(bridge, topic, -6, 10) == unsupported
