"""Many producers that send single records, the bridge beside Kafka: what small requests cost."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.measure import paired_ratio
from bench.results import Cell, Part, Table
from bench.stack import Stack

CONNECTIONS, PARTITIONS, RECORD_BYTES = 100, 16, 100
_WARM_SECONDS = 1.0
_SYSTEMS = ("bridge", "kafka")
COLUMNS = [
    "producers", "bridge records/s", "Kafka records/s", "bridge / Kafka", "bridge p50, p99 ms", "Kafka p50, p99 ms",
    "CPU µs a record: bridge", "Pulsar", "Kafka",
]  # fmt: skip
METHOD = (
    f"{CONNECTIONS} connections, each of which sends one record of {RECORD_BYTES} bytes (acks=all) after the answer to "
    f"the last, over {PARTITIONS} partitions. They are sockets and little else, on one thread of Java. Figures are "
    "medians over the rounds."
)


@dataclass(frozen=True, slots=True)
class Run:
    """One load on one system: records a second, milliseconds, and the processor time of a record by process."""

    rate: float
    p50: float
    p99: float
    microseconds: dict[str, float]


def part(stack: Stack, rounds: int, seconds: float) -> Part:
    """Without and with idempotence."""
    rows: list[list[Cell]] = []
    for name, idempotent in (("not idempotent", False), ("idempotent", True)):
        topics = {system: stack.topic(system, PARTITIONS) for system in _SYSTEMS}
        runs: dict[str, list[Run]] = {system: [] for system in _SYSTEMS}
        for number in range(rounds + 1):
            for system in _SYSTEMS if number % 2 else reversed(_SYSTEMS):
                one = run(stack, system, topics[system], seconds, idempotent=idempotent)
                if number:
                    runs[system].append(one)
        rows.append(row(name, runs["bridge"], runs["kafka"]))
    return Part("singles", "Single records", METHOD, [Table("Single records", COLUMNS, rows)])


def run(stack: Stack, system: str, topic: str, seconds: float, *, idempotent: bool) -> Run:
    """One load."""
    cpu = stack.cpu(system)
    found = stack.kafka_client.call(
        "singles", bootstrap=stack.bootstrap(system), topic=topic, connections=CONNECTIONS, partitions=PARTITIONS,
        size=RECORD_BYTES, seconds=seconds, warm_seconds=_WARM_SECONDS, idempotent=idempotent,
    )  # fmt: skip
    records = found["rate"] * (seconds + _WARM_SECONDS)
    return Run(
        found["rate"], found["p50"], found["p99"], {name: 1e6 * one / records for name, one in cpu.used().items()}
    )


def row(name: str, bridge: Sequence[Run], kafka: Sequence[Run]) -> list[Cell]:
    """Medians of both."""
    rates = [[one.rate for one in runs] for runs in (bridge, kafka)]
    latencies = [
        f"{statistics.median(one.p50 for one in runs):.1f}, {statistics.median(one.p99 for one in runs):.1f}"
        for runs in (bridge, kafka)
    ]
    costs = [
        round(statistics.median(one.microseconds[process] for one in runs))
        for runs, process in ((bridge, "bridge"), (bridge, "pulsar"), (kafka, "kafka"))
    ]
    return [name, *(round(statistics.median(one)) for one in rates), round(paired_ratio(*rates), 2), *latencies, *costs]
