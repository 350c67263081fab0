"""Numbers as ranges."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.transactions import ranges

NUMBERS: Final = st.lists(st.integers(0, 60))


def numbers(of: ranges.Ranges) -> set[int]:
    return {number for first, last in of for number in range(first, last + 1)}


@given(given_numbers=NUMBERS)
def test_they_hold_what_they_are_made_of(given_numbers: list[int]) -> None:
    made = ranges.of(given_numbers)
    assert numbers(made) == set(given_numbers)
    assert ranges.size(made) == len(set(given_numbers))
    assert [number for number in range(-1, 70) if ranges.has(made, number)] == sorted(set(given_numbers))


@given(given_numbers=NUMBERS)
def test_none_is_beside_the_next(given_numbers: list[int]) -> None:
    made = ranges.of(given_numbers)
    assert all(before[1] + 1 < after[0] for before, after in pairwise(made))
    assert ranges.are_in_order(made)


@given(one=NUMBERS, other=NUMBERS)
def test_a_union_holds_both(one: list[int], other: list[int]) -> None:
    assert ranges.union(ranges.of(one), ranges.of(other)) == ranges.of(one + other)


def test_many_partitions_take_little() -> None:
    assert ranges.of(range(100_000)) == ((0, 99_999),)


@pytest.mark.parametrize("pairs", [((3, 2),), ((-1, 2),), ((4, 5), (1, 2)), ((1, 2), (3, 4)), ((1, 5), (4, 9))])
def test_other_pairs_are_out_of_order(pairs: ranges.Ranges) -> None:
    assert not ranges.are_in_order(pairs)
