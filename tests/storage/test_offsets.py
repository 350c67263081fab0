"""Positions to offsets."""

from hypothesis import given
from hypothesis import strategies as st

from bridge.storage.offsets import Anchor, OffsetIndex, Span, span


def test_an_entry_ends_at_its_index() -> None:
    # measured: batches of 1 to 5 messages got the indices 0, 2, 5, 9, 14
    assert [span(index, count) for count, index in enumerate((0, 2, 5, 9, 14), 1)] == [
        Span(0, 1), Span(1, 3), Span(3, 6), Span(6, 10), Span(10, 15),
    ]  # fmt: skip


def test_nothing_can_be_counted_before_the_first_anchor() -> None:
    assert Anchor().extend(0, 0, 1) is None


def test_the_next_entry_of_the_ledger_continues_the_count() -> None:
    anchor = Anchor()
    anchor.observe(7, 3, 100)
    assert anchor.extend(7, 4, 10) == 100
    assert anchor.extend(7, 5, 1) == 110
    assert anchor.position == (7, 5)


def test_a_gap_or_another_ledger_is_not_counted_across() -> None:
    anchor = Anchor()
    anchor.observe(7, 3, 100)
    assert anchor.extend(7, 5, 1) is None
    assert anchor.extend(8, 0, 1) is None
    assert anchor.extend(7, 3, 1) is None
    assert anchor.extend(7, 4, 1) == 100


def test_an_anchor_never_goes_back() -> None:
    anchor = Anchor()
    anchor.observe(7, 3, 100)
    anchor.observe(6, 9, 50)
    assert anchor.position == (7, 3)
    assert anchor.extend(7, 4, 1) == 100


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 100)), min_size=1, max_size=400), st.integers(0, 10**6))
def test_the_index_narrows_and_never_misleads(steps: list[tuple[int, int]], wanted: int) -> None:
    index = OffsetIndex(capacity=8)
    known: dict[int, tuple[int, int]] = {}
    for base, entry in steps:
        known.setdefault(base, (1, entry))
        index.add(base, known[base])
    bases = {position: base for base, position in known.items()}
    before, after = index.around(wanted)
    assert before is None or any(known[base] == before and base <= wanted for base in known)
    assert after is None or any(known[base] == after and base > wanted for base in known)
    assert len(index._bases) <= 9
    assert bases


def test_a_forgotten_index_knows_nothing() -> None:
    index = OffsetIndex()
    index.add(0, (1, 1))
    index.clear()
    assert index.around(5) == (None, None)
