"""Internal topics of streams groups, created by the rules of CreateTopics."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.errors import KafkaError
from bridge.groups.streams.model import TopicInfo
from bridge.kafka.error_codes import ErrorCode
from bridge.requests import internal_topics
from bridge.requests.topic_creation import MAX_PARTITIONS


class Bridge:
    """A broker that has no topics, and a Pulsar that never creates one."""

    def __init__(self) -> None:
        self.wanted: list[TopicInfo] = []
        self.broker: Any = SimpleNamespace(
            authorization=None,
            groups=SimpleNamespace(create_internal_topics=self._begin),
            topics=SimpleNamespace(
                exists=self._nothing,
                administration=SimpleNamespace(validate_configs=self._nothing),
                partition_limit=SimpleNamespace(check=self._nothing),
                create=self._create,
            ),
        )
        self.session: Any = SimpleNamespace(mutations=None)

    async def begin(self, *wanted: TopicInfo) -> str:
        return await internal_topics.begin("g", wanted, self.broker, self.session)

    def _begin(self, group_id: str, wanted: tuple[TopicInfo, ...], create: Any) -> str:
        self.wanted += wanted
        self.create = create
        return ""

    async def _nothing(self, *_: Any) -> None:
        """There is none, or nothing against it."""

    async def _create(self, *_: Any, is_new: bool) -> None:
        await asyncio.Event().wait()


async def test_more_partitions_than_one_request_may_create_are_refused() -> None:
    bridge = Bridge()
    told = await bridge.begin(TopicInfo("a", MAX_PARTITIONS), TopicInfo("b", 1))
    assert (told, bridge.wanted) == ("; Creation failed: they have more than 10000 partitions.", [])
    assert await bridge.begin(TopicInfo("a", MAX_PARTITIONS)) == ""
    assert [one.name for one in bridge.wanted] == ["a"]


async def test_a_topic_that_pulsar_does_not_create_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internal_topics, "_TIMEOUT_MS", 1)
    bridge = Bridge()
    await bridge.begin(TopicInfo("a", 1))
    with pytest.raises(KafkaError) as refused:
        await bridge.create(bridge.wanted[0])
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
