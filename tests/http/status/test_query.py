"""What browsers ask for: read with bounds, and refused in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.http.status.query import MOST_BYTES, MOST_SEARCHED, BadQuery, Query, parse


def test_what_is_not_asked_for_is_usual() -> None:
    assert parse(b"/api/state") == parse(b"/api/state?") == Query()


def test_all_parts_are_read() -> None:
    target = b"/api/state?view=topics&search=a%20%C3%BC&sort=-rate&page=3&item=orders&worker=1"
    assert parse(target) == Query("topics", "a ü", "-rate", 3, "orders", 1)


def test_where_records_begin_is_read() -> None:
    target = b"/api/state?view=records&item=orders&partition=3&start=time&at=1764382000000&key=0xff&most=7"
    found = parse(target)
    assert found == Query("records", "", "", 1, "orders", None, 3, "time", 1764382000000, "0xff", 7)


@pytest.mark.parametrize(
    "query",
    [
        b"view=topics&view=groups",
        b"other=1",
        b"page=x",
        b"page=-1",
        b"page=99999999",
        b"worker=%D9%A3",
        b"search=%ff",
        "search=ü".encode(),
        b"a=1&" * 8,
        b"start=middle",
        b"at=-1",
        b"partition=9999999999",
        b"node=1",
        b"search=" + b"x" * MOST_BYTES,
    ],
)
def test_what_is_unfit_is_refused(query: bytes) -> None:
    with pytest.raises(BadQuery):
        parse(b"/api/state?" + query)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_query_or_none(query: bytes) -> None:
    try:
        found = parse(b"/api/state?" + query)
    except BadQuery:
        return
    assert found.page > 0
    assert len(found.search) <= MOST_SEARCHED


@given(
    st.builds(
        Query,
        st.sampled_from(["topics", "groups"]),
        st.text(st.characters(codec="utf-8"), max_size=MOST_SEARCHED),
        st.sampled_from(["", "-rate"]),
        st.integers(1, 1000),
        st.text(st.characters(codec="utf-8"), max_size=100),
        st.none(),
        st.integers(0, 1000),
        st.sampled_from(["", "offset", "time"]),
        st.integers(0, 2**62),
        st.text(st.characters(codec="utf-8"), max_size=100),
        st.integers(0, 1000),
        st.none(),
    )
)
def test_a_worker_is_asked_what_the_supervisor_was(query: Query) -> None:
    assert parse(b"/api/state?" + query.encoded.encode()) == query
