"""DescribeShareGroupOffsets: what a request asks Pulsar, whatever it names how often."""

from types import SimpleNamespace
from typing import Any

import pytest

from bridge.apis import describe_share_group_offsets as describe
from bridge.apis import offset_fetch
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.schema import ZERO_UUID
from bridge.pulsar.types import Position
from bridge.storage.topics.closed_logs import AskedEnd
from tests.groups.share.bench import ShareBench


class _Ends:
    """Ends of partitions that no node leads."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    async def get(self, topic: str) -> None:
        return None

    async def end(self, topic: str, partition: int) -> AskedEnd:
        self.asked.append((topic, partition))
        return AskedEnd(10, Position(1, 0), None)


async def test_the_end_of_a_partition_is_asked_for_once() -> None:
    bench, ends = ShareBench(), _Ends()
    for partition, start in enumerate((3, 4)):
        await bench.groups.share_states.alter("g", ZERO_UUID, partition, start)
    topics = [describe.Topic(topic_name="t", partitions=[0, 1, 0])] * 2
    request = describe.Request(groups=[describe.RequestGroup(group_id="g", topics=topics)] * 2)
    broker: Any = SimpleNamespace(groups=bench.groups, topics=ends, closed_logs=ends)
    session: Any = SimpleNamespace(api_version=1)
    groups = (await describe.handle(request, broker, session)).groups
    assert [one.lag for group in groups for topic in group.topics for one in topic.partitions] == [7, 6, 7] * 4
    assert ends.asked == [("t", 0), ("t", 1)]


async def test_a_group_that_is_named_again_and_again_is_not_told_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, ends = ShareBench(), _Ends()
    topic = bench.topics.here["t"].id
    for partition in range(2):
        await bench.groups.share_states.alter("g", topic, partition, 1)
    monkeypatch.setattr(offset_fetch, "MOST_REPEATED", 2)
    request = describe.Request(groups=[describe.RequestGroup(group_id="g", topics=None)] * 4)
    broker: Any = SimpleNamespace(groups=bench.groups, topics=bench.topics, closed_logs=ends)
    session: Any = SimpleNamespace(api_version=0)
    groups = (await describe.handle(request, broker, session)).groups
    told = [(group.error_code, [len(one.partitions) for one in group.topics]) for group in groups]
    assert told == [(0, [2]), (0, [2]), (ErrorCode.INVALID_REQUEST, []), (ErrorCode.INVALID_REQUEST, [])]
