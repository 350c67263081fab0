"""Ack sets as Java's `BitSet.toLongArray` makes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.pulsar.consumer.ack_sets import ack_set, count, unacknowledged


def test_a_bit_is_set_until_its_message_is_acknowledged() -> None:
    assert ack_set(4, [0, 2]) == (0b1010,)
    assert ack_set(64, []) == (-1,)  # Java's longs are signed
    assert ack_set(65, [64]) == (-1, 0)
    assert ack_set(3, range(3)) == (0,)


def test_an_empty_set_is_a_batch_of_which_nothing_is_acknowledged() -> None:
    assert unacknowledged((), 3) == [0, 1, 2]
    assert unacknowledged((1,), 100) == [0]  # Java leaves out words of zeros at the end


@pytest.mark.parametrize("index", [-1, 3])
def test_a_message_that_is_not_in_the_batch_is_refused(index: int) -> None:
    with pytest.raises(ValueError, match="a batch of 3 has no message"):
        ack_set(3, [index])


@given(st.integers(1, 300).flatmap(lambda size: st.tuples(st.just(size), st.sets(st.integers(0, size - 1)))))
def test_what_is_acknowledged_is_not_unacknowledged(batch: tuple[int, set[int]]) -> None:
    size, acknowledged = batch
    words = ack_set(size, acknowledged)
    assert all(-(1 << 63) <= word < 1 << 63 for word in words)
    assert unacknowledged(words, size) == sorted(set(range(size)) - acknowledged)
    assert count(words) == size - len(acknowledged)
