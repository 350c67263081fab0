"""Runs of offsets that are left out: stored as small numbers, found by an offset."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.security.left_out import MAX_RUNS, LeftOut, Run, decode, encode, merged

RUNS = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 9)).map(lambda one: Run(one[0], one[0] + one[1])))


def holding(*parts: Sequence[Run]) -> LeftOut:
    found = {}
    for number, part in enumerate(parts):
        bounds = decode(encode(part))
        assert bounds is not None
        found[number] = bounds
    return LeftOut(found)


@given(RUNS)
def test_an_offset_is_in_if_it_is_in_a_run(runs: list[Run]) -> None:
    inside = {offset for run in runs for offset in range(*run)}
    whole = merged(runs)
    assert {offset for run in whole for offset in range(*run)} == inside
    assert all(one.next < other.first for one, other in pairwise(whole))
    for found in (holding(whole), holding(whole[:2], whole[2:]), holding(whole[2:], whole[:2])):
        assert {offset for offset in range(220) if offset in found} == inside
        assert found.runs() == whole


def test_offsets_may_be_as_large_as_kafka_s() -> None:
    last = (1 << 63) - 1
    found = holding([Run(0, 1), Run(last - 1, last)])
    assert 0 in found
    assert last - 1 in found
    assert 1 not in found
    assert last not in found


@pytest.mark.parametrize(
    "numbers",
    [None, {}, "12", [1], [1, 2, 3], [-1, 5], [1, -5], [1.0, 2], [True, 2], [1, "2"], [1 << 63, 1], [(1 << 63) - 1, 1],
     [0, 1] * (MAX_RUNS + 1)],
)  # fmt: skip
def test_what_is_no_list_of_runs_is_none(numbers: object) -> None:
    assert decode(numbers) is None
