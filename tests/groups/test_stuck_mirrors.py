"""A position that Pulsar refuses, or leaves waiting, holds up no other: scripted answers on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

import pytest

from bridge.config import Settings
from bridge.groups.mirror import Mirror
from bridge.pulsar import Admin, PulsarClient
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import Position, PulsarError
from bridge.storage.topics.topic import NO_ID
from bridge.storage.topics.topics import Topics
from bridge.telemetry.metrics import Metrics
from tests.groups.committed_offsets import FakeOffsets
from tests.support.virtual_clock import on_a_virtual_clock

_ROUND_TRIP_SECONDS = 0.005
_OPERATION_SECONDS = 30.0
_INTERVAL_SECONDS = 2.0


@dataclass
class ScriptedPulsar:
    """The client, the admin interface and the topics that a mirror asks; each group has the one partition."""

    held: set[str] = field(default_factory=set)
    """Groups in whose name another exclusive consumer is connected."""
    hanging: set[str] = field(default_factory=set)
    """Groups whose subscriptions are asked for in vain; of the admin interface: topics."""
    shown: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    left: dict[str, list[str]] = field(default_factory=dict)
    """Of each topic, the subscriptions that a mirror has left."""
    removed: list[str] = field(default_factory=list)

    async def consumer(self, topic: str, group: str, **options: Any) -> ScriptedConsumer:
        self.asked[group] = self.asked.get(group, 0) + 1
        if group in self.hanging:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(_ROUND_TRIP_SECONDS)
        if group in self.held:
            await asyncio.sleep(_OPERATION_SECONDS if options.get("waits", True) else 0)
            raise PulsarError(pb.ConsumerBusy, "Exclusive consumer is already connected")
        return ScriptedConsumer(self, group)

    async def acknowledged(self, topic: str, group: str) -> Position | None:
        return None

    async def subscriptions(self, topic: str) -> dict[str, dict[str, str]]:
        if topic in self.hanging:
            await asyncio.get_running_loop().create_future()
        return {group: {"kafka.group": "mirror"} for group in self.left.get(topic, ())}

    # the topics

    async def names(self) -> list[str]:
        return [name.rpartition("/")[2] for name in self.left]

    async def get(self, name: str) -> ScriptedTopic:
        return ScriptedTopic(name)

    def log(self, topic: ScriptedTopic, partition: int) -> ScriptedTopic:
        return topic


@dataclass
class ScriptedTopic:
    name: str
    partitions: int = 1
    partitioned: bool = False
    id: UUID = NO_ID

    @property
    def topic(self) -> str:
        return self.name

    async def consumed_before(self, offset: int) -> Position | None:
        return Position(0, offset - 1) if offset else None


@dataclass
class ScriptedConsumer:
    pulsar: ScriptedPulsar
    group: str

    async def ack_cumulative(self, position: Position) -> None:
        self.pulsar.shown[self.group] = position.entry + 1

    async def unsubscribe(self) -> None:
        self.pulsar.removed.append(self.group)

    async def close(self) -> None:
        """It leaves nothing."""


class Scene:
    """A mirror of groups that commit each second."""

    def __init__(self, groups: Iterable[str] = ()) -> None:
        self.pulsar, self.offsets, self.metrics = ScriptedPulsar(), FakeOffsets(), Metrics()
        settings = Settings().with_values(groups={"mirror_pattern": ".*"})
        topics, client, admin = cast(Topics, self.pulsar), cast(PulsarClient, self.pulsar), cast(Admin, self.pulsar)
        self.mirror = Mirror(self.offsets, topics, client, admin, settings, self.metrics.groups)
        self.groups = list(groups)
        self.committed: list[float] = []  # when each offset was

    async def run(self, seconds: int) -> dict[str, float]:
        """The greatest age that the shown position of each group had in the second half."""
        loop, oldest = asyncio.get_running_loop(), dict.fromkeys(self.groups, 0.0)
        for second in range(seconds):
            self.committed.append(loop.time())
            for group in self.groups:
                self.offsets.tell(("offset", group, "orders", 0), len(self.committed))
            await asyncio.sleep(1)
            if second >= seconds // 2:
                for group in self.groups:
                    oldest[group] = max(oldest[group], self.age(group))
        return oldest

    def age(self, group: str) -> float:
        shown = self.pulsar.shown.get(group, 0)
        if shown == len(self.committed):
            return 0.0
        return asyncio.get_running_loop().time() - self.committed[shown]


@pytest.mark.parametrize("how", ["held", "hanging"])
@pytest.mark.parametrize("count", [1, 10, 100])
def test_the_other_positions_stay_about_an_interval_old(count: int, how: str) -> None:
    stuck = [f"stuck-{number}" for number in range(count)]
    others = [f"other-{number}" for number in range(300)]

    async def work() -> None:
        scene = Scene([*stuck, *others])
        getattr(scene.pulsar, how).update(stuck)
        await scene.mirror.start()
        oldest = await scene.run(40)
        assert max(oldest[group] for group in others) < 2 * _INTERVAL_SECONDS
        assert max(scene.pulsar.asked[group] for group in stuck) < 6  # each leaves longer and longer pauses
        await scene.mirror.close()

    on_a_virtual_clock(work)


@pytest.mark.parametrize("how", ["held", "hanging"])
def test_a_stuck_one_is_shown_once_it_can_be(how: str) -> None:
    async def work() -> None:
        scene = Scene(["stuck", "other"])
        getattr(scene.pulsar, how).add("stuck")
        await scene.mirror.start()
        await scene.run(100)
        assert scene.age("stuck") > 90
        getattr(scene.pulsar, how).clear()
        await scene.run(100)
        assert scene.age("stuck") < 2 * _INTERVAL_SECONDS
        await scene.mirror.close()

    on_a_virtual_clock(work)


def test_what_hangs_does_not_keep_the_others_from_being_shown_before_the_stop() -> None:
    async def work() -> None:
        scene = Scene([f"other-{number}" for number in range(20)])
        for group in [*(stuck := [f"stuck-{number}" for number in range(20)]), *scene.groups]:
            scene.offsets.tell(("offset", group, "orders", 0), 1)
        scene.pulsar.hanging.update(stuck)
        await scene.mirror.start()
        await scene.mirror.close()
        assert scene.pulsar.shown == dict.fromkeys(scene.groups, 1)

    on_a_virtual_clock(work)


def test_a_slot_that_cannot_be_taken_holds_up_no_group_of_the_others() -> None:
    """Whose slots are not owned is not known to be complete, but those that are owned commit."""

    class NeverReady(FakeOffsets):
        async def ready(self) -> None:
            await asyncio.get_running_loop().create_future()

    async def work() -> None:
        scene = Scene(["other"])
        scene.mirror._store = NeverReady()
        await scene.mirror.start()
        assert max((await scene.run(10)).values()) < 2 * _INTERVAL_SECONDS
        await scene.mirror.close()

    on_a_virtual_clock(work)


def test_a_topic_whose_subscriptions_are_not_told_keeps_no_others_from_being_taken_away() -> None:
    async def work() -> None:
        scene = Scene()
        topics = [f"persistent://public/default/t-{number}" for number in range(10)]
        scene.pulsar.left = {topic: [f"left-{number}"] for number, topic in enumerate(topics)}
        scene.pulsar.hanging.update(topics[:5])
        await scene.mirror.start()
        await scene.run(10)
        assert sorted(scene.pulsar.removed) == [f"left-{number}" for number in range(5, 10)]
        await scene.mirror.close()

    on_a_virtual_clock(work)


def test_a_group_of_a_name_that_pulsar_keeps_for_itself_is_never_mirrored_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = ["__compaction", "pulsar.dedup", "pulsar.repl.east", "transaction-buffer-sub", " "]

    async def work() -> None:
        scene = Scene([*names, "orders"])
        scene.pulsar.left = {"persistent://public/default/orders": names}
        await scene.mirror.start()
        await scene.run(10)
        for name in names:
            scene.offsets.tell(("offset", name, "orders", 0), None)
        await scene.run(10)
        assert set(scene.pulsar.asked) == {"orders"}
        await scene.mirror.close()

    on_a_virtual_clock(work)
    assert [record.getMessage() for record in caplog.records].count("! group not mirrored") == len(names)


def test_what_fails_for_long_is_logged_more_and_more_rarely(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        scene = Scene(["stuck"])
        scene.pulsar.held.add("stuck")
        await scene.mirror.start()
        await scene.run(20 * 60)
        assert scene.metrics.groups.mirror_errors.value > 20
        await scene.mirror.close()

    on_a_virtual_clock(work)
    assert [record.getMessage() for record in caplog.records].count("! offset not mirrored") == 5  # 1, 2, 4, 8, 16
