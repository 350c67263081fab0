"""Which entries may be acknowledged: those that no other holder's marker can lie before."""

from collections.abc import Callable

from bridge.owned_log.read_back import ReadBack
from bridge.pulsar.types import EARLIEST, Position, Receipt

MARKER = Position(7, 3)


def known(read_back: ReadBack, told: list[int], sequence: int, position: Position = EARLIEST) -> list[int]:
    """The sequence ids that are known when this receipt has come."""
    add: Callable[[], None] = lambda: told.append(sequence)  # noqa: E731 - one for each
    read_back.stored(Receipt(position, sequence, sequence, position == EARLIEST), add)
    return told


def test_an_entry_right_behind_a_known_one_is_known_by_its_receipt() -> None:
    read_back, told = ReadBack(MARKER), list[int]()
    assert known(read_back, told, 1, Position(7, 4)) == [1]
    assert known(read_back, told, 2, Position(7, 5)) == [1, 2]
    assert read_back.known == Position(7, 5)


def test_over_a_gap_it_waits_until_it_is_read() -> None:
    read_back, told = ReadBack(MARKER), list[int]()
    assert known(read_back, told, 1, Position(7, 5)) == []
    assert known(read_back, told, 2, Position(7, 6)) == []
    read_back.read(Position(7, 4), None)  # of another producer, and no marker; what follows is dense again
    assert told == [1, 2]


def test_a_new_ledger_is_a_gap() -> None:
    read_back, told = ReadBack(MARKER), list[int]()
    assert known(read_back, told, 1, Position(9, 0)) == []
    read_back.read(Position(9, 0), 1)
    assert told == [1]


def test_a_repetition_is_known_when_the_entry_is_read() -> None:
    read_back, told = ReadBack(MARKER), list[int]()
    assert known(read_back, told, 1) == []
    read_back.read(Position(7, 4), 1)
    assert told == [1]
    assert known(read_back, told, 1) == [1, 1]


def test_the_reader_may_be_before_the_receipt() -> None:
    read_back, told = ReadBack(MARKER), list[int]()
    read_back.read(Position(9, 4), 5)
    assert known(read_back, told, 5, Position(9, 4)) == [5]
