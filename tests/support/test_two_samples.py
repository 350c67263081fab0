from __future__ import annotations

import random

import pytest

from tests.support.two_samples import Comparison, p99

_RANDOM = random.Random(7)


def times(number: int, most: float) -> list[float]:
    """As answers take them: most are near the least, some take long."""
    return [most + _RANDOM.expovariate(10 / most) for _ in range(number)]


def test_samples_of_one_distribution_are_seldom_told_apart() -> None:
    told_apart = [Comparison(times(50, 1.0), times(50, 1.0)).p < 0.01 for _ in range(300)]
    assert sum(told_apart) <= 10


def test_a_difference_of_a_twentieth_is_found_in_two_hundred() -> None:
    found = Comparison(times(200, 1.0), times(200, 1.05))
    assert found.p < 1e-6
    least, middle, most = found.shift
    assert 0 < least < middle < most < 0.1
    assert middle == pytest.approx(0.05, abs=0.02)


def test_the_same_sample_is_not_shifted() -> None:
    one = times(40, 1.0)
    assert Comparison(one, one).p == pytest.approx(1.0)
    assert Comparison(one, one).shift[1] == 0.0


def test_one_in_a_hundred_is_above_p99() -> None:
    assert p99([float(number) for number in range(1, 1001)]) == pytest.approx(990, abs=1)
