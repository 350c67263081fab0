"""What goes by topic or client is counted, and a bounded number of names is shown."""

from __future__ import annotations

import random
from collections import Counter
from operator import sub

import pytest

from bridge.telemetry.traffic import UNKNOWN, Amounts, Traffic, TrafficTable, software_label

NOTHING = Amounts(0, 0, 0, 0, 0, 0)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Series:
    """What Prometheus makes of one scrape after another: a series that is new has grown from 0."""

    def __init__(self) -> None:
        self.grown: Counter[str] = Counter()
        self._before: dict[str, Amounts] = {}
        self._others = NOTHING

    def scrape(self, table: TrafficTable[str]) -> None:
        now = {row.name: row.amounts for row in table.rows}
        for name, amounts in now.items():
            self._grow(name, self._before.get(name, NOTHING), amounts)
        self._grow("others", self._others, table.others)
        self._before, self._others = now, table.others

    def _grow(self, name: str, before: Amounts, after: Amounts) -> None:
        grown = Amounts(*map(sub, after, before))
        assert min(grown) >= 0, (name, before, after)
        self.grown[name] += grown.bytes_in


def table_of(most: int, tracked: int = 10_000) -> tuple[TrafficTable[str], Clock]:
    clock = Clock()
    table: TrafficTable[str] = TrafficTable(tracked, clock)
    table.most = most
    return table, clock


def shown(table: TrafficTable[str]) -> dict[str, int]:
    return {row.name: row.amounts.bytes_in for row in table.rows}


async def test_those_with_the_most_bytes_are_shown_and_the_rest_is_one_sum() -> None:
    table, _ = table_of(2)
    for name, size in (("a", 1), ("b", 50), ("c", 7), ("d", 60)):
        table.enter(name).bytes_in += size
    await table.roll()
    assert shown(table) == {"b": 50, "d": 60}
    assert (table.others.bytes_in, table.left_out, table.other_users) == (8, 2, 2)


async def test_all_are_shown_where_there_is_room() -> None:
    table, _ = table_of(2)
    table.enter("a").bytes_out += 5
    table.enter("b")
    await table.roll()
    assert [(row.name, row.amounts.bytes_out, row.users) for row in table.rows] == [("a", 5, 1), ("b", 0, 1)]
    assert table.left_out == 0
    assert table.others == NOTHING


async def test_one_that_is_shown_is_displaced_only_by_much_more() -> None:
    table, _ = table_of(1)
    a, b = table.enter("a"), table.enter("b")
    a.bytes_in += 10
    await table.roll()
    b.bytes_in += 19
    await table.roll()
    assert shown(table) == {"a": 10}
    b.bytes_in += 2
    await table.roll()
    assert shown(table) == {"b": 2}  # what is in the sum stays there
    assert table.others.bytes_in == 19


async def test_one_that_was_busy_long_ago_is_not_shown_before_one_that_is_busy() -> None:
    table, clock = table_of(1)
    table.enter("a").bytes_in += 1000
    await table.roll()
    clock.now += 3600
    table.enter("b").bytes_in += 10
    await table.roll()
    assert shown(table) == {"b": 10}


@pytest.mark.parametrize("seed", range(20))
async def test_every_byte_is_in_one_series_and_no_series_shrinks(seed: int) -> None:
    chance = random.Random(seed)
    table, clock = table_of(chance.randrange(5), tracked=chance.choice((4, 10_000)))
    series, counted = Series(), 0
    held: list[Traffic] = []
    for _ in range(600):
        clock.now += chance.choice((0.1, 1, 400))
        action = chance.random()
        if action < 0.2:
            held.append(table.enter(chance.choice("abcdefgh")))
        elif action < 0.3 and held:
            await table.roll()  # what is counted after the last roll of one that is gone is lost
            series.scrape(table)
            table.leave(held.pop(chance.randrange(len(held))))
        elif action < 0.8 and held:
            size = chance.choice((1, 10, 1000))
            chance.choice(held).bytes_in += size
            counted += size
        else:
            await table.roll()
            series.scrape(table)
    await table.roll()
    series.scrape(table)
    assert sum(series.grown.values()) == counted
    assert len(table.rows) <= table.most


async def test_what_is_gone_is_forgotten() -> None:
    table, clock = table_of(1)
    for name in ("a", "b"):
        traffic = table.enter(name)
        traffic.bytes_in += 5
        table.leave(traffic)
    await table.roll()
    clock.now += 1
    await table.roll()
    assert len(table) == 1  # the one that is shown, for some minutes
    clock.now += 3600
    await table.roll()
    assert len(table) == 0
    assert (table.rows, table.others.bytes_in) == ([], 5)


async def test_names_beyond_what_is_kept_are_counted_together() -> None:
    table, _ = table_of(2, tracked=3)
    for number in range(1000):
        table.enter(f"made up {number}").requests += 1
    await table.roll()
    assert len(table) == 3
    assert table.others.requests + sum(row.amounts.requests for row in table.rows) == 1000
    assert table.left_out == 998


@pytest.mark.parametrize("text", ["apache-kafka-java", "3.7.0", "1.9.3-rdkafka-2.3.0", "v1.2.3+dirty", "my_client"])
def test_software_is_shown_as_it_is_called(text: str) -> None:
    assert software_label(text) == text


@pytest.mark.parametrize("text", ['x"} 1\nbridge_up 0', "x" * 65, "(other)", "é", "-x", "a b"])
def test_what_is_no_name_of_software_is_not_shown(text: str) -> None:
    assert software_label(text) == "(unusual)"


def test_what_says_nothing_is_unknown() -> None:
    assert software_label("") == UNKNOWN
