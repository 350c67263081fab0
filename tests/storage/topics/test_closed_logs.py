"""What Pulsar says of partitions that are not open: the ends that ListOffsets tells; asking changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bridge.pulsar.admin.rest import topic_path
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import EARLIEST, PulsarError
from bridge.storage.topics.closed_logs import ClosedLogs
from bridge.storage.topics.topics import Topics
from tests.clients.endpoint import unique
from tests.storage.conftest import Bench, prepared


@pytest_asyncio.fixture
async def topics(bench: Bench) -> AsyncIterator[Topics]:
    made = Topics(bench.storage())
    await made.start()
    yield made
    await made.close()


@pytest.fixture
def name() -> str:
    return unique("t")


@pytest.fixture
def closed(bench: Bench) -> ClosedLogs:
    """As after a start: nothing is known."""
    storage = bench.storage()
    return ClosedLogs(storage, Topics(storage))


async def test_the_end_is_the_one_that_list_offsets_tells(
    bench: Bench, topics: Topics, closed: ClosedLogs, name: str
) -> None:
    topic = await topics.create(name, 2)
    log = topics.log(topic, 1)
    for wanted, last in ((0, None), (3, (0, 3)), (8, (3, 8))):
        if wanted:
            await bench.append(log, prepared(wanted - log.end.offset))
        found = await closed.end(name, 1)
        assert found is not None
        assert found.offset == await log.latest() == wanted
        assert (None if found.last is None else found.last[:2]) == last
        if last is not None:
            assert await closed.end(name, 1, found) is found
    assert closed._topics.opened(name, 1) is None


async def test_a_trimmed_topic_ends_where_it_did(bench: Bench, topics: Topics, closed: ClosedLogs, name: str) -> None:
    topic = await topics.create(name, 1)
    log = topics.log(topic, 0)
    await bench.append(log, prepared(5))
    await log.close()
    await bench.admin.unload(log.topic)
    await bench.admin.call("DELETE", f"{topic_path(log.topic)}/truncate")
    found = await closed.end(name, 0)
    assert found is not None
    assert (found.offset, found.position, found.last) == (5, EARLIEST, None)
    assert await closed.published(name, 0, 2) is None


async def test_the_start_is_the_first_record_that_is_there(
    bench: Bench, topics: Topics, closed: ClosedLogs, name: str
) -> None:
    topic = await topics.create(name, 1)
    log = topics.log(topic, 0)
    end = await closed.end(name, 0)
    assert end is not None
    assert await closed.start(name, 0, end) == 0
    for _ in range(2):
        await bench.append(log, prepared(5))
    end = await closed.end(name, 0)
    assert end is not None
    assert await closed.start(name, 0, end) == 0
    await topics.administration.delete_records(topic, 0, log, 7)
    fresh = ClosedLogs(closed._storage, Topics(closed._storage))
    assert await fresh.start(name, 0, end) == 7


async def test_entries_are_read_from_an_offset_to_the_end_and_nothing_stays_open(
    bench: Bench, topics: Topics, closed: ClosedLogs, name: str
) -> None:
    topic = await topics.create(name, 1)
    log = topics.log(topic, 0)
    assert [one async for one in closed.entries(name, 0, 0)] == []
    for _ in range(4):
        await bench.append(log, prepared(5))
    found = [(one.batch.base, one.batch.next, one.by_kafka) async for one in closed.entries(name, 0, 7)]
    assert found == [(5, 10, True), (10, 15, True), (15, 20, True)]
    assert [one async for one in closed.entries(name, 0, 20)] == []
    assert closed._topics.opened(name, 0) is None


async def test_what_is_not_there_has_no_end_and_is_not_made_by_asking(
    topics: Topics, closed: ClosedLogs, name: str
) -> None:
    gone = unique("gone")
    await topics.create(name, 1)
    whole = await topics.create(gone, 1)
    assert await closed.end(gone, 0) is not None
    await topics.delete(whole)
    for where in ((gone, 0), (unique("never"), 0), (name, 1)):
        assert await closed.end(*where) is None
        assert await closed.published(*where, 0) is None
    assert (gone in await topics.names(), name in await topics.names()) == (False, True)


async def test_a_topic_may_come_back_as_another_kind(
    bench: Bench, topics: Topics, closed: ClosedLogs, name: str
) -> None:
    """What was known of the former one is found to be wrong, and forgotten."""
    topic = await topics.create(name, 1)
    assert await closed.end(name, 0) is not None
    await topics.delete(topic)
    full = f"persistent://{bench.settings.pulsar.full_namespace}/{name}"
    await bench.admin.create_non_partitioned(full)
    found = await closed.end(name, 0)
    assert found is not None
    assert found.offset == 0
    assert await closed.end(name, 1) is None


async def test_a_partition_that_is_missing_alone_has_an_end_that_is_not_known(
    bench: Bench, topics: Topics, closed: ClosedLogs, name: str
) -> None:
    await topics.create(name, 2)
    full = f"persistent://{bench.settings.pulsar.full_namespace}/{name}-partition-1"
    await bench.admin.delete_non_partitioned(full, force=True)
    with pytest.raises(PulsarError) as refused:
        await closed.end(name, 1)
    assert refused.value.code == pb.TopicNotFound


async def test_the_time_is_of_the_first_record_that_is_there(
    bench: Bench, topics: Topics, closed: ClosedLogs, name: str
) -> None:
    topic = await topics.create(name, 1)
    log = topics.log(topic, 0)
    for _ in range(3):
        await bench.append(log, prepared(4))
    await log.read(0, 1 << 20, 10)  # opens a reader at the tail
    times = [await closed.published(name, 0, offset) for offset in (0, 3, 4, 11)]
    assert [None if one is None else one.next for one in times] == [4, 4, 8, 12]
    assert [None if one is None else one.at for one in times] == [log.published_at(offset) for offset in (0, 3, 4, 11)]
    assert await closed.published(name, 0, 12) is None
    await topics.administration.move_start(topic, 0, 6)
    found = await ClosedLogs(bench.storage(), topics).published(name, 0, 1)
    assert found is not None
    assert (found.first, found.next, found.holds(1), found.holds(8)) == (1, 8, True, False)


async def test_a_broker_that_may_create_what_it_is_asked_about_is_asked_in_another_way(
    bench: Bench, topics: Topics, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    await topics.create(name, 1)
    storage = bench.storage()

    async def refused(topic: str) -> int:
        raise PulsarError(pb.UnsupportedVersionError)

    monkeypatch.setattr(storage.client, "partitions", refused)
    closed = ClosedLogs(storage, topics)
    found = await closed.end(name, 0)
    assert found is not None
    assert found.offset == 0
    assert await closed.end(unique("never"), 0) is None
