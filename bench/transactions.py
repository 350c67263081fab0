"""Transactions, the bridge beside Kafka: how many end in a second, what an end takes, when readers see the records."""

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.measure import paired_ratio
from bench.nodes import Nodes
from bench.results import Cell, Part, Table
from bench.stack import Stack, class_path, java_client
from bench.throughput import alternate
from bridge.node.orphans import Guard
from tests.support.driver import Driver
from tests.support.java import KAFKA, KAFKA_VERSION, OLD_CLIENTS, OLD_KAFKA_VERSION

_BOTH = ("bridge", "kafka")
_WARM_SECONDS = 1.0
_COMMIT_MS = 100
_COPIED_RECORDS = 100
_SOURCE_RECORDS = 200_000
METHOD = (
    f"Java's client {KAFKA_VERSION} (protocol 2, KIP-890), a thread for each producer, all in one JVM for the bridge "
    "and Kafka; records of 1 KB, linger 5 ms, buffer 256 KB. An end is the call of `commitTransaction` after `flush`. "
    "Figures are medians over the rounds. A record is seen by a reader of committed records at the partition's leader; "
    "the time is from the call of `commitTransaction`. On another node: of two nodes one leads the partition, and the "
    f"other decides the transaction. Protocol 1 is spoken by the client {OLD_KAFKA_VERSION}."
)


@dataclass(frozen=True, slots=True)
class Load:
    """Producers that each end one transaction after another."""

    producers: int
    partitions: int
    records: int

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.producers} × {self.records} records, {self.partitions} partitions"


LOADS = (
    Load(1, 1, 1), Load(1, 1, 100), Load(1, 10, 100), Load(5, 10, 100), Load(20, 10, 100), Load(100, 10, 100),
)  # fmt: skip
COLUMNS = [
    "producers", "bridge ends/s", "Kafka ends/s", "bridge / Kafka", "bridge whole p50, p99 ms",
    "Kafka whole p50, p99 ms", "bridge end p50, p99 ms", "Kafka end p50, p99 ms", "CPU ms a transaction: bridge",
    "Pulsar", "Kafka",
]  # fmt: skip
"""Of the rows of `row`."""


@dataclass(frozen=True, slots=True)
class Run:
    """One load on one system."""

    rate: float
    """Ends a second."""
    whole: Mapping[str, float]
    """Milliseconds of a transaction, `p50` and `p99`."""
    end: Mapping[str, float]
    """Of its end."""
    milliseconds: Mapping[str, float]
    """Processor time of a transaction by process."""


@dataclass(frozen=True, slots=True)
class _Bench:
    """Asks a client that runs one load after the other."""

    stack: Stack
    client: Driver
    rounds: int
    seconds: float

    def ask(self, operation: str, bootstrap: str, topic: str, **arguments: object) -> Any:
        times = {"seconds": self.seconds, "warm_seconds": _WARM_SECONDS}
        return self.client.call(operation, bootstrap=bootstrap, topic=topic, **times, **arguments)

    def topics(self, partitions: int) -> dict[str, str]:
        """One of each system."""
        return {system: self.stack.topic(system, partitions) for system in _BOTH}

    def both(self, operation: str, partitions: int, **arguments: object) -> dict[str, list[Any]]:
        """In turns, on one topic of each system."""
        topics = self.topics(partitions)

        def once(system: str, _: int) -> Any:
            bootstrap = self.stack.bootstrap(system)
            return self.ask(operation, bootstrap, topics[system], partitions=partitions, **arguments)

        return alternate(self.rounds, once, _BOTH)


def part(stack: Stack, rounds: int, seconds: float) -> Part:
    """All tables."""
    with ExitStack() as running:
        directory = Path(running.enter_context(tempfile.TemporaryDirectory(dir=stack.directory)))
        benches = []
        for protocol, jars in ((2, KAFKA), (1, OLD_CLIENTS)):
            work = directory / str(protocol)
            work.mkdir()
            client = running.enter_context(
                closing(java_client("transactions", class_path(jars), "TransactionLoad", [], work))
            )
            benches.append(_Bench(stack, client, rounds, seconds))
        newest, old = benches
        tables = [
            Table("Transactions", COLUMNS, [row(load.name, _transactions(newest, load)) for load in LOADS]),
            _singles(newest),
            _copies(newest),
            _seen(newest, directory),
            _commits({"2": newest, "1": old}),
        ]
    return Part("transactions", "Transactions", METHOD, tables)


def _transactions(bench: _Bench, load: Load) -> dict[str, list[Run]]:
    topics = bench.topics(load.partitions)

    def once(system: str, _: int) -> Run:
        ask = partial(
            bench.ask, bootstrap=bench.stack.bootstrap(system), topic=topics[system], producers=load.producers,
            partitions=load.partitions, records=load.records,
        )  # fmt: skip
        ask("open")
        cpu = bench.stack.cpu(system)
        found = ask("transactions")
        ended = found["rate"] * (bench.seconds + _WARM_SECONDS)
        used = {name: 1e3 * one / ended for name, one in cpu.used().items()}
        ask("close")
        return Run(found["rate"], found["whole"], found["end"], used)

    return alternate(bench.rounds, once, _BOTH)


def row(name: str, runs: Mapping[str, Sequence[Run]]) -> list[Cell]:
    """Medians of both."""
    bridge, kafka = runs["bridge"], runs["kafka"]
    rates = [[one.rate for one in found] for found in (bridge, kafka)]
    costs = [
        round(statistics.median(one.milliseconds[process] for one in found), 2)
        for found, process in ((bridge, "bridge"), (bridge, "pulsar"), (kafka, "kafka"))
    ]
    return [
        name, *(round(statistics.median(one), 1) for one in rates), round(paired_ratio(*rates), 2),
        *(_shown([one.whole for one in found]) for found in (bridge, kafka)),
        *(_shown([one.end for one in found]) for found in (bridge, kafka)), *costs,
    ]  # fmt: skip


def _shown(found: Sequence[Mapping[str, float]]) -> str:
    return ", ".join(f"{statistics.median(one[name] for one in found):.1f}" for name in ("p50", "p99"))


def _singles(bench: _Bench) -> Table:
    """What an end is held against."""
    found = bench.both("appends", 1)
    cells: list[Cell] = [_shown(found[system]) for system in _BOTH]
    columns = ["", "bridge p50, p99 ms", "Kafka p50, p99 ms"]
    return Table("Single records of an idempotent producer", columns, [["append", *cells]])


def _copies(bench: _Bench) -> Table:
    topics, targets = bench.topics(1), bench.topics(1)
    for system, topic in topics.items():
        bench.ask("fill", bench.stack.bootstrap(system), topic, partitions=1, records=_SOURCE_RECORDS)

    def once(system: str, _: int) -> float:
        bootstrap, target = bench.stack.bootstrap(system), targets[system]
        return float(bench.ask("copy", bootstrap, topics[system], target=target, records=_COPIED_RECORDS))

    found = alternate(bench.rounds, once, _BOTH)
    rates: list[Cell] = [round(statistics.median(found[system])) for system in _BOTH]
    columns = ["", "bridge records/s", "Kafka records/s", "bridge / Kafka"]
    ratio = round(paired_ratio(found["bridge"], found["kafka"]), 2)
    title = f"Read, written and committed with offsets, {_COPIED_RECORDS} records at once"
    return Table(title, columns, [["one copier", *rates, ratio]])


def _seen(bench: _Bench, directory: Path) -> Table:
    lines: list[list[Cell]] = []
    alone = bench.both("visible", 1, elsewhere=False)
    lines += [[name, _shown(alone[system])] for system, name in (("bridge", "bridge"), ("kafka", "Kafka"))]
    with ExitStack() as running:
        nodes = Nodes(bench.stack, directory, running.enter_context(Guard()))
        two = nodes.all[:2]
        for node in two:
            running.callback(node.stop)
            node.start()
        nodes.seconds_until_agreed(two, time.monotonic())
        topic = bench.stack.new_topic(two[0].bootstrap, 1, "seen-")
        ask = partial(bench.ask, "visible", two[0].bootstrap, topic, partitions=1)
        for name, elsewhere in (("two nodes, decided by the leader", False), ("decided by another node", True)):
            lines.append([name, _shown([ask(elsewhere=elsewhere) for _ in range(bench.rounds)])])
    return Table("Seen by a reader of committed records", ["", "p50, p99 ms"], lines)


def _commits(benches: Mapping[str, _Bench]) -> Table:
    """How much of an idempotent producer's flow is left."""
    lines: list[list[Cell]] = []
    for protocol, bench in benches.items():
        line: list[Cell] = [protocol]
        plain, committed = (bench.both("flow", 1, commit_ms=commit_ms) for commit_ms in (0, _COMMIT_MS))
        for system in _BOTH:
            line.append(round(statistics.median(committed[system])))
            line.append(round(paired_ratio(committed[system], plain[system]), 2))
        lines.append(line)
    columns = ["protocol", "bridge records/s", "of idempotent", "Kafka records/s", "of its idempotent"]
    return Table(f"A commit each {_COMMIT_MS} ms, one producer at full speed", columns, lines)
