"""The APIs of the new consumer protocol, from decoded request to answer, on a coordinator with a store in memory."""

import asyncio
import threading
import uuid
from typing import Any

import pytest

from bridge.apis import (
    consumer_group_describe,
    consumer_group_heartbeat,
    list_groups,
    offset_fetch,
    streams_group_heartbeat,
)
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.streams_messages import TaskIds
from tests.apis.group_bench import Bench
from tests.groups.clock import settle
from tests.groups.fake_topics import FakeTopics


class ConsumerBench(Bench):
    """With one topic."""

    def __init__(self) -> None:
        topics = FakeTopics(t=2)
        super().__init__(topics)
        self.topics = topics

    async def beat(self, epoch: int, version: int = 1, **changes: Any) -> Any:
        values: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": epoch, **changes}
        return await self.call(consumer_group_heartbeat, version, **values)

    async def joining(self, version: int = 1, **changes: Any) -> Any:
        values = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ["t"], "topic_partitions": [], **changes}
        answer = await self.beat(0, version, **values)
        return await answer if isinstance(answer, asyncio.Future) else answer


@pytest.mark.parametrize("version", [0, 1])
async def test_an_answer_names_topics_by_id(version: int) -> None:
    bench = ConsumerBench()
    joined = await bench.joining(version)
    assert (joined.error_code, joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == (0, "m", 1, 5000)
    (assigned,) = joined.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (bench.topics.here["t"].id, [0, 1])
    stays = await bench.beat(1, version)
    assert (stays.member_epoch, stays.assignment) == (1, None)
    left = await (await bench.beat(-1, version))
    assert (left.member_epoch, left.heartbeat_interval_ms) == (-1, 0)


async def test_version_0_gives_out_ids() -> None:
    joined = await ConsumerBench().joining(0, member_id="")
    assert uuid.UUID(joined.member_id)


async def test_a_heartbeat_of_a_group_that_cannot_be_stored_says_so() -> None:
    bench = ConsumerBench()
    bench.store.fails = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    refused = await bench.joining()
    assert (refused.error_code, refused.member_id, refused.member_epoch) == (15, None, 0)
    bench.store.refuses = KafkaError(ErrorCode.NOT_COORDINATOR)
    assert (await bench.joining()).error_code == ErrorCode.NOT_COORDINATOR


async def test_what_a_member_owns_is_believed_however_it_is_split() -> None:
    bench = ConsumerBench()
    await bench.joining()
    topic = bench.topics.here["t"].id
    owned = [consumer_group_heartbeat.TopicPartitions(topic_id=topic, partitions=[part]) for part in (0, 1)]
    beat = await bench.beat(1, topic_partitions=owned)
    assert (beat.error_code, beat.assignment) == (0, None)


async def test_only_what_is_stored_is_described() -> None:
    bench = ConsumerBench()
    await bench.joining()
    bench.store.held_back = []
    waiting = await bench.beat(1, subscribed_topic_names=[])
    for version in (0, 1):
        fields = {"group_ids": ["g"], "include_authorized_operations": False}
        (group,) = (await bench.call(consumer_group_describe, version, **fields)).groups
        assert (group.group_state, group.group_epoch, group.members[0].subscribed_topic_names) == ("Stable", 1, ["t"])
    bench.store.release()
    await settle()
    await waiting
    (group,) = (await bench.call(consumer_group_describe, 1, **fields)).groups
    assert (group.group_state, group.members[0].assignment.topic_partitions) == ("Reconciling", [])
    assert group.members[0].target_assignment.topic_partitions == []
    bench.store.refuses = KafkaError(ErrorCode.NOT_COORDINATOR)
    (group,) = (await bench.call(consumer_group_describe, 1, **{**fields, "group_ids": ["h"]})).groups
    assert group.error_code == ErrorCode.NOT_COORDINATOR


async def test_both_kinds_are_listed() -> None:
    bench = ConsumerBench()
    await bench.joining()
    await bench.joining(group_id="h")
    await (await bench.beat(-1, group_id="h"))
    await bench.formed(group_id="c")
    listed = (await bench.call(list_groups, 5)).groups
    assert sorted((one.group_id, one.protocol_type, one.group_state, one.group_type) for one in listed) == [
        ("c", "consumer", "Stable", "classic"),
        ("g", "consumer", "Stable", "consumer"),
        ("h", "consumer", "Empty", "consumer"),
    ]
    assert [one.group_id for one in (await bench.call(list_groups, 5, types_filter=["CLASSIC"])).groups] == ["c"]
    empty = (await bench.call(list_groups, 5, types_filter=["consumer"], states_filter=["empty"])).groups
    assert [one.group_id for one in empty] == ["h"]
    assert (await bench.call(list_groups, 5, types_filter=["share"])).groups == []


async def test_a_fetch_with_an_old_epoch_is_refused() -> None:
    bench = ConsumerBench()
    await bench.joining()
    asked = [offset_fetch.RequestGroup(group_id="g", member_id="m", member_epoch=0, topics=[])]
    (group,) = (await bench.call(offset_fetch, 9, groups=asked)).groups
    assert group.error_code == ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.parametrize("count", [1, 5000])
async def test_a_thread_goes_through_very_many_partitions_that_a_member_says_it_has(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop took a third of a second for as many as a request may name."""
    bench, here, threads = ConsumerBench(), threading.get_ident(), set[int]()

    def noted(work: Any) -> Any:
        def noting(*asked: Any) -> Any:
            threads.add(threading.get_ident())
            return work(*asked)

        return noting

    for api, work in ((consumer_group_heartbeat, "assignment"), (streams_group_heartbeat, "_tasks")):
        monkeypatch.setattr(api, work, noted(getattr(api, work)))
    owned = [
        consumer_group_heartbeat.TopicPartitions(topic_id=uuid.UUID(int=one), partitions=[0]) for one in range(count)
    ]
    assert (await bench.beat(3, topic_partitions=owned)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    tasks = {
        "active_tasks": [TaskIds(subtopology_id="0", partitions=list(range(count)))],
        "standby_tasks": [],
        "warmup_tasks": [],
    }
    values = {"group_id": "g", "member_id": "m", "member_epoch": 3, "endpoint_information_epoch": 0, **tasks}
    with pytest.raises(KafkaError):
        await bench.call(streams_group_heartbeat, 0, **values)
    assert (here in threads) == (count == 1)
