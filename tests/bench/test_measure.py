import os

import pytest

from bench.measure import Cpu, counted_percentile, cpu_seconds, memory, paired_ratio, percentile, resident_megabytes


def test_a_ratio_is_taken_within_each_round_before_the_median() -> None:
    ours, theirs = [10.0, 1.0, 30.0], [20.0, 2.0, 20.0]  # the second round was ten times slower for both
    assert paired_ratio(ours, theirs) == 0.5


def test_rounds_without_a_partner_are_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        paired_ratio([1.0, 2.0], [1.0])


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert [percentile(values, percent) for percent in (0, 1, 50, 99, 100)] == [1, 1, 50, 99, 100]
    assert percentile([7.0], 99) == 7.0


def test_a_percentile_of_counted_values_is_that_of_the_values() -> None:
    counts = {7: 3, 1: 5, 20: 2}
    values = [float(value) for value, count in counts.items() for _ in range(count)]
    percents = (0, 1, 50, 51, 80, 81, 99, 99.9, 100)
    assert [counted_percentile(counts, one) for one in percents] == [percentile(values, one) for one in percents]
    with pytest.raises(ValueError, match="nothing"):
        counted_percentile({}, 50)


def test_processor_time_is_found_behind_any_process_name() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    stat = f"12 (a) R 1 (b)) S 1 2 3 4 5 6 7 8 9 10 {3 * ticks} {ticks} 500 600"
    assert cpu_seconds(stat) == 4.0


def test_resident_memory_is_told_in_kibibytes() -> None:
    assert resident_megabytes("VmPeak:\t  9 kB\nVmRSS:\t  2000 kB\nThreads:\t1\n") == 2.048


def test_this_process_uses_time_and_memory() -> None:
    cpu = Cpu({"test": os.getpid()})
    while cpu.used()["test"] <= 0:
        pass
    assert memory(os.getpid()) > 1
