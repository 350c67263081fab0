"""What moved is the least that can have moved; what changed is found beside what it was."""

from hypothesis import given
from hypothesis import strategies as st

from bridge.pipeline.comparison.matching import Changed, Unmatched, changed, moved


def test_what_is_in_order_has_not_moved() -> None:
    assert moved([]) == moved([5]) == moved([1, 2, 9]) == []


def test_one_record_that_moved_far_is_one() -> None:
    assert moved([9, 1, 2, 3, 4]) == [0]
    assert moved([1, 2, 3, 4, 0]) == [4]


def test_of_two_that_were_swapped_one_has_moved() -> None:
    assert len(moved([0, 2, 1, 3])) == 1


@given(st.lists(st.integers(0, 30), unique=True, max_size=8))
def test_no_smaller_set_would_do(places: list[int]) -> None:
    gone = moved(places)
    rest = [place for position, place in enumerate(places) if position not in gone]
    assert rest == sorted(rest)
    assert len(rest) == longest(places)


def longest(places: list[int]) -> int:
    """The length of the longest ascending subsequence, by trying them all."""
    best = [0] * len(places)
    for at, place in enumerate(places):
        best[at] = 1 + max((best[before] for before in range(at) if places[before] < place), default=0)
    return max(best, default=0)


def record(offset: int, key: int = 1, value: int = 2, headers: int = 3, time: int | None = 4) -> Unmatched:
    return Unmatched(offset, key, value, headers, time)


def test_a_changed_field_is_named() -> None:
    assert changed([record(7)], [record(9, value=0)]) == [Changed(7, 9, "value")]
    assert changed([record(7)], [record(9, key=0)]) == [Changed(7, 9, "key")]
    assert changed([record(7)], [record(9, headers=0)]) == [Changed(7, 9, "headers")]
    assert changed([record(7)], [record(9, time=0)]) == [Changed(7, 9, "timestamp")]
    assert changed([record(7)], [record(9, value=0, headers=0)]) == [Changed(7, 9, "value,headers")]


def test_a_missing_record_beside_a_changed_one_is_not_taken_for_it() -> None:
    gone, was, now = record(5, 10, 11, 12, 13), record(6, 20, 21, 22, 23), record(5, 20, 0, 22, 23)
    assert changed([gone, was], [now]) == [Changed(6, 5, "value")]


def test_records_with_nothing_in_common_are_not_the_same() -> None:
    assert changed([record(5, 10, 11, 12, 13)], [record(5, 20, 21, 22, 23)]) == []


def test_where_times_do_not_count_other_fields_decide() -> None:
    assert changed([record(5, value=9, time=None)], [record(5, value=9, key=0, time=None)])
    assert changed([record(5, 10, 11, 12, None)], [record(5, 20, 21, 22, None)]) == []


def test_like_records_are_paired_in_order() -> None:
    lost = [record(1, value=1), record(2, value=2), record(3, value=3)]
    added = [record(11, value=4), record(12, value=5), record(13, value=6)]
    assert changed(lost, added) == [Changed(1, 11, "value"), Changed(2, 12, "value"), Changed(3, 13, "value")]


RECORDS = st.lists(
    st.builds(Unmatched, st.integers(0, 99), *[st.integers(0, 2)] * 4), unique_by=lambda each: each.offset, max_size=12
)


@given(RECORDS, RECORDS)
def test_every_record_is_used_once_at_most(lost: list[Unmatched], added: list[Unmatched]) -> None:
    found = changed(lost, added)
    assert len({one.a for one in found}) == len({one.b for one in found}) == len(found)
    assert {one.a for one in found} <= {each.offset for each in lost}
    assert {one.b for one in found} <= {each.offset for each in added}
