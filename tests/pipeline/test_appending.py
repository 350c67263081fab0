"""Where an interrupted job goes on is told by the end of each target partition."""

from __future__ import annotations

import pytest

from bridge.pipeline.errors import DataLoss, Usage
from bridge.pipeline.moves.appending import Stamp, next_offset
from bridge.pipeline.plan import Bounds
from bridge.pipeline.ranges import Partition

SOURCE, TARGET, OTHER = Partition("a", 1), Partition("b", 1), Partition("c", 1)


def test_an_empty_partition_is_begun() -> None:
    assert next_offset(TARGET, Bounds(0, 0), SOURCE, []) is None


def test_it_goes_on_behind_the_last_record_whatever_the_order_they_come_in() -> None:
    tail = [Stamp(8, SOURCE, 41), Stamp(9, SOURCE, 45), Stamp(7, SOURCE, 40)]
    assert next_offset(TARGET, Bounds(0, 10), SOURCE, tail) == 46


def test_records_of_others_are_refused() -> None:
    for foreign in (Stamp(9, None, None), Stamp(9, OTHER, 3)):
        with pytest.raises(Usage, match="an empty topic is needed"):
            next_offset(TARGET, Bounds(0, 10), SOURCE, [foreign])


def test_others_behind_ours_are_a_broken_promise() -> None:
    with pytest.raises(DataLoss, match="another writer"):
        next_offset(TARGET, Bounds(0, 10), SOURCE, [Stamp(8, SOURCE, 41), Stamp(9, None, None)])


def test_a_partition_whose_records_are_deleted_tells_nothing() -> None:
    with pytest.raises(Usage, match="holds none"):
        next_offset(TARGET, Bounds(10, 10), SOURCE, [])
