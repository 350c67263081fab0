"""What groups of the new consumer protocol get to know of topics."""

import asyncio
import uuid

import pytest

from bridge.errors import KafkaError
from bridge.groups.consumer.model import Pattern, TopicFacts
from bridge.groups.consumer.topics import Catalogue
from bridge.kafka.error_codes import ErrorCode
from tests.groups.fake_topics import FakeTopic, FakeTopics


async def test_names_and_patterns_are_looked_up() -> None:
    topics = FakeTopics(ta=1, tb=2, u=3)
    view = await Catalogue(topics).view(["u", "none"], [Pattern("t.*"), Pattern("x")], fresh=False)
    assert view.topics == {name: TopicFacts(one.id, one.partitions) for name, one in topics.here.items()}
    assert view.resolved == {Pattern("t.*"): {"ta", "tb"}, Pattern("x"): frozenset()}


async def test_a_pattern_that_is_none_is_told() -> None:
    catalogue = Catalogue(FakeTopics(t=1))
    await catalogue.check("(a+)+b")
    with pytest.raises(KafkaError) as raised:
        await catalogue.check("(x{1000}){1000}")
    assert raised.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_a_pattern_finds_topics_that_are_new_and_loses_those_that_are_gone() -> None:
    topics = FakeTopics(ta=1, tb=1)
    catalogue = Catalogue(topics)
    assert (await catalogue.view([], [Pattern("t.*")], fresh=True)).topics.keys() == {"ta", "tb"}
    del topics.here["ta"]
    topics.here["tc"] = FakeTopic(1)
    assert (await catalogue.view([], [Pattern("t.*")], fresh=True)).resolved == {Pattern("t.*"): {"tb", "tc"}}


async def test_a_topic_without_an_id_cannot_be_told() -> None:
    topics = FakeTopics()
    topics.here["t"] = FakeTopic(1, uuid.UUID(int=0))
    assert (await Catalogue(topics).view(["t"], [], fresh=True)).topics == {}


async def test_a_name_that_can_be_no_topics_is_none() -> None:
    topics = FakeTopics()
    topics.refuses = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert (await Catalogue(topics).view(["//"], [], fresh=True)).topics == {}
    topics.refuses = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(KafkaError):
        await Catalogue(topics).view(["t"], [], fresh=True)


async def test_all_names_are_listed_once_for_many() -> None:
    topics = FakeTopics(t=1)
    catalogue = Catalogue(topics)
    await asyncio.gather(*(catalogue.view([], [Pattern("x")], fresh=True) for _ in range(5)))
    assert topics.asked == 1
    await catalogue.view([], [Pattern("x")], fresh=False)
    assert topics.asked == 1
    await catalogue.view([], [Pattern("x")], fresh=True)
    assert topics.asked == 2
