"""The mirror on a real Pulsar: its subscriptions stand where the groups do."""

import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio

from bridge.config import Settings
from bridge.groups.mirror import Mirror
from bridge.groups.records import OffsetKey, StoredOffset
from bridge.groups.store import Stored
from bridge.metrics import Metrics
from bridge.pulsar import Admin, PulsarClient
from bridge.storage.catchup import CatchUps
from bridge.storage.deduplication import Deduplication
from bridge.storage.services import Storage
from bridge.storage.tail import TailCache
from bridge.storage.topics import Topics
from tests.storage.conftest import sealed
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress


class Keeper:
    """Tells the mirror what was stored."""

    def __init__(self) -> None:
        self.on_stored: list[Stored] = []

    def tell(self, key: OffsetKey, offset: int | None) -> None:
        for callback in self.on_stored:
            callback(key, None if offset is None else StoredOffset(offset))


@dataclass
class Bench:
    settings: Settings
    admin: Admin
    topics: Topics
    metrics: Metrics
    keeper: Keeper
    mirror: Mirror
    topic: str

    @property
    def pulsar_topic(self) -> str:
        return f"persistent://{self.settings.pulsar.full_namespace}/{self.topic}-partition-0"

    async def append(self, *sizes: int) -> None:
        log = await self.topics.partition(self.topic, 0)
        await log.prepare()
        for offset in log.append_all([sealed(size) for size in sizes]):
            await offset

    async def commit(self, offset: int | None, group: str = "mirrored-1") -> None:
        self.keeper.tell(("offset", group, self.topic, 0), offset)
        await self.mirror.flush()
        assert self.metrics.groups.mirror_errors.value == 0

    async def consumed(self, group: str = "mirrored-1") -> int | None:
        """How many entries the subscription has behind it; None: there is none."""
        stats = await self.admin.internal_stats(self.pulsar_topic)
        if group not in stats.cursors:
            return None
        ledger, entry = map(int, stats.cursors[group]["markDeletePosition"].split(":"))
        assert ledger == stats.last_confirmed.ledger
        return entry + 1


@pytest_asyncio.fixture
async def bench(pulsar: PulsarAddress, namespace: str) -> AsyncIterator[Bench]:
    settings, metrics, keeper = settings_for(pulsar, namespace), Metrics(), Keeper()
    async with AsyncExitStack() as stack:
        client, admin = PulsarClient(settings.pulsar, metrics.pulsar), Admin(settings.pulsar)
        await admin.start()
        stack.push_async_callback(admin.close)
        await client.start()
        stack.push_async_callback(client.close)
        storage = Storage(
            settings=settings,
            client=client,
            admin=admin,
            metrics=metrics.storage,
            cache=TailCache(1 << 20, metrics.storage),
            catchups=CatchUps(4, 30, metrics.storage),
            writer=f"test-{uuid.uuid4().hex[:8]}",
            deduplication=Deduplication(admin, settings.pulsar.full_namespace),
        )
        topics = Topics(storage)
        await topics.start()
        stack.push_async_callback(topics.close)
        name = f"mirror-{uuid.uuid4().hex[:8]}"
        await topics.create(name, 1)
        mirror = Mirror(keeper, topics, client, "mirrored-.*", metrics.groups)
        yield Bench(settings, admin, topics, metrics, keeper, mirror, name)


async def test_the_subscription_follows_the_commits(bench: Bench) -> None:
    await bench.append(3, 3, 3)  # offsets 0-2, 3-5, 6-8
    assert await bench.consumed() is None
    for offset, entries in ((0, 0), (2, 0), (3, 1), (5, 1), (7, 2), (9, 3)):
        await bench.commit(offset)
        assert await bench.consumed() == entries, offset
    await bench.append(1)
    assert await bench.consumed() == 3
    await bench.commit(10)
    assert await bench.consumed() == 4


async def test_a_group_that_is_reset_goes_back(bench: Bench) -> None:
    await bench.append(1, 1, 1)
    await bench.commit(3)
    for offset in (1, 0):
        await bench.commit(offset)
        assert await bench.consumed() == offset


async def test_the_subscription_goes_with_the_offset(bench: Bench) -> None:
    await bench.append(1)
    await bench.commit(1)
    await bench.commit(None)
    assert await bench.consumed() is None
    await bench.commit(None)  # nothing to take away
    assert await bench.consumed() is None


@pytest.mark.parametrize("group", ["other", "mirrored", "not-mirrored-1", ""])
async def test_other_groups_are_not_mirrored(bench: Bench, group: str) -> None:
    await bench.append(1)
    await bench.commit(1, group)
    assert await bench.consumed(group) is None


async def test_an_empty_topic_is_mirrored(bench: Bench) -> None:
    await bench.commit(0)
    assert await bench.consumed() == 0


async def test_a_topic_that_is_gone_is_no_error(bench: Bench) -> None:
    topic = await bench.topics.get(bench.topic)
    assert topic is not None
    await bench.topics.delete(topic)
    await bench.commit(5)
    await bench.commit(None)


async def test_the_pattern_is_off_by_default(bench: Bench) -> None:
    before = len(bench.keeper.on_stored)
    Mirror(bench.keeper, bench.topics, None, bench.settings.groups.mirror_pattern, bench.metrics.groups)  # type: ignore[arg-type]
    assert len(bench.keeper.on_stored) == before
