"""An offset map tells for every source offset where a consumer goes on."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.pipeline.errors import DataLoss, Usage
from bridge.pipeline.moves.offset_map import OffsetMap, Segment, rows
from bridge.pipeline.ranges import Partition

KEY = Partition("t", 0)


def mapped(*segments: Segment) -> OffsetMap:
    offsets = OffsetMap()
    offsets.add(KEY, segments)
    return offsets


@given(st.sets(st.integers(0, 60), max_size=40), st.lists(st.integers(0, 60), max_size=4))
def test_a_consumer_gets_the_record_it_would_have_got(source: set[int], cuts: list[int]) -> None:
    """The target holds the source's records one after the other; the map is learnt in pieces."""
    copied = max(source, default=-1) + 1
    at_target = sorted(source)
    offsets = OffsetMap()
    edges = sorted({0, *cuts, copied})
    for first, last in pairwise(edges):
        offsets.add(KEY, [Segment(s, s + 1, t) for t, s in enumerate(at_target) if first <= s < last])
    for committed in range(copied + 1):
        expected = sum(record < committed for record in at_target)
        assert offsets.translate(KEY, committed, copied, len(at_target)) == expected


def test_segments_without_a_gap_become_one() -> None:
    offsets = mapped(Segment(0, 5, 0), Segment(5, 9, 5), Segment(10, 11, 9))
    assert [segment for _, segment in offsets] == [Segment(0, 9, 0), Segment(10, 11, 9)]
    assert offsets.end(KEY) == (11, 10)
    assert offsets.end(Partition("t", 1)) is None
    assert [*rows(offsets, {"t": "new"})[1].values()] == ["t", 0, 10, 11, "new", 0, 9]


@pytest.mark.parametrize("wrong", [Segment(4, 6, 5), Segment(5, 6, 4)])
def test_what_is_there_twice_or_not_in_order_is_found(wrong: Segment) -> None:
    with pytest.raises(DataLoss):
        mapped(Segment(0, 5, 0), wrong)


def test_a_gap_of_the_target_is_passed_over() -> None:
    """The bridge stores a large record in chunks, and the last one has its offset."""
    offsets = mapped(Segment(0, 5, 0), Segment(5, 9, 7))
    assert [offsets.translate(KEY, offset, 9, 11) for offset in (4, 5, 8, 9)] == [4, 7, 10, 11]


def test_what_is_not_copied_yet_has_no_place() -> None:
    with pytest.raises(Usage, match="only 5 is copied"):
        mapped(Segment(0, 5, 0)).translate(KEY, 6, 5, 5)


def test_where_nothing_is_left_a_consumer_goes_on_at_the_end() -> None:
    assert OffsetMap().translate(KEY, 7, 7, 4) == 4
