"""What is open for too long, or not answered: by many schedules of a model broker, and by a table that a test fills."""

import asyncio
from typing import Any, cast

import pytest

from bridge.errors import KafkaError
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import Position, PulsarError
from bridge.runtime.futures import loop_time
from bridge.storage.visibility import Outcome
from bridge.telemetry.metrics import Known, TransactionMetrics
from bridge.transactions import records
from bridge.transactions.healing import Healing
from bridge.transactions.slot_table import SlotCopy
from bridge.transactions.state import Status, TransactionRecord
from bridge.transactions.table import Table
from tests.owned_log.model import play_on_model
from tests.owned_log.nodes import LogSite
from tests.schedules.world import World
from tests.support.waiting import until
from tests.transactions.feeding import ALL, begin, confirmed, end, node, watched


def test_what_is_known_wrongly_is_loaded_anew() -> None:
    """As after a fault that nobody has foreseen: the follower has all, and readers see what was before."""

    async def play(site: LogSite, world: World) -> None:
        metrics = TransactionMetrics()
        holder = await node(site, world.settings(), ALL)
        reader = await node(site, world.settings(), (), metrics)
        reader.start()
        one = await begin(holder, timeout_ms=10_000)
        await confirmed(reader)
        record = reader.outcomes.record(one.slot, "x")
        assert record is not None
        await end(holder, one)
        await confirmed(reader)
        assert reader.outcomes.outcome(one) is Outcome.ABORTED
        reloads = metrics.reloads.value
        wrong = SlotCopy()
        wrong.apply(records.id_key("x"), records.encode(record))
        reader.outcomes.show(one.slot, wrong)
        decided = watched(reader, one)
        await world.sleep(20)
        assert not decided.is_set()
        async with asyncio.timeout(60):
            await decided.wait()
        assert reader.outcomes.outcome(one) is Outcome.ABORTED
        assert metrics.reloads.value == reloads + 1
        assert reader._feeds.reload(one.slot)  # it is followed on
        await until(lambda: metrics.reloads.value == reloads + 2)
        await reader.close()
        await holder.close()

    play_on_model(play)


async def _fail() -> Position:
    raise PulsarError(pb.ServiceNotReady, "no answer")


def test_a_question_that_failed_is_asked_again_until_the_table_is_as_new_as_ever() -> None:
    async def play(site: LogSite, world: World) -> None:
        metrics = TransactionMetrics()
        holder = await node(site, world.settings(), ALL)
        reader = await node(site, world.settings(), (), metrics)
        one = await begin(holder)
        await confirmed(reader)
        tail = reader._feeds._followers[one.slot]._tail
        assert tail is not None
        tail.slot.checked_last_position = _fail  # type: ignore[method-assign]
        with pytest.raises(KafkaError):
            await reader._feeds.confirm(one.slot)
        del tail.slot.checked_last_position
        await world.sleep(60)
        assert reader._feeds.age() == pytest.approx(60, rel=0.01)  # nobody has asked again
        reader.start()
        await until(lambda: reader._feeds.age() == 0, 60)
        await until(lambda: [known.age for known in metrics.known.values()] == [0], 60)
        await reader.close()
        await holder.close()

    play_on_model(play)


class Loads:
    """Feeds that note what they are to load."""

    def __init__(self) -> None:
        self.slots: list[int] = []
        self.held: set[int] = set()
        self.asked = 0

    def reload(self, slot: int) -> bool:
        self.slots.append(slot)
        return slot not in self.held

    def age(self) -> float | None:
        return 1.5

    async def ask_again(self) -> None:
        self.asked += 1


class Site:
    """A table, and a clock that the test turns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def nothing(*_: object) -> None:
            """There is nobody to ask."""

        self.table, self.feeds, self.metrics = Table(nothing, nothing), Loads(), TransactionMetrics()
        self.healing = Healing(self.table, cast(Any, self.feeds), self.metrics, "ns")
        self.now = loop_time()
        monkeypatch.setattr("bridge.transactions.healing.loop_time", lambda: self.now)

    def show(self, slot: int, *open_ones: tuple[int, int]) -> None:
        """By producer id and time-out in seconds."""
        copy = SlotCopy()
        for producer_id, seconds in open_ones:
            record = TransactionRecord(
                1, producer_id, 0, 1, Status.OPEN, 1, seconds * 1000, 0, 0, None, {}, {}, frozenset()
            )  # fmt: skip
            copy.apply(records.id_key(f"id-{producer_id}"), records.encode(record))
        self.table.show(slot, copy)

    async def later(self, seconds: float) -> int:
        """How many are overdue then."""
        self.now += seconds
        await self.healing.look()
        (known,) = self.metrics.known.values()
        assert known == Known(known.overdue, 1.5)
        return known.overdue


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


async def test_a_slot_is_loaded_anew_once_a_minute_at_most(site: Site) -> None:
    site.show(0, (1000, 60), (1001, 60))
    site.show(1, (1002, 600))
    assert await site.later(0) == await site.later(119) == 0
    assert site.feeds.slots == []
    assert await site.later(2) == 2
    assert site.feeds.slots == [0]
    for _ in range(11):
        await site.later(5)
    assert site.feeds.slots == [0]
    await site.later(5)
    assert site.feeds.slots == [0, 0]
    site.show(0)
    assert await site.later(100) == 0
    assert site.feeds.slots == [0, 0]
    assert site.feeds.asked == 16


async def test_a_short_time_out_is_no_reason_to_load(site: Site) -> None:
    """Its coordinator looks once a second, and Pulsar may be away for a moment."""
    site.show(0, (1000, 1))
    assert await site.later(0) == await site.later(15) == 0
    assert await site.later(2) == 1


async def test_another_transaction_of_the_same_id_is_another(site: Site) -> None:
    site.show(0, (1000, 60))
    await site.later(0)
    await site.later(100)
    site.show(0, (1001, 60))
    assert await site.later(30) == 0
    assert await site.later(60) == 0
    assert await site.later(61) == 1


async def test_what_is_held_here_is_told_and_not_loaded(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.feeds.held = {0}
    site.show(0, (1000, 60))
    await site.later(0)
    assert await site.later(130) == 1
    assert [one.getMessage() for one in caplog.records] == ["! transaction open for too long"]
