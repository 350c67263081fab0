"""Topics that come, go and change while others list, look for and use them: by schedule, on a real Pulsar."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar import Admin
from bridge.storage.partition import PartitionLog
from bridge.storage.topics.topics import Topics
from tests.apis.wire import unique
from tests.storage.conftest import Bench, prepared


class HeldAdmin(Admin):
    """Asks the real Pulsar; a test may keep an answer back until other things have happened."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._held: dict[str, tuple[asyncio.Event, asyncio.Event]] = {}

    @asynccontextmanager
    async def holding(self, path: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Keep back the next answer to a GET whose path ends so, until the block ends.

        What it gives waits until Pulsar has answered: what happens then is later than that.
        """
        asked, released = self._held[path] = asyncio.Event(), asyncio.Event()

        async def answered() -> None:
            await asyncio.wait_for(asked.wait(), 10)

        try:
            yield answered
        finally:
            released.set()

    async def call(self, method: str, path: str, **options: Any) -> Any:
        try:
            return await super().call(method, path, **options)
        finally:
            for end in [end for end in self._held if method == "GET" and path.endswith(end)]:
                asked, released = self._held.pop(end)
                asked.set()
                await released.wait()


@pytest.fixture
async def admin(bench: Bench) -> AsyncIterator[HeldAdmin]:
    admin = HeldAdmin(bench.settings.pulsar)
    await admin.start()
    bench.admin = admin
    yield admin
    await admin.close()


@pytest.fixture
async def topics(bench: Bench, admin: HeldAdmin) -> AsyncIterator[Topics]:
    topics = Topics(bench.storage())
    yield topics
    await topics.close()


async def write(log: PartitionLog) -> int:
    """Append one record, as a client would: it is retried on what passes."""
    async with asyncio.timeout(10):
        await log.make_ready()
        (offset,) = log.append_all([prepared(1)])
        return await offset


async def producers_of(bench: Bench, name: str) -> list[str]:
    """The names of the producers that the broker knows of the first partition."""
    namespace = bench.settings.pulsar.full_namespace
    stats: Any = await bench.admin.get(f"persistent/{namespace}/{name}-partition-0/stats")
    return [one["producerName"] for one in stats["publishers"]]


async def test_a_listing_begun_before_a_creation_forgets_nothing(topics: Topics, admin: HeldAdmin) -> None:
    name = unique("made")
    async with admin.holding("/partitioned") as listed:
        listing = asyncio.ensure_future(topics.all())
        await listed()
        topic = await topics.create(name, 2)
        log = topics.log(topic, 0)
        assert await write(log) == 0
    assert name not in {one.name for one in await listing}
    assert topics.cached(name) is topic
    assert not topic.forgotten
    assert await write(log) == 1


async def test_a_question_begun_before_a_creation_does_not_deny_it(topics: Topics, admin: HeldAdmin) -> None:
    name = unique("made")
    async with admin.holding(f"{name}/partitions") as asked:
        looking = asyncio.ensure_future(topics.get(name))
        await asked()  # there is none, it will say
        await admin.create_partitioned(topics._names.pulsar(name), 1)
        creating = asyncio.ensure_future(topics.create(name, 1))
        topics._forget(name)  # as `create` and `delete` do
    with pytest.raises(KafkaError) as raised:
        await creating
    assert raised.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
    topic = await looking
    assert topic is not None
    assert topics.cached(name) is topic
    assert await write(topics.log(topic, 0)) == 0


async def test_many_create_while_others_list(topics: Topics, bench: Bench) -> None:
    names = [unique("made") for _ in range(12)]
    done = asyncio.Event()

    async def lists() -> None:
        while not done.is_set():
            await topics.all()

    listers = [asyncio.ensure_future(lists()) for _ in range(3)]
    made = await asyncio.gather(*(topics.create(name, 2) for name in names))
    offsets = await asyncio.gather(*(write(topics.log(topic, index)) for topic in made for index in (0, 1)))
    done.set()
    await asyncio.gather(*listers)
    assert offsets == [0] * 24
    assert {one.name for one in await topics.all()} >= set(names)


async def test_topics_that_cannot_be_looked_at_hold_up_no_look_at_others(
    topics: Topics, admin: HeldAdmin, bench: Bench
) -> None:
    """As topics without partitions of a broker that hangs, which has their properties."""
    made, others = unique("made"), [unique("stuck") for _ in range(20)]
    await admin.create_partitioned(topics._names.pulsar(made), 1)
    async with AsyncExitStack() as held:
        asked = []
        for name in others:
            await admin.call("PUT", f"persistent/{bench.settings.pulsar.full_namespace}/{name}")
            asked.append(await held.enter_async_context(admin.holding(f"{name}/properties")))
        looking = [asyncio.ensure_future(topics.get(name)) for name in others]
        for one in asked:
            await one()
        assert await topics.get(made) is not None
    assert None not in await asyncio.gather(*looking)


async def test_partitions_that_do_not_open_hold_up_no_creation_of_others(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, ended, writable = unique("stuck"), asyncio.Event(), PartitionLog.writable

    async def hang(log: PartitionLog) -> None:
        if stuck in log.topic:
            await ended.wait()
        await writable(log)

    monkeypatch.setattr(PartitionLog, "writable", hang)
    creating = asyncio.ensure_future(topics.create(stuck, 40))
    while topics.cached(stuck) is None:  # noqa: ASYNC110 - Pulsar creates it
        await asyncio.sleep(0.01)
    assert await asyncio.wait_for(topics.create(unique("made"), 1), 30)
    assert not creating.done()
    ended.set()
    await creating


@pytest.mark.parametrize("step", range(12))
async def test_a_log_closed_while_it_opens_leaves_nothing_behind(topics: Topics, bench: Bench, step: int) -> None:
    """However far it has come, its name is free for the next."""
    topic = await topics.create(unique("made"), 1)
    topics.forget(topic)
    topic = await found(topics, topic.name)
    opening = asyncio.ensure_future(topics.log(topic, 0).writable())
    for _ in range(step):
        await asyncio.sleep(0 if step < 6 else 0.001)
    topics.forget(topic)
    await asyncio.wait((opening,))
    if opening.exception() is not None:
        assert isinstance(opening.exception(), KafkaError)
    with pytest.raises(KafkaError) as raised:
        topics.log(topic, 0)  # of what is forgotten nothing is opened any more
    assert raised.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    again = await found(topics, topic.name)
    assert await write(topics.log(again, 0)) == 0
    assert len(await producers_of(bench, topic.name)) == 1
    topics.forget(again)
    await topics._logs.wait_closed()
    assert await producers_of(bench, topic.name) == []


async def found(topics: Topics, name: str) -> Any:
    topic = await topics.get(name)
    assert topic is not None
    return topic


async def test_an_answer_from_before_a_change_does_not_undo_it(topics: Topics, admin: HeldAdmin) -> None:
    topic = await topics.create(unique("made"), 2)
    async with admin.holding(f"{topic.name}/partitions") as asked:
        topics._refresh(topic)
        await asked()
        await topics.add_partitions(topic, 5)
        await topics.administration.move_start(topic, 0, 0)
    assert topic.refresh_task is not None
    await topic.refresh_task
    assert topic.partitions == 5
    assert topics.cached(topic.name) is topic
    assert await write(topics.log(topic, 4)) == 0


async def test_a_topic_deleted_and_created_again_is_another(topics: Topics, admin: HeldAdmin) -> None:
    name = unique("made")
    first = await topics.create(name, 1)
    assert await write(topics.log(first, 0)) == 0
    topics.forget(first)
    async with admin.holding(f"{name}/partitions") as asked:
        looking = asyncio.ensure_future(topics.get(name))
        await asked()  # what it will say is of the first one
        await topics.delete(first)
        await admin.create_partitioned(topics._names.pulsar(name), 3)
    second = await looking
    assert second is not None
    assert (second.partitions, second.id != first.id) == (3, True)
    assert await write(topics.log(second, 2)) == 0


async def test_nothing_is_opened_after_the_end(topics: Topics, admin: HeldAdmin) -> None:
    topic = await topics.create(unique("made"), 1)
    topics.forget(topic)
    async with admin.holding(f"{topic.name}/partitions") as asked:
        looking = asyncio.ensure_future(topics.get(topic.name))
        await asked()
        await topics.close()
    with pytest.raises((KafkaError, asyncio.CancelledError)):
        await looking
    assert topics.cached(topic.name) is None
