"""Which commits are taken, as a table."""

from __future__ import annotations

import pytest

from bridge.cli.kop.judging import Group, Topics, Wanted, judge
from bridge.cli.kop.records import Commit, Place
from bridge.storage.names import Names

NOW = 1_700_000_000_000
TOPICS = Topics(Names("public/default"), {"orders"}, {("orders", 0): (10, 50)})
OURS = "persistent://public/default/"


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "expires", "active", "here", "reason"),
    [
        (OURS + "orders", 0, 10, -1, False, None, ""),
        (OURS + "orders", 0, 50, NOW + 1, False, None, ""),
        (OURS + "orders", 0, 9, -1, False, None, "below the log's start, 10"),
        (OURS + "orders", 0, 51, -1, False, None, "beyond the log's end, 50"),
        (OURS + "orders", 0, 1 << 62, -1, False, None, "beyond the log's end, 50"),
        (OURS + "orders", 1, 20, -1, False, None, "the topic has no such partition"),
        (OURS + "others", 0, 20, -1, False, None, "there is no such topic"),
        (OURS + "__consumer_offsets", 0, 20, -1, False, None, "there is no such topic"),
        ("persistent://public/other/orders", 0, 20, -1, False, None, "the topic is not in public/default"),
        ("persistent://other/default/orders", 0, 20, -1, False, None, "the topic is not in public/default"),
        ("non-persistent://public/default/orders", 0, 20, -1, False, None, "the topic is not in public/default"),
        ("orders", 0, 20, -1, False, None, "the topic is not in public/default"),
        (OURS + "orders", 0, 20, NOW, False, None, "expired 2023-11-14 22:13; --expired takes it"),
        (OURS + "orders", 0, 20, 0, False, None, "expired 1970-01-01 00:00; --expired takes it"),
        (OURS + "orders", 0, 20, (1 << 63) - 1, False, None, ""),
        (OURS + "orders", 0, 20, -1, True, None, "the group is active here"),
        (OURS + "orders", 0, 20, -1, True, 20, "is so already"),
        (OURS + "orders", 0, 9, 0, False, 9, "is so already"),
        (OURS + "orders", 0, 20, -1, False, 21, "further on here, at 21"),
        (OURS + "orders", 0, 20, -1, False, 19, "has committed here, 19; --forward takes it"),
    ],
)
def test_what_is_taken(
    topic: str, partition: int, offset: int, expires: int, active: bool, here: int | None, reason: str
) -> None:
    group = Group(active, {} if here is None else {("orders", 0): here})
    row = judge(Place("g", topic, partition), Commit(offset, "", 0, expires), TOPICS, group, Wanted(), NOW)
    assert row.reason == reason


@pytest.mark.parametrize(
    ("here", "reason"),
    [(19, ""), (20, "is so already"), (21, "further on here, at 21"), (None, "")],
)
def test_no_offset_goes_back_whatever_is_asked_for(here: int | None, reason: str) -> None:
    group = Group(False, {} if here is None else {("orders", 0): here})
    commit = Commit(20, "", 0, 1)
    row = judge(Place("g", OURS + "orders", 0), commit, TOPICS, group, Wanted(forward=True, expired=True), NOW)
    assert (row.reason, row.lag, row.here) == (reason, 30, here)
