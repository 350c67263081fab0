"""Tables: searched, sorted, and cut into pages."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.http.status import table as tables
from bridge.http.status.query import BadQuery
from bridge.http.status.table import PAGE_ROWS, Row, Table, cut, select

ROWS: list[Row] = [
    {"name": "Orders", "rate": 2.5, "note": "eu"},
    {"name": "orders-old", "rate": None, "note": "eu"},
    {"name": "payments", "rate": 10, "note": "us"},
]


def names(rows: list[Row]) -> list[object]:
    return [row["name"] for row in rows]


def test_every_word_has_to_be_there_whatever_its_case() -> None:
    assert names(select(ROWS, ("name",), " ORDERS ", "name")) == ["Orders", "orders-old"]
    assert names(select(ROWS, ("name",), "old ord", "name")) == ["orders-old"]
    assert names(select(ROWS, ("name", "note"), "us", "name")) == ["payments"]


def test_what_is_not_known_is_last_in_either_order() -> None:
    assert names(select(ROWS, ("name",), "", "rate")) == ["Orders", "payments", "orders-old"]
    assert names(select(ROWS, ("name",), "", "-rate")) == ["payments", "Orders", "orders-old"]


@given(st.lists(st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), st.text(), st.booleans())))
def test_values_of_all_kinds_have_an_order(values: list[Row]) -> None:
    rows: list[Row] = [{"name": "", "x": value} for value in values]  # type: ignore[dict-item]
    assert len(select(rows, ("name",), "", "x")) == len(rows)


@given(st.integers(0, 4 * PAGE_ROWS), st.integers(1, 10))
def test_the_last_page_is_shown_where_there_are_not_so_many(count: int, asked: int) -> None:
    page = cut([{"name": str(number)} for number in range(count)], asked, total=1000)
    assert (page.total, page.found) == (1000, count)
    assert page.page <= page.pages
    assert len(page.rows) == min(PAGE_ROWS, count - (page.page - 1) * PAGE_ROWS)


async def test_rows_are_made_once_for_all_who_ask_and_selected_once() -> None:
    made = 0

    async def make() -> list[Row]:
        nonlocal made
        made += 1
        return [{"name": f"t-{number:04}"} for number in range(2000)]

    table = Table(("name",), make, seconds=600.0)
    pages = await asyncio.gather(*(table.page("t-1", "-name", 2) for _ in range(5)))
    assert made == 1
    assert all(page == pages[0] for page in pages)
    assert pages[0].rows[0] == {"name": "t-1949"}
    assert (await table.page("t-1", "-name", 2)).rows[0] is pages[-1].rows[0]
    for number in range(100):
        await table.page(str(number), "", 1)
    assert len(table._selected) <= 8


class Slow:
    """A table whose rows are made when they are let."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.let = asyncio.Event()
        self.let.set()
        self.fails = False
        self.made = 0
        self.table = Table(("number",), self._make, seconds=5.0)
        monkeypatch.setattr(tables, "loop_time", lambda: self.now)

    async def shown(self) -> object:
        async with asyncio.timeout(30):
            (row,) = await self.table.current()
        return row["number"]

    async def done(self) -> None:
        assert self.table._making is not None
        await asyncio.wait((self.table._making,))

    async def _make(self) -> list[Row]:
        await self.let.wait()
        if self.fails:
            raise OSError("not now")
        self.made += 1
        return [{"number": self.made}]


async def test_the_rows_of_before_are_shown_while_new_ones_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    assert await slow.shown() == 1
    slow.let.clear()
    slow.now = 6.0
    assert [await slow.shown() for _ in range(3)] == [1, 1, 1]
    slow.let.set()
    await slow.done()
    assert await slow.shown() == 2
    assert slow.made == 2


async def test_rows_of_long_ago_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    assert await slow.shown() == 1
    slow.now = 3600.0
    assert await slow.shown() == 2


async def test_a_making_that_fails_leaves_the_rows_of_before_and_is_told_when_they_are_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Slow(monkeypatch)
    assert await slow.shown() == 1
    slow.fails, slow.now = True, 6.0
    assert await slow.shown() == 1
    slow.now = 3600.0
    with pytest.raises(OSError, match="not now"):
        await slow.shown()
    slow.fails = False
    assert await slow.shown() == 2


async def test_rows_are_made_anew_where_more_is_known_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    assert await slow.shown() == 1
    slow.table.expire()
    assert await slow.shown() == 2
    slow.table.expire()
    slow.let.clear()
    looking = asyncio.ensure_future(slow.shown())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    slow.table.expire()  # what is being made does not know it
    slow.let.set()
    assert await looking == 3
    assert await slow.shown() == 4
    assert await slow.shown() == 4


async def test_who_looks_and_leaves_takes_no_rows_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    slow.let.clear()
    first, second = (asyncio.ensure_future(slow.shown()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    slow.let.set()
    assert await second == 1
    assert first.cancelled()


async def test_there_is_no_other_column() -> None:
    async def make() -> list[Row]:
        return []

    with pytest.raises(BadQuery):
        await Table(("name",), make, 1.0).page("", "-secret", 1)
