"""A read of what is not in memory opens what it needs once."""

import pytest

from bridge.pulsar.types import Position
from bridge.storage import entries
from bridge.storage.read.tail import Tail
from bridge.storage.read.tail_owner import TailOwner
from tests.storage.conftest import Bench, prepared


async def test_a_slow_read_asks_for_the_tail_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await bench.topic()
    await bench.append(bench.log(topic), *[prepared(7, value=b"x" * 50) for _ in range(100)])
    log = bench.log(topic, cache_bytes=0)
    await log.latest()
    asked: list[Position | None] = []
    open_tail = TailOwner.open

    async def counted(owner: TailOwner, begin: Position | None = None) -> Tail:
        asked.append(begin)
        return await open_tail(owner, begin)

    monkeypatch.setattr(TailOwner, "open", counted)
    for number, offset in enumerate((0, 7, 350), 1):
        (data, *_) = await log.read(offset, 1, 10)
        assert entries.records_of(data)[0].offset == offset
        assert len(asked) == number


async def test_a_tail_that_has_ended_meanwhile_is_opened_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await bench.topic()
    await bench.append(bench.log(topic), prepared(7), prepared(7))
    log = bench.log(topic)
    open_tail = TailOwner.open
    tails: list[Tail] = []

    async def ended(owner: TailOwner, begin: Position | None = None) -> Tail:
        tail = await open_tail(owner, begin)
        if not tails:
            await owner.close()
            owner._closed = False  # it is only the tail that ended
        tails.append(tail)
        return tail

    monkeypatch.setattr(TailOwner, "open", ended)
    (data, *_) = await log.read(0, 1 << 20, 10)
    assert entries.records_of(data)[0].offset == 0
    first, second = tails
    assert not first.is_running
    assert second.is_running
