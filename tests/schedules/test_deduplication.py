"""What is known of a topic's deduplication, when its topic is another one and when Pulsar did not answer."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from bridge.config import PulsarSettings
from bridge.pulsar.admin import Admin, AdminError
from bridge.storage.append.deduplication import ASK_AGAIN_SECONDS, Deduplication
from tests.schedules.checks import check_partition
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, batch
from tests.schedules.producers import RetryingProducer
from tests.schedules.world import World, full

TOPIC = "persistent://public/default/t"
PARTITIONS = [f"{TOPIC}-partition-{number}" for number in range(2)]


class ScriptedAdmin(Admin):
    """Answers by the settings of topics, or refuses."""

    def __init__(self) -> None:
        super().__init__(PulsarSettings())
        self.on: set[str] = set()
        self.refusal = 0
        """The status of every answer, if it is none of success."""
        self.is_everywhere = False
        self.is_late = False
        """The broker does not go by the settings."""

    async def call(
        self, method: str, path: str, *, body: str | None = None, query: Mapping[str, str] | None = None, **_: Any
    ) -> Any:
        """What the broker answers."""
        if self.refusal:
            raise AdminError(self.refusal, "not now")
        name, what = path.split("/")[-2:]
        if what == "deduplication":
            return self.is_everywhere
        if what == "stats":
            is_on = name.split("-")[0] in self.on and not self.is_late
            return {"deduplicationStatus": "Enabled" if is_on else "Disabled"}
        if what != "deduplicationEnabled":
            return None
        if method == "POST":
            self.on.add(name)
        return None if self.is_everywhere else name in self.on


@schedules(2)
async def test_what_was_refused_is_tried_again(world: World) -> None:
    admin = ScriptedAdmin()
    deduplication = Deduplication(admin, "public/default")
    admin.refusal = 405
    await deduplication.ensure(PARTITIONS[0])
    admin.refusal = 0
    await deduplication.ensure(PARTITIONS[0])
    assert not admin.on, "not with every batch"
    await world.sleep(ASK_AGAIN_SECONDS)
    await deduplication.ensure(PARTITIONS[0])
    assert admin.on == {"t"}


@schedules(2)
async def test_what_is_not_answered_is_an_error_and_asked_again_at_once(world: World) -> None:
    admin = ScriptedAdmin()
    deduplication = Deduplication(admin, "public/default")
    admin.refusal = 503
    for _ in range(2):
        with pytest.raises(AdminError):
            await deduplication.ensure(PARTITIONS[0])
    admin.refusal = 0
    await deduplication.ensure(PARTITIONS[0])
    assert admin.on == {"t"}


@schedules(2)
async def test_where_it_was_on_nothing_waits_for_an_admin_api_that_does_not_answer(world: World) -> None:
    admin = ScriptedAdmin()
    admin.is_everywhere = True
    deduplication = Deduplication(admin, "public/default")
    await deduplication.ensure(PARTITIONS[0])
    admin.refusal = 503
    await world.sleep(ASK_AGAIN_SECONDS + 1)
    for partition in PARTITIONS:
        await deduplication.ensure(partition)
    admin.refusal, admin.is_everywhere = 0, False
    await world.sleep(ASK_AGAIN_SECONDS + 1)
    await deduplication.ensure(PARTITIONS[0])
    assert admin.on == {"t"}, "it was turned off meanwhile"


@schedules(2)
async def test_nothing_is_stored_while_it_is_not_in_force(world: World) -> None:
    admin = ScriptedAdmin()
    deduplication = Deduplication(admin, "public/default")
    admin.is_late = True
    with pytest.raises(AdminError, match="not in force"):
        await deduplication.ensure(PARTITIONS[0])
    admin.is_late = False
    await deduplication.ensure(PARTITIONS[0])


@schedules(20)
async def test_it_is_turned_on_for_a_topic_that_is_made_again(world: World) -> None:
    world.broker.deduplicates = False
    bridge = await world.started()
    client = Client(world, bridge, "writer")
    for _ in range(2):
        await bridge.topics.create("t", 1)
        written = await client.produce("t", batch([b"v"], [NOW_MS], producer=(4711, 0, 0)), timeout_ms=10_000)
        assert written.error == 0, written.message
        whole = full("t").removesuffix("-partition-0")
        assert world.broker.namespace.partitioned[whole].policies.get("deduplicationEnabled") is True
        topic = await bridge.topics.get("t")
        assert topic is not None
        await bridge.topics.delete(topic)


@schedules(100)
async def test_a_record_is_stored_once_although_pulsar_does_not_answer_at_first(world: World) -> None:
    """Stored before deduplication is in force, a batch would be unknown to Pulsar when it comes again elsewhere."""
    world.broker.deduplicates = False
    one, two = await world.started(), await world.started()
    await one.topics.create("t", 1)
    await two.topics.get("t")
    world.broker.is_http_busy = True
    producer = RetryingProducer(world, one, "t", "p", producer_id=100, request_seconds=3, delivery_seconds=300)
    running = asyncio.ensure_future(producer.run())
    for number in range(10):
        producer.send(b"%d" % number)
        await world.sleep(0, 0.2)
    await world.sleep(0, 2)
    world.broker.is_http_busy = False
    producer.send(b"last")
    await world.moment()
    producer.move_to(two)
    producer.finish()
    await world.within(300, running, "an outcome for every record")
    check_partition(world, full("t"), [producer])
