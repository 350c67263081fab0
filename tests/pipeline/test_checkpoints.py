"""Where a copy goes on: what was committed for it, or for one in the other direction, tells; else both logs do."""

from __future__ import annotations

import pytest

from bridge.pipeline.endpoint import Committed
from bridge.pipeline.errors import DataLoss, Usage
from bridge.pipeline.moves.checkpoints import Checkpoint, checkpoint_of, committed_of, from_here
from bridge.pipeline.plan import Bounds
from bridge.pipeline.ranges import Partition

SOURCE, TARGET = Partition("a", 1), Partition("b", 1)
FIRST = Checkpoint(0, 3, 90)
"""The target begins with the source's record 3; the source ends at 90."""


def test_it_is_read_as_it_was_committed() -> None:
    assert checkpoint_of(SOURCE, committed_of(SOURCE, Checkpoint(5, 8, 20))) == Checkpoint(5, 8, 20)


@pytest.mark.parametrize("metadata", ["", "{", "[]", '{"topic": "a"}', '{"topic": "a", "offset": "x", "until": 1}'])
def test_what_others_have_committed_there_tells_nothing(metadata: str) -> None:
    assert checkpoint_of(SOURCE, Committed(5, metadata)) is None
    assert checkpoint_of(SOURCE, committed_of(Partition("c", 1), Checkpoint(5, 8, 20))) is None
    assert checkpoint_of(SOURCE, None) is None


def test_an_empty_target_is_begun_whatever_was_committed_for_one_of_its_name() -> None:
    assert from_here(TARGET, Bounds(0, 0), FIRST, Checkpoint(5, 8, 20), None) is None


def test_without_a_checkpoint_both_are_compared_from_their_beginnings() -> None:
    assert from_here(TARGET, Bounds(0, 10), FIRST, None, None) == FIRST
    with pytest.raises(Usage, match="b/1 has lost its first records"):
        from_here(TARGET, Bounds(1, 10), FIRST, None, None)


def test_it_goes_on_where_it_was_and_the_chunk_it_was_at_has_an_end() -> None:
    assert from_here(TARGET, Bounds(0, 10), FIRST, Checkpoint(5, 8, 20), None) == Checkpoint(5, 8, 20)


def test_a_way_home_begins_where_the_way_there_ended() -> None:
    there = Checkpoint(target=70, source=10, until=10)
    assert from_here(TARGET, Bounds(0, 10), FIRST, None, there) == Checkpoint(10, 70, 90)
    assert from_here(TARGET, Bounds(0, 10), FIRST, Checkpoint(5, 8, 20), there) == Checkpoint(10, 70, 90)
    later = Checkpoint(12, 75, 80)
    assert from_here(TARGET, Bounds(0, 12), FIRST, later, there) == later


def test_a_target_that_ends_before_its_checkpoint_is_another_one() -> None:
    with pytest.raises(DataLoss, match="is it another topic"):
        from_here(TARGET, Bounds(0, 4), FIRST, Checkpoint(5, 8, 20), None)


def test_what_was_deleted_behind_the_checkpoint_cannot_be_compared() -> None:
    assert from_here(TARGET, Bounds(5, 9), FIRST, Checkpoint(5, 8, 20), None) == Checkpoint(5, 8, 20)
    assert from_here(TARGET, Bounds(5, 5), FIRST, Checkpoint(5, 8, 20), None) == Checkpoint(5, 8, 20)
    with pytest.raises(DataLoss, match="begins at 6 now"):
        from_here(TARGET, Bounds(6, 9), FIRST, Checkpoint(5, 8, 20), None)
