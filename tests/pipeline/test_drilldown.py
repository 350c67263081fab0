"""Faults that are planted are all found, each as what it is, and none is invented.

Every scenario is a partition of one topic, so that Spark has one comparison to make for all of them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from bridge.pipeline.comparison.compare import Verdict, differing, digests, verdicts
from bridge.pipeline.comparison.drilldown import findings
from bridge.pipeline.digest import hashed
from bridge.pipeline.frames import SCHEMA
from bridge.pipeline.ranges import Partition, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Headers = tuple[tuple[str, bytes | None], ...]
Place = tuple[int | None, int | None, str | None]
TIME = 1_700_000_000_000
B_START = 100  # the sides need not begin at the same offset


class Rec(NamedTuple):
    """One record; its offset is its place in the list."""

    value: bytes | None
    key: bytes | None = b"k"
    headers: Headers | None = None
    time: int = TIME


Side = list[Rec]


@dataclass(frozen=True)
class Scenario:
    """Two sides, and what is to be found: by kind (a's offset, b's place, fields)."""

    name: str
    a: Side
    b: Side
    found: dict[str, list[Place]] = field(default_factory=dict)


def side(count: int = 12) -> Side:
    return [Rec(b"value %d" % at, time=TIME + at) for at in range(count)]


FULL = side()
OURS: Headers = (("bridge.src.offset", b"7"), ("bridge.src.timestamp", b"5"))
OWN: Headers = (("a", b"1"),)

PLAIN = [
    Scenario("the same", FULL, FULL),
    Scenario("nothing on either side", [], []),
    Scenario("many alike", [Rec(b"same")] * 5, [Rec(b"same")] * 5),
    Scenario("one of many alike is missing", [Rec(b"x")] * 5, [Rec(b"x")] * 4, {"missing": [(4, None, None)]}),
    Scenario("some missing", FULL, FULL[:3] + FULL[5:11], {"missing": [(at, None, None) for at in (3, 4, 11)]}),
    Scenario("all missing", FULL, [], {"missing": [(at, None, None) for at in range(12)]}),
    Scenario("one too many", FULL, [*FULL[:4], Rec(b"new", time=1), *FULL[4:]], {"extra": [(None, 4, None)]}),
    Scenario("a side of its own", [], FULL[:2], {"extra": [(None, 0, None), (None, 1, None)]}),
    Scenario(
        "repeated twice", FULL, [*FULL[:6], FULL[2], FULL[2], *FULL[6:]],
        {"duplicate": [(None, 6, None), (None, 7, None)]},
    ),
    Scenario("moved to the front", FULL, [FULL[11], *FULL[:11]], {"reordered": [(11, 0, None)]}),
    Scenario("our headers", [Rec(b"x", time=5)], [Rec(b"x", headers=OURS, time=999)]),
    Scenario("ours behind others", [Rec(b"x", headers=OWN, time=5)], [Rec(b"x", headers=OWN + OURS)]),
    Scenario(
        "the time that our header tells", [Rec(b"x", time=6)], [Rec(b"x", headers=OURS, time=6)],
        {"corrupt": [(0, 0, "timestamp")]},
    ),
]  # fmt: skip

CHANGES = [
    (Rec(b"x"), Rec(b"y"), "value"),
    (Rec(b""), Rec(None), "value"),
    (Rec(b"x", b""), Rec(b"x", None), "key"),
    (Rec(b"x", b"k"), Rec(b"x", b"K"), "key"),
    (Rec(b"x", time=5), Rec(b"x", time=6), "timestamp"),
    (Rec(b"x", headers=(("a", None),)), Rec(b"x", headers=(("a", b""),)), "headers"),
    (Rec(b"x", headers=(("a", b"1"), ("b", b"2"))), Rec(b"x", headers=(("b", b"2"), ("a", b"1"))), "headers"),
    (Rec(b"x", headers=(("a", b"1"), ("a", b"1"))), Rec(b"x", headers=(("a", b"1"),)), "headers"),
    (Rec(b"x", headers=(("a", b"b"), ("c", None))), Rec(b"x", headers=(("a", None), ("b", b"c"))), "headers"),
    (Rec(b"x", headers=OWN), Rec(b"x"), "headers"),
    (Rec(b"x", b"k"), Rec(b"y", b"K"), "key,value"),
]
CHANGED = [
    Scenario(f"{what} {at}", [*FULL[:4], was, *FULL[4:]], [*FULL[:4], now, *FULL[4:]], {"corrupt": [(4, 4, what)]})
    for at, (was, now, what) in enumerate(CHANGES)
]


def all_at_once() -> Scenario:
    full = side(300)
    faulty = list(full)
    faulty[50] = full[50]._replace(value=None)
    faulty[51] = full[51]._replace(headers=(("h", None),))
    faulty = [*faulty[:100], full[150], *faulty[100:150], *faulty[151:]]
    del faulty[200:203]
    faulty.insert(250, full[10])
    faulty.append(Rec(b"foreign", b"other", time=3))
    return Scenario(
        "all at once", full, faulty,
        {
            "corrupt": [(50, 50, "value"), (51, 51, "headers")],
            "duplicate": [(None, 250, None)],
            "extra": [(None, 298, None)],
            "missing": [(at, None, None) for at in (200, 201, 202)],
            "reordered": [(150, 100, None)],
        },
    )  # fmt: skip


def mixture(seed: int) -> Scenario:
    """Faults by chance, each with four records to itself; what was planted where is known."""
    chance = random.Random(seed)
    full = side(60)
    faulty: Side = []
    found: dict[str, list[Place]] = {}
    for at in range(0, 60, 4):
        kind = chance.choice(["missing", "extra", "duplicate", "corrupt", "", "", ""])
        four = full[at : at + 4]
        here = len(faulty)
        faulty += {
            "": four,
            "missing": [four[0], *four[2:]],
            "extra": [*four[:2], Rec(b"new", b"new", time=at), *four[2:]],
            "duplicate": [*four[:2], full[at // 2], *four[2:]],
            "corrupt": [four[0], four[1]._replace(value=b"?"), *four[2:]],
        }[kind]
        place: Place = {"missing": (at + 1, None, None), "corrupt": (at + 1, here + 1, "value")}.get(
            kind, (None, here + 2, None)
        )
        if kind:
            found.setdefault(kind, []).append(place)
    return Scenario(f"mixture {seed}", full, faulty, found)


SCENARIOS = [*PLAIN, *CHANGED, all_at_once(), *map(mixture, range(25))]


@pytest.fixture(scope="module")
def compared(
    spark: SparkSession,
) -> tuple[list[Partition], dict[str, dict[str, list[Place]]], dict[Partition, Verdict]]:
    """The partitions whose sums differ, what was found in each scenario, and the verdicts."""
    return compare(spark, SCENARIOS)


def compare(
    spark: SparkSession, scenarios: Sequence[Scenario], times: bool = True
) -> tuple[list[Partition], dict[str, dict[str, list[Place]]], dict[Partition, Verdict]]:
    a = hashed(frame(spark, [each.a for each in scenarios], 0), times=times).persist()
    b = hashed(frame(spark, [each.b for each in scenarios], B_START), times=times).persist()
    ranges_a = [TopicRange("t", at, 0, len(each.a)) for at, each in enumerate(scenarios)]
    ranges_b = [TopicRange("t", at, B_START, B_START + len(each.b)) for at, each in enumerate(scenarios)]
    differ = differing(digests(a, ranges_a), digests(b, ranges_b))
    found: dict[str, dict[str, list[Place]]] = {each.name: {} for each in scenarios}
    rows = findings(a, b).persist()
    for row in rows.orderBy("a_offset", "b_offset").collect():
        place = (row.a_offset, None if row.b_offset is None else row.b_offset - B_START, row.fields)
        found[scenarios[row.partition].name].setdefault(row.kind, []).append(place)
    return differ, found, verdicts(rows)


def frame(spark: SparkSession, sides: Sequence[Side], start: int) -> DataFrame:
    rows = [
        ("t", partition, offset, at(each.time), 0, each.key, each.value, each.headers)
        for partition, records in enumerate(sides)
        for offset, each in enumerate(records, start)
    ]
    return spark.createDataFrame(rows, SCHEMA)


def at(time: int) -> datetime:
    return datetime.fromtimestamp(time / 1000, UTC)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_what_was_planted_is_found_and_nothing_else(compared: Any, scenario: Scenario) -> None:
    assert compared[1][scenario.name] == scenario.found


def test_the_sums_differ_where_something_is_to_be_found(compared: Any) -> None:
    assert compared[0] == [Partition("t", at) for at, each in enumerate(SCENARIOS) if each.found]


def test_verdicts_count_and_give_examples(compared: Any) -> None:
    number, scenario = next((at, each) for at, each in enumerate(SCENARIOS) if each.name == "all missing")
    verdict = compared[2][Partition("t", number)]
    assert verdict.counts == {"missing": len(scenario.a)}
    assert verdict.examples == {"missing": [{"a_offset": at} for at in range(10)]}
    assert verdict.missing == [(0, 12)]
    assert str(verdict) == "12 missing"
    everything = compared[2][Partition("t", [each.name for each in SCENARIOS].index("all at once"))]
    assert everything.counts == {"corrupt": 2, "duplicate": 1, "extra": 1, "missing": 3, "reordered": 1}
    assert everything.missing == [(200, 203)]


def test_of_two_swapped_records_one_is_out_of_order_and_times_can_be_left_out(spark: SparkSession) -> None:
    earlier = [each._replace(time=1) for each in FULL]
    scenarios = [
        Scenario("swapped", FULL, [*FULL[:5], FULL[6], FULL[5], *FULL[7:]]),
        Scenario("other times", FULL, earlier),
        Scenario("other times, one missing", FULL, earlier[:-1], {"missing": [(11, None, None)]}),
        Scenario(
            "nothing in common", [*FULL[:2], Rec(b"a", b"a", OWN)], [*FULL[:2], Rec(b"b", b"b")],
            {"missing": [(2, None, None)], "extra": [(None, 2, None)]},
        ),
    ]  # fmt: skip
    differ, found, _ = compare(spark, scenarios, times=False)
    assert [len(places) for places in found.pop("swapped").values()] == [1]
    assert found == {each.name: each.found for each in scenarios[1:]}
    assert [each.number for each in differ] == [0, 2, 3]
