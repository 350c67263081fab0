"""One and two workers before a broker that stores nothing: what a second worker is worth where Pulsar is elsewhere."""

import os
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from bench import apart
from bench.apart import Apart
from bench.measure import paired_ratio
from bench.results import Cell, Table
from bench.stack import Stack
from bench.stub_broker import READY
from bench.workers import Workers, clusters
from bridge.standalone.ports import HOST, any_free
from tests.support.pulsar import PulsarAddress

PREFIX = "stub-"
PARTITIONS = 8
COUNTS = (1, 2)
SIZES = (16 * 1024, 128 * 1024)
METHOD = (
    "The stand-in: Pulsar is this machine's, but topics of the load are looked up at a process that answers sends "
    "without storing them. One client process sends the same batches of 1 KB records again and again, three in flight "
    "for each of 8 partitions. Stand-in and client need cores, too: the last column is what two workers could be at "
    "most beside a whole core of one worker, by the processor time that each took for a megabyte."
)


@dataclass(frozen=True, slots=True)
class Run:
    """One load: megabytes a second, and the processor seconds of each for a megabyte."""

    rate: float
    workers: float
    stub: float
    client: float


@contextmanager
def stub(pulsar_url: str) -> Iterator[tuple[str, Apart]]:
    """Start the stand-in; the service URL that bridges are given."""
    port = any_free()
    pulsar = pulsar_url.removeprefix("pulsar://")
    ports = {"port": port, "data-port": any_free({port})}
    with apart.started("stub_broker", pulsar=pulsar, prefix=PREFIX, **ports) as process:
        process.wait_for(READY)
        yield f"pulsar://{HOST}:{port}", process


def table(stack: Stack, rounds: int, seconds: float) -> Table:
    """Start stand-in and workers, and measure."""
    plan = stack.pulsar.plan
    pulsar = PulsarAddress(plan.service_url, plan.admin_url)
    with stub(plan.service_url) as (url, process), clusters(pulsar, COUNTS, url) as started:
        return measured(stack, started, process, rounds, seconds)


def measured(stack: Stack, started: dict[int, Workers], process: Apart, rounds: int, seconds: float) -> Table:
    """A row for each size of batches; the first round warms up."""
    rows: list[list[Cell]] = []
    for size in SIZES:
        runs: dict[int, list[Run]] = {count: [] for count in COUNTS}
        for number in range(rounds + 1):
            for count in COUNTS if number % 2 else reversed(COUNTS):
                one = load(stack, started[count], process, size, seconds)
                if number:
                    runs[count].append(one)
        rows.append([f"produce, {size // 1024} KB batches", *cells(runs, len(os.sched_getaffinity(0)))])
    columns = ["", "1: MB/s", "2: MB/s", "2 / 1", "2 / 1, a CPU second"]
    columns += [f"{count}: % of a core, {what}" for count in COUNTS for what in ("workers", "stand-in", "client")]
    return Table("Produce, storing nothing", [*columns, "2 / 1 at most"], rows)


def cells(runs: dict[int, list[Run]], cores: int) -> list[Cell]:
    """Medians over the rounds, and what this many cores allow."""
    rates = {count: [run.rate for run in found] for count, found in runs.items()}
    per_cpu = {count: [1 / run.workers for run in found] for count, found in runs.items()}
    row: list[Cell] = [round(statistics.median(rates[count]), 1) for count in COUNTS]
    row += [round(paired_ratio(one[2], one[1]), 2) for one in (rates, per_cpu)]
    for found in (runs[count] for count in COUNTS):
        for what in ("workers", "stub", "client"):
            row.append(round(statistics.median(getattr(run, what) * run.rate for run in found) * 100))
    return [*row, round(statistics.median(map(partial(at_most, cores=cores), runs[1])), 2)]


def at_most(one: Run, cores: int) -> float:
    """The rate at which stand-in, client and any number of workers fill the cores, beside that of a full worker."""
    return min(2.0, cores * one.workers / (one.workers + one.stub + one.client))


def load(stack: Stack, workers: Workers, process: Apart, size: int, seconds: float) -> Run:
    """One, on a topic of its own."""
    topic = stack.new_topic(workers.bootstrap, PARTITIONS, PREFIX)
    cpu = workers.cpu(stub=process.pid)
    options = {"bootstrap": workers.bootstrap, "topic": topic, "size": size, "seconds": seconds}
    with apart.started("light_producer", **options) as client:
        found = client.result()
    used = cpu.used()
    stub_seconds = used.pop("stub")
    megabytes = found["megabytes"]
    rate = megabytes / found["seconds"]
    return Run(rate, sum(used.values()) / megabytes, stub_seconds / megabytes, found["cpu"] / megabytes)
