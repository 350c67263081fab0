"""Offsets that are being written, until that has an outcome."""

import asyncio

import pytest

from bridge.groups.store.records import Key, group_key, offset_key, pending_key
from bridge.groups.store.under_way import WritesUnderWay
from tests.groups.clock import settle
from tests.groups.fake_outcomes import transaction
from tests.support.waiting import until

KEYS: list[Key] = [offset_key("g", "t", 0), pending_key("g", "t", 1, transaction(1).identity), group_key("g")]
PLACES = [("g", "t", 0), ("g", "t", 1)]


async def test_plain_and_pending_offsets_are_under_way_until_they_are_stored() -> None:
    under_way = WritesUnderWay()
    loop = asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()
    under_way.add(KEYS, first)
    under_way.add(KEYS[:1], second)
    assert all(place in under_way for place in PLACES)
    assert ("g", "t", 2) not in under_way
    first.set_result(None)
    await settle()
    assert [place in under_way for place in PLACES] == [True, False]
    second.set_result(None)
    await settle()
    assert not any(place in under_way for place in PLACES)


@pytest.mark.parametrize("cancelled", [True, False])
async def test_what_failed_may_yet_be_stored_for_a_while(monkeypatch: pytest.MonkeyPatch, cancelled: bool) -> None:
    under_way = WritesUnderWay()
    writings = [asyncio.get_running_loop().create_future() for _ in range(2)]
    for writing, seconds in zip(writings, (600.0, 0.0), strict=True):
        monkeypatch.setattr("bridge.groups.store.under_way._DOUBT_SECONDS", seconds)
        under_way.add([KEYS[not seconds]], writing)
        if cancelled:
            writing.cancel()
        else:
            writing.set_exception(OSError())
        await settle()
    await until(lambda: PLACES[1] not in under_way)
    assert PLACES[0] in under_way
