"""Many producers that send single records, the bridge beside Kafka: what small requests cost."""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from bench.measure import Cpu, paired_ratio
from bench.results import Cell, Part, Table
from bench.stack import Stack
from bench.throughput import alternate
from bench.workers import clusters
from tests.support.pulsar import PulsarAddress

CONNECTIONS, PARTITIONS, RECORD_BYTES = 100, 16, 100
_WARM_SECONDS = 1.0
COLUMNS = [
    "producers", "bridge", "bridge records/s", "Kafka records/s", "bridge / Kafka", "bridge p50, p99 ms",
    "Kafka p50, p99 ms", "CPU µs a record: bridge", "Pulsar", "Kafka",
]  # fmt: skip
METHOD = (
    f"{CONNECTIONS} connections, each of which sends one record of {RECORD_BYTES} bytes (acks=all) after the answer to "
    f"the last, over {PARTITIONS} partitions. They are sockets and little else, on one thread of Java. Figures are "
    "medians over the rounds. Each connection goes to its partition's leader, of two workers to one of them."
)


@dataclass(frozen=True, slots=True)
class Run:
    """One load on one system: records a second, milliseconds, and the processor time of a record by process."""

    rate: float
    p50: float
    p99: float
    microseconds: Mapping[str, float]


def part(stack: Stack, rounds: int, seconds: float) -> Part:
    """Without and with idempotence, one worker and two."""
    plan = stack.pulsar.plan
    with clusters(PulsarAddress(plan.service_url, plan.admin_url), (2,)) as started:
        workers = started[2]
        pulsar = {"pulsar": stack.pulsar.pid}
        systems = {
            "1 worker": System(stack.bootstrap("bridge"), partial(stack.cpu, "bridge")),
            "2 workers": System(workers.bootstrap, partial(workers.cpu, **pulsar)),
            "Kafka": System(stack.bootstrap("kafka"), partial(stack.cpu, "kafka")),
        }
        rows = [row for idempotent in (False, True) for row in _rows(stack, systems, rounds, seconds, idempotent)]
    return Part("singles", "Single records", METHOD, [Table("Single records", COLUMNS, rows)])


@dataclass(frozen=True, slots=True)
class System:
    """Where it is, and what counts the processor time of its processes."""

    bootstrap: str
    cpu: Callable[[], Cpu]


def _rows(
    stack: Stack, systems: Mapping[str, System], rounds: int, seconds: float, idempotent: bool
) -> list[list[Cell]]:
    topics = {name: stack.new_topic(system.bootstrap, PARTITIONS, "singles-") for name, system in systems.items()}

    def once(name: str, _: int) -> Run:
        return run(stack, systems[name], topics[name], seconds, idempotent=idempotent)

    runs = alternate(rounds, once, [*systems])
    kafka = runs.pop("Kafka")
    producers = "idempotent" if idempotent else "not idempotent"
    return [row(producers, name, found, kafka) for name, found in runs.items()]


def run(stack: Stack, system: System, topic: str, seconds: float, *, idempotent: bool) -> Run:
    """One load."""
    cpu = system.cpu()
    found = stack.kafka_client.call(
        "singles", bootstrap=system.bootstrap, topic=topic, connections=CONNECTIONS, size=RECORD_BYTES,
        seconds=seconds, warm_seconds=_WARM_SECONDS, idempotent=idempotent,
    )  # fmt: skip
    records = found["rate"] * (seconds + _WARM_SECONDS)
    used = Counter[str]()
    for name, one in cpu.used().items():
        used["bridge" if name.startswith("worker") else name] += 1e6 * one / records
    return Run(found["rate"], found["p50"], found["p99"], used)


def row(producers: str, name: str, bridge: Sequence[Run], kafka: Sequence[Run]) -> list[Cell]:
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
    medians = [round(statistics.median(one)) for one in rates]
    return [producers, name, *medians, round(paired_ratio(*rates), 2), *latencies, *costs]
