"""What is made of the rounds with transactions."""

from bench.transactions import COLUMNS, Run, row


def test_a_row_has_medians_of_both_and_the_median_of_the_rounds_ratios() -> None:
    times = {"p50": 4.0, "p99": 20.04}
    bridge = [
        Run(rate, {"p50": rate, "p99": 80.0}, times, {"bridge": 3.0, "pulsar": 7.004}) for rate in (10.0, 30.0, 20.0)
    ]
    kafka = [Run(40.0, times, {"p50": 1.0, "p99": 2.0}, {"kafka": 5.0}) for _ in range(3)]
    found = row("one producer", {"bridge": bridge, "kafka": kafka})
    assert found == [
        "one producer", 20.0, 40.0, 0.5, "20.0, 80.0", "4.0, 20.0", "4.0, 20.0", "1.0, 2.0", 3.0, 7.0, 5.0,
    ]  # fmt: skip
    assert len(found) == len(COLUMNS)
