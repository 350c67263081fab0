"""From `send` until consumers have the record: loads at a fixed rate, the systems in turns."""

import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from bench import apart, loads
from bench.followers import fetch_frame
from bench.measure import counted_percentile, paired_ratio, percentile
from bench.results import PERCENTS, Cell, Part, Table
from bench.stack import SYSTEMS, Stack

SLOW_MS = 60.0
_STEP_MS = 0.01
_WARM_SECONDS = 1.0
METHOD = (
    "One producer sends records of 1 KB evenly, acks=all. The time is from `send` until a consumer has been handed "
    "the record, by one clock. Linger is 0, at 5,000/s 1 ms. Pulsar's client sends without batches where linger is 0, "
    "else with batchingMaxPublishDelay 1 ms. A single consumer is Kafka's own, `poll` on a thread of its own; for "
    "Pulsar it is a reader with `readNext`. The hundred consumers, those of 50 partitions and the raw ones are "
    "sockets on one thread. They read the offsets of each answer and send the next Fetch (v11, max_wait_ms 500, "
    "min_bytes 1, each on a connection of its own), the same for the bridge and Kafka. For Pulsar they are as many "
    "readers with listeners, in one client, which has one connection. Producer and consumers are in one process, "
    "except for the Fetch after the Produce. Percentiles are of all rounds together. The columns beside Pulsar are "
    "medians of the rounds' differences and ratios; the targets are 1 ms and 1.2 at most. Processors: how many of the "
    "machine's each process kept busy. Near all of them, a system is measured at its limit."
)
_KAFKA_PROTOCOL = ("bridge", "kafka")
_TITLES = {"bridge": "bridge", "pulsar": "Pulsar", "kafka": "Kafka"}
_SENT = loads.Load(1024, 1, 16 * 1024, 1)
_PENDING = (64 << 20) // _SENT.size  # records of Pulsar's client, as much as Kafka's buffer.memory: `send` never blocks


@dataclass(frozen=True, slots=True)
class Load:
    """One producer at a fixed rate, and who reads."""

    name: str
    rate: float
    seconds: float
    consumers: int = 1
    partitions: int = 1
    linger_ms: int = 0
    raw_wait_ms: int | None = None
    """The max_wait_ms of consumers that are sockets and little else; None: Kafka's own consumer."""
    systems: Sequence[str] = SYSTEMS


class Run(NamedTuple):
    """One load on one system in one round; latencies are counted in steps of 10 µs."""

    each: Counter[int]
    """Of every record at every consumer."""
    every: Counter[int]
    """Of every record until the last consumer had it."""
    processors: dict[str, float]
    """How many each process kept busy."""


Runs = dict[str, list[Run]]


def once(stack: Stack, system: str, load: Load, topic: str, seconds: float) -> Run:
    """One load on one system."""
    arguments: dict[str, object] = {
        "payloads": str(stack.payloads.of(_SENT.size)),
        "rate": load.rate,
        "warm_seconds": _WARM_SECONDS,
        "seconds": seconds,
        "consumers": load.consumers,
        "partitions": load.partitions,
    }
    cpu, start = stack.cpu(system), time.monotonic()
    if system == "pulsar":
        settings = _SENT.pulsar_producer() | {"linger_ms": load.linger_ms, "pending": _PENDING}
        found = stack.pulsar_client.call("end_to_end", topic=stack.native(topic), **arguments, **settings)
    else:
        bootstrap = stack.bootstrap(system)
        settings = _SENT.producer_settings(bootstrap) | {"linger.ms": str(load.linger_ms)}
        if load.raw_wait_ms is not None:
            frame, places = fetch_frame(topic, load.partitions, load.raw_wait_ms)
            arguments |= {"fetch": frame.hex(), "places": places}
        found = stack.kafka_client.call("end_to_end", topic=topic, bootstrap=bootstrap, settings=settings, **arguments)
    spent = time.monotonic() - start
    processors = {name: used / spent for name, used in cpu.used().items()}
    return Run(_counter(found["each"]), _counter(found["all"]), processors)


def _counter(found: Mapping[str, int]) -> Counter[int]:
    return Counter({int(step): count for step, count in found.items()})


def rounds(stack: Stack, load: Load, count: int) -> Runs:
    """A short round to warm up, which is not counted, and then so many, each beginning with another system."""
    # none is written to when it has just been made: Kafka 4.1 may then refuse an idempotent producer's batches forever
    topics = {system: stack.topic(system, load.partitions) for system in load.systems}
    runs: Runs = {system: [] for system in load.systems}
    for number in range(count + 1):
        first = number % len(load.systems)
        for system in (*load.systems[first:], *load.systems[:first]):
            run = once(stack, system, load, topics[system], load.seconds if number else load.seconds / 4)
            if number:
                runs[system].append(run)
    return runs


COLUMNS = [
    "load", "system", "p50 ms", "p90 ms", "p99 ms", "max ms", f"> {SLOW_MS:.0f} ms", "p50 − Pulsar's ms",
    "p99 / Pulsar's", "met", "processors",
]  # fmt: skip


def rows(load: Load, runs: Runs, *, every: bool = False) -> list[list[Cell]]:
    """A line for each system in the table of `COLUMNS`. `every`: until the last of the consumers has the record."""
    lines: list[list[Cell]] = []
    for system in load.systems:
        counts = [run.every if every else run.each for run in runs[system]]
        pooled = sum(counts, Counter[int]())
        line: list[Cell] = [load.name, _TITLES[system]]
        line += [round(milliseconds(pooled, percent), 2) for percent in (50, 90, 99, 100)]
        slow = sum(count for step, count in pooled.items() if step * _STEP_MS > SLOW_MS)
        line.append(f"{slow / pooled.total():.1%}")
        line += _beside_pulsar(runs, every=every) if system == "bridge" and "pulsar" in runs else [None] * 3
        line.append(_processors(runs[system]))
        lines.append(line)
    return lines


def _beside_pulsar(runs: Runs, *, every: bool) -> list[Cell]:
    """By how much the bridge's median is above Pulsar's, its 99th percentile in Pulsar's, and whether that will do."""
    found = {
        (system, percent): [milliseconds(run.every if every else run.each, percent) for run in runs[system]]
        for system in ("bridge", "pulsar")
        for percent in (50, 99)
    }
    pairs = zip(found["bridge", 50], found["pulsar", 50], strict=True)
    added = statistics.median(ours - theirs for ours, theirs in pairs)
    ratio = paired_ratio(found["bridge", 99], found["pulsar", 99])
    return [round(added, 2), round(ratio, 2), "yes" if added <= 1 and ratio <= 1.2 else "NO"]


def _processors(runs: list[Run]) -> str:
    """As in `client 0.40 + bridge 0.20`."""
    used = {name: statistics.median(run.processors[name] for run in runs) for name in runs[0].processors}
    return " + ".join(f"{name} {count:.2f}" for name, count in used.items())


def milliseconds(counts: Counter[int], percent: float) -> float:
    """A percentile."""
    return counted_percentile(counts, percent) * _STEP_MS


def curve(runs: list[Run], *, every: bool = False) -> list[float]:
    """What is plotted of one system: the milliseconds of `PERCENTS`."""
    pooled = sum((run.every if every else run.each for run in runs), Counter[int]())
    return [round(milliseconds(pooled, percent), 2) for percent in PERCENTS]


def table(title: str, lines: list[list[Cell]]) -> Table:
    """A table of `rows`; columns that no line has anything in are left out."""
    shown = [name for at, name in enumerate(COLUMNS) if any(line[at] is not None for line in lines)]
    return Table(title, COLUMNS, lines).only(shown)


def read_back(stack: Stack, count: int, seconds: float) -> Table:
    """A Fetch straight after the answer to the Produce."""
    lines: list[list[Cell]] = []
    for wait in (500, 3000):
        topics = {system: stack.topic(system, 1) for system in _KAFKA_PROTOCOL}
        found: dict[str, list[float]] = {system: [] for system in topics}
        for number in range(count):
            for system, topic in topics.items() if number % 2 else reversed(topics.items()):
                options = {"bootstrap": stack.bootstrap(system), "topic": topic, "wait": wait, "seconds": seconds}
                with apart.started("read_back", **options) as process:
                    found[system] += process.result()
        for system, latencies in found.items():
            line: list[Cell] = [f"max_wait_ms {wait}", _TITLES[system], len(latencies)]
            line += [round(percentile(latencies, percent) * 1000, 2) for percent in (50, 90, 99, 100)]
            waited = sum(latency * 1000 >= wait for latency in latencies)
            lines.append([*line, f"{waited / len(latencies):.1%}"])
    columns = ["", "system", "tries", "p50 ms", "p90 ms", "p99 ms", "max ms", "answered only by max_wait_ms"]
    return Table("A Fetch straight after the answer to the Produce", columns, lines)


def part(stack: Stack, count: int, seconds: float) -> Part:
    """Every load, so many rounds of each."""
    one = Part("end-to-end", "End-to-end latency", METHOD)
    rounds(stack, Load("", 5000, seconds * 4, linger_ms=1), 0)  # so that all code is compiled
    polled = _loads(
        one, stack, count,
        Load("1 consumer, 20/s", 20, seconds * 2),
        Load("1 consumer, 5,000/s", 5000, seconds, linger_ms=1),
        Load("100 consumers, 20/s", 20, seconds * 2, consumers=100, raw_wait_ms=500),
        Load("100 consumers, 200/s", 200, seconds, consumers=100, raw_wait_ms=500),
        Load("100 consumers, 5,000/s", 5000, seconds, consumers=100, linger_ms=1, raw_wait_ms=500),
    )  # fmt: skip
    few = min(count, 3)
    waiting = _loads(
        one, stack, few,
        Load("a record each 50 ms", 20, seconds * 2, raw_wait_ms=3000, systems=_KAFKA_PROTOCOL),
        Load("a record each 100 ms", 10, seconds * 2, raw_wait_ms=3000, systems=_KAFKA_PROTOCOL),
    )  # fmt: skip
    idle = Load("each of 20 consumers", 5, seconds * 2, consumers=20, partitions=50, raw_wait_ms=500)
    found = rounds(stack, idle, few)
    all_of_them = replace(idle, name="all 20 consumers")
    _draw(one, idle, found)
    _draw(one, all_of_them, found, every=True)
    one.tables = [
        table("From produce to poll", polled),
        read_back(stack, few, seconds),
        table("A raw consumer at the end, max_wait_ms 3000", waiting),
        table("20 consumers of 50 partitions, a record each 200 ms in one of them", [
            *rows(idle, found), *rows(all_of_them, found, every=True),
        ]),
    ]  # fmt: skip
    return one


def _loads(into: Part, stack: Stack, count: int, *loads: Load) -> list[list[Cell]]:
    lines = []
    for load in loads:
        runs = rounds(stack, load, count)
        _draw(into, load, runs)
        lines += rows(load, runs)
    return lines


def _draw(into: Part, load: Load, runs: Runs, *, every: bool = False) -> None:
    into.percentiles[load.name] = {_TITLES[system]: curve(found, every=every) for system, found in runs.items()}
