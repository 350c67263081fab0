"""Tables: searched, sorted, and cut into pages."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


async def test_there_is_no_other_column() -> None:
    async def make() -> list[Row]:
        return []

    with pytest.raises(BadQuery):
        await Table(("name",), make, 1.0).page("", "-secret", 1)
