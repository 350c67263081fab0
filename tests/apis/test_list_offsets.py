"""ListOffsets: what each special timestamp finds, and in which versions."""

import asyncio
from typing import Any

import pytest

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


@pytest.mark.parametrize("timestamp", [list_offsets.LATEST, list_offsets.EARLIEST])
@pytest.mark.parametrize("version", [0, 10])
def test_a_partition_that_hangs_keeps_no_other_from_its_answer(
    bridge: BridgeThread, written_topic: str, monkeypatch: pytest.MonkeyPatch, timestamp: int, version: int
) -> None:
    async def answer(*, committed: bool = False) -> int:
        return 7

    async def hang(*, committed: bool = False) -> None:
        await asyncio.get_running_loop().create_future()

    for partition, asked in enumerate((answer, hang)):
        log = bridge.call(bridge.server.topics.partition(written_topic, partition))
        monkeypatch.setattr(log, "latest", asked)
        monkeypatch.setattr(log, "earliest", asked)
    monkeypatch.setattr(list_offsets, "_ENDS_SECONDS", 0.2)
    partitions = [list_offsets.RequestPartition(partition_index=index, timestamp=timestamp) for index in (0, 1)]
    topics = [list_offsets.RequestTopic(name=written_topic, partitions=partitions)]
    (told,) = ask(bridge, list_offsets.API, list_offsets.Request(replica_id=-1, topics=topics), version).topics
    assert [one.error_code for one in told.partitions] == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
