"""The mirror on a real Pulsar: its subscriptions stand where the groups do."""

import asyncio
import statistics
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from bridge.config import Settings
from bridge.groups.mirror import Mirror
from bridge.groups.share.state_records import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    UNINITIALIZED,
    ShareState,
    StateBatch,
)
from bridge.groups.store.records import StoredOffset
from bridge.pulsar import Admin, PulsarClient
from bridge.pulsar.admin.rest import topic_path
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import PulsarError
from bridge.storage.append.deduplication import Deduplication
from bridge.storage.read.cache import Cache
from bridge.storage.read.catch_up import CatchUpReaders
from bridge.storage.services import Storage
from bridge.storage.topics.topics import Topics
from bridge.telemetry.metrics import Metrics
from tests.groups.committed_offsets import FakeOffsets
from tests.storage.conftest import prepared
from tests.support.bridges import Overrides, settings_for
from tests.support.pulsar import PulsarAddress


@dataclass
class Bench:
    settings: Settings
    client: PulsarClient
    admin: Admin
    topics: Topics
    metrics: Metrics
    offsets: FakeOffsets
    mirror: Mirror
    topic: str

    @property
    def pulsar_topic(self) -> str:
        return f"persistent://{self.settings.pulsar.full_namespace}/{self.topic}-partition-0"

    async def append(self, *sizes: int) -> None:
        log = await self.topics.partition(self.topic, 0)
        await log.make_ready()
        for offset in log.append_all([prepared(size) for size in sizes]):
            await offset

    async def commit(self, offset: int | None, group: str = "mirrored-1") -> None:
        self.offsets.tell(("offset", group, self.topic, 0), offset)
        await self.mirror.flush()
        assert self.metrics.groups.mirror_errors.value == 0

    async def share(self, start: int | None, *batches: tuple[int, int, int], group: str = "mirrored-share") -> None:
        """A share group's state is stored, or deleted; batches: first and last offset, and state."""
        topic = await self.topics.get(self.topic)
        assert topic is not None
        done = tuple(StateBatch(first, last, state, 1) for first, last, state in batches)
        self.offsets.tell_share(group, topic.id, None if start is None else ShareState(0, 0, start, done))
        await self.mirror.flush()
        assert self.metrics.groups.mirror_errors.value == 0

    async def backlog(self, group: str = "mirrored-share") -> int | None:
        """How many entries Pulsar's tools show as not consumed; None: there is no subscription."""
        stats: Any = await self.admin.call(
            "GET", f"{topic_path(self.pulsar_topic)}/stats", query={"getPreciseBacklog": "true"}
        )
        found = stats["subscriptions"].get(group)
        return None if found is None else int(found["msgBacklog"])

    def restarted(self) -> None:
        """The process is killed, and the next one knows only what is stored."""
        for callbacks in (self.offsets.on_stored, self.offsets.on_owned, self.offsets.on_lost):
            callbacks.clear()
        self.mirror = Mirror(self.offsets, self.topics, self.client, self.admin, self.settings, self.metrics.groups)

    async def take_up(self) -> None:
        for owned in self.offsets.on_owned:
            owned(list(self.offsets.groups()))
        await self.mirror.take_away()
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
    # a subscription's position is an entry: these tests count them, and write one for each record
    overrides: Overrides = {"groups": {"mirror_pattern": "mirrored-.*"}, "storage": {"group_commit_bytes": 0}}
    settings = settings_for(pulsar, namespace, overrides)
    metrics, offsets = Metrics(), FakeOffsets()
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
            cache=Cache(1 << 20, metrics.storage),
            catch_up_readers=CatchUpReaders(4, 30, metrics.storage),
            writer=f"test-{uuid.uuid4().hex[:8]}",
            deduplication=Deduplication(admin, settings.pulsar.full_namespace),
        )
        topics = Topics(storage)
        await topics.start()
        stack.push_async_callback(topics.close)
        name = f"mirror-{uuid.uuid4().hex[:8]}"
        await topics.create(name, 1)
        mirror = Mirror(offsets, topics, client, admin, settings, metrics.groups)
        yield Bench(settings, client, admin, topics, metrics, offsets, mirror, name)


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


async def test_an_offset_committed_and_not_mirrored_before_a_kill_is_shown_after_it(bench: Bench) -> None:
    await bench.append(1, 1, 1)
    await bench.commit(1)
    bench.offsets.tell(("offset", "mirrored-1", bench.topic, 0), 3)
    bench.restarted()
    await bench.take_up()
    assert await bench.consumed() == 3


@pytest.mark.parametrize("offset", [0, 1, 2])
async def test_a_group_reset_before_a_kill_goes_back_after_it(bench: Bench, offset: int) -> None:
    await bench.append(1, 1, 1)
    await bench.commit(3)
    bench.offsets.tell(("offset", "mirrored-1", bench.topic, 0), offset)
    bench.restarted()
    await bench.take_up()
    assert await bench.consumed() == offset


async def test_a_group_reset_after_a_kill_goes_back(bench: Bench) -> None:
    await bench.append(1, 1, 1)
    await bench.commit(3)
    bench.restarted()
    await bench.commit(1)
    assert await bench.consumed() == 1


async def test_a_restart_moves_nothing(bench: Bench) -> None:
    await bench.append(3, 3, 3)
    await bench.commit(7)
    for _ in range(2):
        bench.restarted()
        await bench.take_up()
        assert await bench.consumed() == 2


async def test_the_backlog_of_a_share_group_is_what_is_not_done(bench: Bench) -> None:
    """Two records an entry, of which both have to be done."""
    await bench.append(*[2] * 10)
    await bench.share(UNINITIALIZED)
    assert await bench.backlog() is None
    await bench.share(0)
    assert await bench.backlog() == 10
    await bench.share(4)
    assert await bench.backlog() == 8
    await bench.share(4, (7, 11, ACKNOWLEDGED), (12, 12, ARCHIVED), (14, 17, AVAILABLE), (18, 18, ACKNOWLEDGED))
    assert await bench.backlog() == 6  # of entries 2 … 9 those with 8, 9 and 10, 11
    await bench.share(4, (7, 13, ACKNOWLEDGED), (18, 19, ARCHIVED))
    assert await bench.backlog() == 4
    await bench.share(14, (18, 19, ARCHIVED))
    assert await bench.backlog() == 2
    await bench.share(20)
    assert await bench.backlog() == 0


async def test_a_share_group_that_is_reset_goes_back_and_has_nothing_done_beyond(bench: Bench) -> None:
    await bench.append(*[1] * 6)
    await bench.share(1, (3, 4, ACKNOWLEDGED))
    assert await bench.backlog() == 3
    await bench.share(2)  # altered: all from there on is to be done
    assert await bench.backlog() == 4
    await bench.share(0)
    assert await bench.backlog() == 6


async def test_what_a_share_group_has_done_is_shown_across_ledgers(bench: Bench) -> None:
    await bench.append(1, 1, 1)
    await bench.admin.unload(bench.pulsar_topic)
    await bench.append(1, 1, 1)
    await bench.share(1, (2, 4, ACKNOWLEDGED))
    assert await bench.backlog() == 2


@pytest.mark.parametrize("altered", [False, True], ids=["as it was", "altered before"])
async def test_a_share_group_is_shown_again_after_a_kill(bench: Bench, altered: bool) -> None:
    await bench.append(*[1] * 6)
    await bench.share(1, (3, 4, ACKNOWLEDGED))
    topic = await bench.topics.get(bench.topic)
    assert topic is not None
    bench.offsets.on_stored.clear()
    if altered:
        bench.offsets.tell_share("mirrored-share", topic.id, ShareState(1, 0, 1, ()))
    bench.restarted()
    await bench.take_up()
    assert await bench.backlog() == (5 if altered else 3)


async def test_a_share_group_s_subscription_goes_with_its_state(bench: Bench) -> None:
    await bench.append(1)
    await bench.share(1)
    await bench.share(1, group="mirrored-other")
    await bench.share(None)
    assert await bench.backlog() is None
    bench.offsets.shares.pop("mirrored-other")  # and past the mirror
    bench.restarted()
    await bench.take_up()
    assert await bench.backlog("mirrored-other") is None


async def test_an_offset_deleted_just_before_a_kill_leaves_no_subscription(bench: Bench) -> None:
    await bench.append(1)
    await bench.commit(1)
    await bench.commit(1, "mirrored-2")
    bench.offsets.tell(("offset", "mirrored-1", bench.topic, 0), None)
    bench.restarted()
    await bench.take_up()
    assert await bench.consumed() is None
    assert await bench.consumed("mirrored-2") == 1


async def test_subscriptions_of_others_are_left_alone(bench: Bench) -> None:
    await bench.append(1)
    consumer = await bench.client.consumer(bench.pulsar_topic, "mirrored-by-name")
    await consumer.close()
    await bench.take_up()
    assert await bench.consumed("mirrored-by-name") == 0


async def test_where_another_node_has_left_a_subscription_is_asked_for(bench: Bench) -> None:
    await bench.append(1, 1, 1)
    await bench.commit(1)
    consumer = await bench.client.consumer(bench.pulsar_topic, "mirrored-1")
    for _ in range(2):
        last = (await consumer.receive()).position
    await consumer.ack_cumulative(last)
    await consumer.close()
    for lost in bench.offsets.on_lost:
        lost(lambda group: True)
    await bench.commit(2)
    assert await bench.consumed() == 2


async def test_a_node_shows_what_it_takes_over_and_no_more_what_it_has_lost(bench: Bench) -> None:
    await bench.append(1, 1, 1)
    await bench.commit(1)
    bench.offsets.offsets["mirrored-1"] = {(bench.topic, 0): StoredOffset(2)}
    for owned in bench.offsets.on_owned:
        owned(["mirrored-1", "another"])
    await bench.mirror.flush()
    assert await bench.consumed() == 2
    bench.offsets.tell(("offset", "mirrored-1", bench.topic, 0), 1)
    for lost in bench.offsets.on_lost:
        lost(lambda group: group == "mirrored-1")
    await bench.mirror.flush()
    assert await bench.consumed() == 2  # its new coordinator shows it


async def test_the_subscription_of_a_group_that_another_node_coordinates_stays(bench: Bench) -> None:
    await bench.append(1)
    await bench.commit(1)
    bench.offsets.offsets.clear()
    bench.offsets.elsewhere.add("mirrored-1")
    await bench.mirror.take_away()
    await bench.mirror.flush()
    assert await bench.consumed() == 1


async def test_an_empty_topic_is_mirrored(bench: Bench) -> None:
    await bench.commit(0)
    assert await bench.consumed() == 0


async def test_a_consumer_of_a_group_s_name_holds_up_that_group_alone(bench: Bench) -> None:
    await bench.append(1, 1)
    consumer = await bench.client.consumer(bench.pulsar_topic, "mirrored-1")
    bench.offsets.tell(("offset", "mirrored-1", bench.topic, 0), 2)
    bench.offsets.tell(("offset", "mirrored-2", bench.topic, 0), 2)
    await bench.mirror.flush()
    assert bench.metrics.groups.mirror_errors.value == 1
    assert (await bench.consumed("mirrored-1"), await bench.consumed("mirrored-2")) == (0, 2)
    assert await bench.admin.subscriptions(bench.pulsar_topic) == {
        "mirrored-1": {}, "mirrored-2": {"kafka.group": "mirror"}
    }  # fmt: skip
    await consumer.close()


@pytest.mark.parametrize("group", ["__compaction", "pulsar.dedup", "pulsar.repl.east", "transaction-buffer-sub", " "])
async def test_what_pulsar_keeps_under_a_group_s_name_is_left_alone(bench: Bench, group: str) -> None:
    """The broker closes the connection of who acknowledges as the compactor, with all that others have on it."""
    every = bench.settings.with_values(groups={"mirror_pattern": ".*"})
    bench.offsets.on_stored.clear()
    bench.mirror = Mirror(bench.offsets, bench.topics, bench.client, bench.admin, every, bench.metrics.groups)
    await bench.append(1)
    for offset in (1, None):
        await bench.commit(offset, group)
        assert group not in await bench.admin.subscriptions(bench.pulsar_topic)
    assert bench.metrics.pulsar.connections_lost.value == 0


async def test_a_topic_that_is_gone_is_no_error(bench: Bench) -> None:
    topic = await bench.topics.get(bench.topic)
    assert topic is not None
    await bench.topics.delete(topic)
    await bench.commit(5)
    await bench.commit(None)


async def test_the_pattern_is_off_by_default(bench: Bench) -> None:
    before = len(bench.offsets.on_stored)
    settings = bench.settings.with_values(groups={"mirror_pattern": Settings().groups.mirror_pattern})
    Mirror(bench.offsets, bench.topics, bench.client, bench.admin, settings, bench.metrics.groups)
    assert len(bench.offsets.on_stored) == before


async def test_what_could_not_be_shown_before_the_group_was_lost_is_not_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(where: object, offset: int) -> None:
        bench.offsets.elsewhere.add("mirrored-1")
        for lost in bench.offsets.on_lost:
            lost(lambda group: True)
        raise PulsarError(pb.ConsumerBusy, "its new coordinator's mirror is connected")

    await bench.append(1, 1, 1)
    await bench.commit(3)
    with monkeypatch.context() as patch:
        patch.setattr(bench.mirror, "_show", refused)
        bench.offsets.tell(("offset", "mirrored-1", bench.topic, 0), 1)
        await bench.mirror.flush()
    await bench.mirror.flush()
    assert await bench.consumed() == 3


@pytest.mark.soak
async def test_positions_stay_young_beside_what_is_stuck(bench: Bench) -> None:
    """Prints how old the positions of 50 groups are that commit each second, for half a minute."""
    seconds, groups = 30, [f"mirrored-{number}" for number in range(50)]
    every = bench.settings.with_values(groups={"mirror_pattern": ".*"})
    bench.offsets.on_stored.clear()
    bench.mirror = Mirror(bench.offsets, bench.topics, bench.client, bench.admin, every, bench.metrics.groups)
    await bench.append(*[1] * seconds)
    consumer = await bench.client.consumer(bench.pulsar_topic, "mirrored-held")
    await bench.mirror.start()
    ages, committed, loop = list[float](), list[float](), asyncio.get_running_loop()
    for _ in range(seconds):
        committed.append(loop.time())
        for group in ("mirrored-held", "pulsar.dedup", "__compaction", *groups):
            bench.offsets.tell(("offset", group, bench.topic, 0), len(committed))
        await asyncio.sleep(1)
        cursors = (await bench.admin.internal_stats(bench.pulsar_topic)).cursors
        for group in groups:
            shown = int(cursors[group]["markDeletePosition"].split(":")[1]) + 1 if group in cursors else 0
            ages.append(loop.time() - committed[shown] if shown < len(committed) else 0.0)
    await bench.mirror.close()
    await consumer.close()
    print(f"p50 {statistics.median(ages):.1f} s, max {max(ages):.1f} s")
    assert bench.metrics.pulsar.connections_lost.value == 0
