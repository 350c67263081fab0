"""What the table of the stand-in's rounds is made of."""

from __future__ import annotations

import pytest

from bench.stub_rounds import Run, at_most, cells


@pytest.mark.parametrize(
    ("run", "cores", "expected"),
    [
        (Run(100, 0.01, 0.0, 0.0), 2, 2.0),
        (Run(100, 0.006, 0.002, 0.002), 2, 1.2),
        (Run(100, 0.006, 0.002, 0.002), 8, 2.0),
    ],
)
def test_the_cores_that_stand_in_and_client_take_are_not_the_workers(run: Run, cores: int, expected: float) -> None:
    assert at_most(run, cores) == pytest.approx(expected)


def test_a_row_has_rates_ratios_shares_and_what_can_be() -> None:
    runs = {1: [Run(100, 0.01, 0.001, 0.001)], 2: [Run(150, 0.0125, 0.001, 0.001)]}
    assert cells(runs, 2) == [100, 150, 1.5, 0.8, 100, 10, 10, 188, 15, 15, 1.67]
