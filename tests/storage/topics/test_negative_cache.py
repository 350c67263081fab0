"""What is not there, believed for a moment."""

import pytest

from bridge.storage.topics import negative_cache as negative_cache
from bridge.storage.topics.negative_cache import NegativeCache


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(negative_cache, "loop_time", lambda: now[0])
    return now


def test_a_missing_name_is_remembered_for_a_second_from_the_question(clock: list[float]) -> None:
    gone = NegativeCache()
    gone.add("t", 99.5)
    assert "t" in gone
    clock[0] = 100.5
    assert "t" not in gone


def test_a_name_that_may_exist_is_forgotten(clock: list[float]) -> None:
    gone = NegativeCache()
    gone.add("t", 100.0)
    gone.discard("t")
    gone.discard("u")
    assert "t" not in gone


def test_the_cache_is_bounded(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negative_cache, "_MAX_NAMES", 10)
    gone = NegativeCache()
    for number in range(25):
        gone.add(number, 100.0)
    assert sum(number in gone for number in range(25)) <= 10
    assert 24 in gone
