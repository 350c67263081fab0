from collections import Counter

from bench.end_to_end import COLUMNS, Load, Run, curve, rows, table
from bench.results import PERCENTS


def run(milliseconds: list[float], last: list[float] | None = None) -> Run:
    counts = [Counter(round(one * 100) for one in values) for values in (milliseconds, last or milliseconds)]
    return Run(counts[0], counts[1], {"client": 0.25, "server": 0.5})


LOAD = Load("1 consumer, 20/s", 20, 8.0)
RUNS = {
    "bridge": [run([2.0, 3.0, 4.0]), run([12.0, 13.0, 70.0])],  # in the second round both had to wait
    "pulsar": [run([1.5, 2.5, 4.0]), run([12.0, 12.5, 35.0])],
    "kafka": [run([1.0, 1.0, 1.0]), run([1.0, 1.0, 61.0])],
}


def test_a_line_has_the_percentiles_of_all_rounds_and_the_share_that_was_slow() -> None:
    bridge, pulsar, kafka = rows(LOAD, RUNS)
    assert bridge[:7] == ["1 consumer, 20/s", "bridge", 4.0, 70.0, 70.0, 70.0, "16.7%"]
    assert pulsar[1:7] == ["Pulsar", 4.0, 35.0, 35.0, 35.0, "0.0%"]
    assert kafka[1:7] == ["Kafka", 1.0, 61.0, 61.0, 61.0, "16.7%"]
    assert kafka[7:] == [None, None, None, "client 0.25 + server 0.50"]


def test_the_bridge_stands_beside_pulsar_by_the_medians_over_the_rounds() -> None:
    assert rows(LOAD, RUNS)[0][7:10] == [0.5, 1.5, "NO"]
    alike = RUNS | {"bridge": RUNS["pulsar"]}
    assert rows(LOAD, alike)[0][7:10] == [0.0, 1.0, "yes"]


def test_a_record_may_be_counted_once_when_every_consumer_has_it() -> None:
    runs = {"bridge": [run([1.0, 2.0, 3.0, 4.0], [2.0, 4.0])]}
    load = Load("", 5, 8.0, consumers=2, systems=("bridge",))
    assert rows(load, runs)[0][2] == 2.0
    assert rows(load, runs, every=True)[0][2:6] == [2.0, 4.0, 4.0, 4.0]
    assert curve(runs["bridge"]) == [2.0, 3.0, 4.0, 4.0, 4.0, 4.0, 4.0]
    assert len(curve(runs["bridge"], every=True)) == len(PERCENTS)


def test_columns_without_anything_in_them_are_left_out() -> None:
    load = Load("", 20, 8.0, systems=("bridge", "kafka"))
    shown = table("raw", rows(load, {name: RUNS[name] for name in load.systems}))
    assert shown.columns == [name for name in COLUMNS if "Pulsar" not in name and name != "met"]
    assert table("all", rows(LOAD, RUNS)).columns == COLUMNS
