"""What is made of the rounds with single records."""

from bench import singles
from bench.singles import Run, row


def test_a_row_has_medians_of_both_and_the_median_of_the_rounds_ratios() -> None:
    bridge = [
        Run(rate, 5.0, 9.0, {"bridge": 100.0, "pulsar": 50.4, "client": 7.0}) for rate in (1000.0, 3000.0, 2000.0)
    ]
    kafka = [Run(rate, 1.0, 2.04, {"kafka": 20.0, "client": 7.0}) for rate in (4000.0, 4000.0, 4000.0)]
    found = row("idempotent", "2 workers", bridge, kafka)
    assert found == ["idempotent", "2 workers", 2000, 4000, 0.5, "5.0, 9.0", "1.0, 2.0", 100, 50, 20]
    assert len(found) == len(singles.COLUMNS)
