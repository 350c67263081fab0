from bench.throughput import Run, alternate, row


def test_the_first_round_is_not_counted_and_each_begins_with_another_system() -> None:
    order: list[tuple[int, str]] = []

    def once(system: str, number: int) -> Run:
        order.append((number, system))
        return Run(1.0, float(number), {})

    runs = alternate(2, once, ("a", "b"))
    assert order == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]
    assert [run.rate for run in runs["a"]] == [1.0, 2.0]


def test_a_row_has_rates_ratios_and_processor_time_for_100_mb() -> None:
    runs = {
        "bridge": [Run(1.0, 50.0, {"client": 0.1, "bridge": 0.2, "pulsar": 0.3})],
        "pulsar": [Run(0.5, 50.0, {"client": 0.4, "pulsar": 0.3})],
        "kafka": [Run(2.0, 50.0, {"client": 0.1, "kafka": 0.1})],
    }
    assert row("load", runs) == [
        "load", 50.0, 100.0, 25.0, 0.5, 2.0, 0.4, "0.20 + 0.40 + 0.60", "0.80 + 0.60", "0.20 + 0.20",
    ]  # fmt: skip
