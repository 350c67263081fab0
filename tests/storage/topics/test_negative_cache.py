"""What is not there, believed for a moment."""

import pytest

from bridge.storage.topics import negative_cache as negative_cache
from bridge.storage.topics.negative_cache import NegativeCache


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(negative_cache, "loop_time", lambda: now[0])
    return now


def test_it_is_believed_for_a_second_from_when_it_was_asked(clock: list[float]) -> None:
    gone = NegativeCache()
    gone.add("t", 99.5)
    assert "t" in gone
    clock[0] = 100.5
    assert "t" not in gone


def test_what_may_be_there_is_asked_for(clock: list[float]) -> None:
    gone = NegativeCache()
    gone.add("t", 100.0)
    gone.discard("t")
    gone.discard("u")
    assert "t" not in gone


def test_it_stays_small(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negative_cache, "_MAX_NAMES", 10)
    gone = NegativeCache()
    for number in range(25):
        gone.add(number, 100.0)
    assert sum(number in gone for number in range(25)) <= 10
    assert 24 in gone
