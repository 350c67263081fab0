"""Sequences of idempotent producers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.append.sequences import SequencePosition, Sequences

LAST = (1 << 31) - 1


def appended(*batches: tuple[int, int, int], start: int = -1) -> Sequences:
    sequences = Sequences(start)
    for epoch, sequence, count in batches:
        sequences.append(sequences.check(epoch, sequence, count))
    return sequences


def refused(sequences: Sequences, epoch: int, sequence: int, count: int = 1) -> int:
    with pytest.raises(KafkaError) as raised:
        sequences.check(epoch, sequence, count)
    return raised.value.code


@pytest.mark.parametrize("sequence", [0, 7, LAST])
def test_an_unknown_producer_may_begin_anywhere(sequence: int) -> None:
    assert not Sequences().check(3, sequence, 1).is_duplicate


def test_batches_follow_one_another() -> None:
    sequences = appended((0, 0, 3), (0, 3, 1))
    assert not sequences.check(0, 4, 10).is_duplicate
    assert refused(sequences, 0, 5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_was_appended_is_a_repetition() -> None:
    sequences = appended((0, 0, 3), (0, 3, 1))
    for sequence, count in ((0, 3), (3, 1), (1, 1)):
        again = sequences.check(0, sequence, count)
        assert again.is_duplicate
        assert again.first == SequencePosition(0, 0, sequence)


def test_what_is_repeated_in_part_is_neither_stored_nor_next() -> None:
    assert refused(appended((0, 0, 3)), 0, 2, count=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_of_a_producer_that_is_not_known_the_first_batch_is_next() -> None:
    assert Sequences().expected(7) == 0


def test_nothing_is_appended_by_being_judged() -> None:
    sequences = appended((0, 0, 3))
    assert not sequences.check(0, 3, 1).is_duplicate
    assert not sequences.check(0, 3, 1).is_duplicate


def test_a_newer_epoch_begins_with_0_and_fences_the_older() -> None:
    sequences = appended((1, 5, 5))
    assert refused(sequences, 2, 10) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (sequences.expected(1), sequences.expected(2)) == (10, 0)
    sequences.append(sequences.check(2, 0, 1))
    assert refused(sequences, 1, 10) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_go_round() -> None:
    sequences = appended((0, LAST - 1, 3))
    assert not sequences.check(0, 1, 1).is_duplicate
    for sequence in (LAST - 1, 0):
        assert sequences.check(0, sequence, 1).is_duplicate
    assert sequences.check(0, LAST - 1, 3).first == SequencePosition(0, 0, LAST - 1)
    assert sequences.check(0, 0, 1).first == SequencePosition(0, 1, 0)
    assert refused(sequences, 0, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_pulsar_remembers_for_us() -> None:
    sequences = appended((4, LAST, 2))
    known = sequences.check(4, 0, 1).last.to_pulsar()
    after_restart = Sequences(known)
    assert not after_restart.check(4, 1, 1).is_duplicate
    assert after_restart.check(4, LAST, 1).is_duplicate
    assert refused(after_restart, 3, 5) == ErrorCode.INVALID_PRODUCER_EPOCH


_places = st.builds(
    SequencePosition, st.integers(0, (1 << 15) - 1), st.integers(0, (1 << 16) - 1), st.integers(0, LAST)
)


@given(_places, _places)
def test_pulsar_s_sequence_ids_grow_as_places_do(one: SequencePosition, other: SequencePosition) -> None:
    assert (one < other) == (one.to_pulsar() < other.to_pulsar())
    assert SequencePosition.of_pulsar(one.to_pulsar()) == one
    assert 0 <= one.to_pulsar() < 1 << 62


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=30), st.integers(0, LAST))
def test_a_life_of_batches_is_in_order_and_every_repetition_is_known(counts: list[int], start: int) -> None:
    sequences = Sequences()
    sent, sequence = [], start
    for count in counts:
        batch = sequences.check(0, sequence, count)
        assert not batch.is_duplicate
        sequences.append(batch)
        sent.append((sequence, count, batch))
        sequence = (sequence + count) % (LAST + 1)
    for first, count, batch in sent:
        again = sequences.check(0, first, count)
        assert (again.is_duplicate, again.first, again.last) == (True, batch.first, batch.last)
