"""ListOffsets: what each special timestamp finds, and in which versions."""

from typing import Any

from bridge.apis import delete_records, list_offsets
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask
from tests.support.bridges import BridgeThread


def found(bridge: BridgeThread, topic: str, timestamp: int, version: int) -> tuple[int, int]:
    """The error and the offset."""
    partition = list_offsets.RequestPartition(partition_index=0, timestamp=timestamp)
    topics = [list_offsets.RequestTopic(name=topic, partitions=[partition])]
    (answer,) = ask(bridge, list_offsets.API, list_offsets.Request(replica_id=-1, topics=topics), version).topics
    return answer.partitions[0].error_code, answer.partitions[0].offset


def test_all_records_are_local(bridge: BridgeThread, written_topic: str) -> None:
    assert found(bridge, written_topic, list_offsets.EARLIEST_LOCAL, 8) == (ErrorCode.NONE, 0)
    assert found(bridge, written_topic, list_offsets.LATEST_TIERED, 9) == (ErrorCode.NONE, -1)
    partition = delete_records.RequestPartition(partition_index=0, offset=3)
    topics = [delete_records.RequestTopic(name=written_topic, partitions=[partition])]
    answer: Any = ask(bridge, delete_records.API, delete_records.Request(topics=topics, timeout_ms=30_000))
    assert answer.topics[0].partitions[0].low_watermark == 3
    assert found(bridge, written_topic, list_offsets.EARLIEST_LOCAL, 10) == (ErrorCode.NONE, 3)


def test_special_timestamps_are_unsupported_before_their_version(bridge: BridgeThread, written_topic: str) -> None:
    unsupported = (ErrorCode.UNSUPPORTED_VERSION, -1)
    for timestamp, since in (
        (list_offsets.MAX_TIMESTAMP, 7),
        (list_offsets.EARLIEST_LOCAL, 8),
        (list_offsets.LATEST_TIERED, 9),
    ):
        assert found(bridge, written_topic, timestamp, since - 1) == unsupported
        assert found(bridge, written_topic, timestamp, since)[0] == ErrorCode.NONE
    assert found(bridge, written_topic, -6, 10) == unsupported
