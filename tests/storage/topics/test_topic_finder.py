"""Finding a topic: concurrent callers share a look-up, and an answer from before a change is not believed."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, cast

import pytest

from bridge.storage.topics.topic import Topic
from bridge.storage.topics.topic_finder import _MANY_LOOKUPS, TopicFinder

ID = uuid.UUID(int=7)
FOUND = (2, {"a": "b"})


class Lookup:
    """Answers each question when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, asyncio.Future[tuple[int, dict[str, str]] | None]]] = []
        self.names: frozenset[str] = frozenset()

    async def find(self, name: str) -> tuple[int, dict[str, str]] | None:
        answer: asyncio.Future[tuple[int, dict[str, str]] | None] = asyncio.get_running_loop().create_future()
        self.asked.append((name, answer))
        return await answer

    async def id_of(self, name: str, partitions: int, properties: dict[str, str]) -> uuid.UUID:
        return ID

    async def recent_names(self) -> frozenset[str]:
        return self.names

    def listed(self) -> frozenset[str] | None:
        return self.names

    def changed(self) -> None:
        """Whether lists are asked for again is the look-up's matter."""


class Bench:
    """A finder on a `Lookup`."""

    def __init__(self) -> None:
        self.lookup = Lookup()
        self.registered: list[Topic] = []
        self.finder = TopicFinder(cast(Any, self.lookup), self.register)

    def register(self, topic: Topic) -> Topic:
        self.registered.append(topic)
        return topic

    async def start(self, name: str = "t") -> asyncio.Task[Topic | None]:
        task = asyncio.ensure_future(self.finder.find(name))
        await settle()
        return task


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_concurrent_callers_share_one_lookup(bench: Bench) -> None:
    first, second = await bench.start(), await bench.start()
    ((_, answer),) = bench.lookup.asked
    answer.set_result(FOUND)
    topic = await first
    assert topic is not None
    assert (topic.name, topic.partitions, topic.partitioned, topic.id) == ("t", 2, True, ID)
    assert await second is topic
    assert bench.registered == [topic]


async def test_a_missing_topic_is_not_asked_for_again_until_it_may_exist(bench: Bench) -> None:
    finding = await bench.start()
    bench.lookup.asked[0][1].set_result(None)
    assert await finding is None
    assert await bench.finder.find("t") is None
    assert len(bench.lookup.asked) == 1
    bench.finder.may_exist("t")
    await bench.start()
    assert len(bench.lookup.asked) == 2
    bench.finder.close()


async def test_an_answer_from_before_a_change_is_asked_for_again(bench: Bench) -> None:
    finding = await bench.start()
    bench.finder.changed("t")
    bench.lookup.asked[0][1].set_result(None)
    await settle()
    assert len(bench.lookup.asked) == 2
    bench.lookup.asked[1][1].set_result((0, {}))
    topic = await finding
    assert topic is not None
    assert (topic.partitions, topic.partitioned) == (1, False)


async def test_a_topic_that_is_being_deleted_is_not_found(bench: Bench) -> None:
    with bench.finder.deleting("t"):
        finding = await bench.start()
        bench.lookup.asked[0][1].set_result(FOUND)
        assert await finding is None
    assert bench.registered == []


async def test_of_many_names_only_those_in_the_list_are_asked_for(bench: Bench) -> None:
    bench.lookup.names = frozenset({"listed"})
    finding = [await bench.start(f"t{number}") for number in range(_MANY_LOOKUPS)]
    missing, listed = await bench.start("missing"), await bench.start("listed")
    assert await missing is None
    assert [name for name, _ in bench.lookup.asked[_MANY_LOOKUPS:]] == ["listed"]
    for _, answer in bench.lookup.asked:
        answer.set_result(FOUND)
    assert all(await asyncio.gather(listed, *finding))


async def test_many_unknown_names_one_after_another_cost_a_few_lookups(bench: Bench) -> None:
    for number in range(_MANY_LOOKUPS):
        finding = await bench.start(f"unknown-{number}")
        bench.lookup.asked[-1][1].set_result(None)
        assert await finding is None
    for number in range(1000):
        assert await bench.finder.find(f"more-{number}") is None
    assert len(bench.lookup.asked) == _MANY_LOOKUPS
    assert len(bench.finder._missing._since) == _MANY_LOOKUPS  # and no memory
