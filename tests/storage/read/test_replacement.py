"""Which older batches stay in memory: with traces of what is read, counted, without Pulsar."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import pytest

from bridge.storage.read.cache import Cache, OlderBatches
from bridge.storage.read.replacement import Runs, weight
from bridge.telemetry.metrics import Metrics
from tests.storage.read.cached import batch

_SIZE = 100_000
_STEP = 10  # offsets of a batch
_MEMORY = 600  # batches
_WEIGHT = weight(batch(0, _STEP, _SIZE))

Trace = Iterable[tuple[str, int]]
"""The topic and the number of each batch that is read."""


class Reading:
    """Topics that are read through one memory."""

    def __init__(self) -> None:
        self.cache = Cache(_MEMORY * _WEIGHT, Metrics().storage)
        self.topics: dict[str, OlderBatches] = {}

    def finds(self, topic: str, number: int) -> bool:
        """Read a batch: whether it was in memory."""
        older = self.topics.setdefault(topic, OlderBatches(self.cache))
        if older.slice(number * _STEP, 1):
            return True
        older.add(number * _STEP, [batch(number * _STEP, _STEP, _SIZE)])
        assert self.cache.older.size <= _MEMORY * _WEIGHT
        return False

    def share(self, trace: Trace, topic: str) -> float:
        """How many of the reads of a topic memory serves."""
        found = [is_found for of, is_found in [(of, self.finds(of, number)) for of, number in trace] if of == topic]
        return sum(found) / len(found)


def scan(topic: str, batches: float) -> Trace:
    """Read a topic once; its size in memories."""
    return [(topic, number) for number in range(int(_MEMORY * batches))]


@pytest.fixture
def reading() -> Reading:
    return Reading()


@pytest.mark.parametrize(("size", "least"), [(1.0, 1.0), (1.1, 0.8), (1.2, 0.65), (1.5, 0.15)])
def test_a_topic_that_is_read_again_and_again_is_found_as_far_as_memory_reaches(
    reading: Reading, size: float, least: float
) -> None:
    reading.share(scan("a", size), "a")
    again = [reading.share(scan("a", size), "a") for _ in range(4)]
    assert min(again) >= least, again


def test_what_is_read_often_stays_while_a_topic_is_scanned(reading: Reading) -> None:
    chance = random.Random(1)
    often = int(_MEMORY * 0.4)

    def mixed() -> Iterator[tuple[str, int]]:
        yield from [*scan("often", 0.4), *scan("often", 0.4)]
        for number in range(0, 6 * _MEMORY, 40):
            begin = chance.randrange(often // 40) * 40
            yield from [("often", begin + one) for one in range(40)]
            yield from [("scanned", number + one) for one in range(40)]

    assert reading.share(mixed(), "often") >= 0.85


@pytest.mark.parametrize("apart", [0.05, 0.4, 0.8])
def test_who_follows_another_reader_finds_all_that_it_has_read(reading: Reading, apart: float) -> None:
    """By up to what memory holds, and whatever was read before."""
    reading.share([*scan("before", 1.0)], "before")
    behind = int(_MEMORY * apart)
    both = [one for number in range(3 * _MEMORY) for one in (("first", number), ("first", number - behind))]
    found = [reading.finds(*one) for one in both if one[1] >= 0]
    assert sum(found) == len([number for number in range(3 * _MEMORY) if number >= behind])


def test_a_topic_that_fits_takes_the_place_of_one_that_is_read_no_more(reading: Reading) -> None:
    reading.share([*scan("before", 1.0)], "before")
    reading.share(scan("after", 1.0), "after")
    assert reading.share(scan("after", 1.0), "after") == 1.0


def test_a_set_that_is_read_no_more_leaves(reading: Reading) -> None:
    for _ in range(3):
        reading.share(scan("before", 1.2), "before")
    shares = [reading.share(scan("after", 0.7), "after") for _ in range(4)]
    assert shares[-1] == 1.0, shares


def test_runs_go_as_a_whole_and_are_no_larger_than_they_may(reading: Reading) -> None:
    reading.share(scan("a", 1.0), "a")
    before = len(reading.cache.older)
    reading.cache.older.drop_first()
    dropped = before - len(reading.cache.older)
    assert 1 < dropped <= _MEMORY // 64 + 1
    assert not any(reading.topics["a"].slice(number * _STEP, 1) for number in range(dropped))
    assert reading.finds("a", dropped)


def test_what_has_left_is_remembered_in_bounds() -> None:
    runs = Runs(1)

    class Nowhere:
        def drop(self, dropped: object) -> None:
            """It is gone."""

    owner = Nowhere()
    for number in range(30_000):
        runs.add(owner, batch(number, 1, 50))
        if number > 100:
            runs.drop_first()
    assert len(runs) <= 101
    assert len(runs._remembered) <= 101
    runs.remove(owner)
    assert len(runs) == runs.size == len(runs._remembered) == len(runs._growing) == 0


def test_whether_a_long_run_follows_is_told_without_a_look_at_each_batch(reading: Reading) -> None:
    reading.share(scan("a", 0.5), "a")
    older = reading.topics["a"]
    assert older.follows(0, int(_MEMORY * 0.5) * _WEIGHT)
    assert not older.follows(0, int(_MEMORY * 0.5 + 20) * _WEIGHT)
    assert not older.follows(int(_MEMORY * 0.6) * _STEP, 1)
