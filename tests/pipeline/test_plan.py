"""Plans: which offsets are meant, in which chunks, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.pipeline.errors import DataLoss, Usage
from bridge.pipeline.options import Position
from bridge.pipeline.plan import Bounds, chunks, continued, describe, pause, resolve
from bridge.pipeline.ranges import Partition, TopicRange, partition_counts, total

ZERO, ONE, TWO = (Partition("t", number) for number in range(3))
HELD = {ZERO: Bounds(10, 100), ONE: Bounds(0, 50), TWO: Bounds(7, 7)}
EARLIEST, LATEST = Position(named="earliest"), Position(named="latest")


def test_by_name_it_is_all_there_is() -> None:
    assert resolve(HELD, EARLIEST, LATEST, {}, {}) == [TopicRange("t", 0, 10, 100), TopicRange("t", 1, 0, 50)]
    assert resolve(HELD, LATEST, LATEST, {}, {}) == []


def test_by_time_it_is_from_the_first_record_as_young() -> None:
    ranges = resolve(HELD, Position(time=1), Position(time=2), {ZERO: 20, ONE: None}, {ZERO: 30, ONE: None})
    assert ranges == [TopicRange("t", 0, 20, 30)]
    assert resolve(HELD, Position(time=1), LATEST, {ZERO: 5, ONE: None}, {}) == [TopicRange("t", 0, 10, 100)]
    assert resolve(HELD, Position(time=2), Position(time=1), {ZERO: 30}, {ZERO: 20}) == []


def test_by_offset_others_are_taken_whole() -> None:
    ranges = resolve(HELD, Position(offsets={ZERO: 20}), Position(offsets={ONE: 5}), {}, {})
    assert ranges == [TopicRange("t", 0, 20, 100), TopicRange("t", 1, 0, 5)]


@pytest.mark.parametrize(
    ("start", "until"),
    [
        (Position(offsets={ZERO: 9}), LATEST),
        (Position(offsets={ZERO: 101}), LATEST),
        (EARLIEST, Position(offsets={ONE: 51})),
        (Position(offsets={Partition("t", 3): 0}), LATEST),
        (Position(offsets={ZERO: 50}), Position(offsets={ZERO: 40})),
    ],
)
def test_offsets_that_are_not_there_are_refused(start: Position, until: Position) -> None:
    with pytest.raises(Usage):
        resolve(HELD, start, until, {}, {})


def test_what_is_done_is_left_out() -> None:
    asked = [TopicRange("t", 0, 10, 100), TopicRange("t", 1, 0, 50)]
    assert continued(asked, {ZERO: 40, ONE: 50}, HELD) == [TopicRange("t", 0, 40, 100)]
    assert continued(asked, {}, HELD) == asked


@pytest.mark.parametrize(
    ("done", "said"),
    [({ZERO: 101}, "another topic"), ({ZERO: 9}, "records are lost"), ({Partition("gone", 0): 1}, "is gone now")],
)
def test_a_log_that_cannot_be_gone_on_with_is_a_loss(done: dict[Partition, int], said: str) -> None:
    with pytest.raises(DataLoss, match=said):
        continued([], done, HELD)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60)), min_size=1, max_size=6), st.integers(1, 50))
def test_chunks_are_the_ranges_in_order(shapes: list[tuple[int, int]], size: int) -> None:
    ranges = [TopicRange("t", number, start, start + length) for number, (start, length) in enumerate(shapes)]
    position = {each.key: each.start for each in ranges}
    for chunk in chunks(ranges, size):
        assert 0 < total(chunk) <= size + len(ranges)
        for part in chunk:
            assert part.start == position[part.key]
            position[part.key] = part.until
    assert position == {each.key: each.until for each in ranges}


def test_a_rate_makes_one_wait_for_what_was_too_much() -> None:
    assert pause(500, 100, 2.0) == 3.0
    assert pause(500, 100, 6.0) == 0.0


def test_a_plan_says_how_much() -> None:
    text = describe([TopicRange("t", 0, 10, 1100), TopicRange("t", 1, 0, 50)])
    assert text.splitlines()[-1] == "2 partitions, about 1,140 records"


def test_partitions_are_counted_up_to_the_last() -> None:
    assert partition_counts([ZERO, TWO, Partition("u", 0)]) == {"t": 3, "u": 1}
