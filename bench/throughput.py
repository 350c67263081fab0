"""Produce and fetch as fast as it goes, the three systems one after another in every round."""

import secrets
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bench.loads import LINGER_MS, Load
from bench.measure import paired_ratio
from bench.results import Cell
from bench.stack import SYSTEMS, Stack
from bench.tools import consumed, produced_seconds

MEGABYTE = 1e6
_R = TypeVar("_R")
_FETCH_BYTES = 1024 * 1024
"""Kafka's default fetch size; Pulsar's receiver queue is as many records as fit in it."""


@dataclass(frozen=True, slots=True)
class Run:
    """One load on one system in one round."""

    seconds: float
    megabytes: float
    cpu: dict[str, float]

    @property
    def rate(self) -> float:
        """Megabytes of values a second."""
        return self.megabytes / self.seconds


Runs = dict[str, list[Run]]
"""Of each system, in the order of the rounds."""


def produce(stack: Stack, system: str, load: Load, topic: str, rate: int = -1) -> Run:
    """Send the load once; at a rate in records a second by Kafka's client alone."""
    payloads = stack.payloads.of(load.size)
    cpu = stack.cpu(system)
    if system == "pulsar":
        seconds = stack.pulsar_client.call(
            "produce",
            topic=stack.native(topic),
            records=load.records,
            payloads=str(payloads),
            **load.pulsar_producer(),
        )
    else:
        settings = load.producer_settings(stack.bootstrap(system))
        arguments = ["--topic", topic, "--num-records", str(load.records), "--throughput", str(rate)]
        arguments += ["--payload-file", str(payloads), "--producer-props"]
        arguments += [f"{name}={value}" for name, value in settings.items()]
        seconds = produced_seconds(stack.kafka_client.call("produce", arguments=arguments), load.records)
    return Run(seconds, load.bytes / MEGABYTE, cpu.used())


def fetch(stack: Stack, system: str, load: Load, topic: str) -> Run:
    """Read the whole topic once, from its start, as a new group or subscription."""
    group = f"bench-{secrets.token_hex(4)}"
    cpu = stack.cpu(system)
    if system == "pulsar":
        seconds = stack.pulsar_client.call(
            "consume",
            topic=stack.native(topic),
            records=load.records,
            subscription=group,
            consumers=1,
            queue=_FETCH_BYTES // load.size,
        )
    else:
        arguments = ["--bootstrap-server", stack.bootstrap(system), "--topic", topic, "--group", group]
        arguments += ["--messages", str(load.records), "--fetch-size", str(_FETCH_BYTES)]
        arguments += ["--hide-header", "--timeout", "20000"]
        seconds = consumed(stack.kafka_client.call("consume", arguments=arguments), load.records).seconds
    return Run(seconds, load.bytes / MEGABYTE, cpu.used())


def alternate(rounds: int, once: Callable[[str, int], _R], systems: Sequence[str] = SYSTEMS) -> dict[str, list[_R]]:
    """One round to warm up, which is not counted, and then so many, each beginning with another system."""
    runs: dict[str, list[_R]] = {system: [] for system in systems}
    for number in range(rounds + 1):
        first = number % len(systems)
        for system in [*systems[first:], *systems[:first]]:
            run = once(system, number)
            if number:
                runs[system].append(run)
    return runs


def produce_rounds(stack: Stack, load: Load, rounds: int) -> Runs:
    """A topic of each system for all rounds: what it costs to open one is not the question here."""
    topics = {system: stack.topic(system, load.partitions) for system in SYSTEMS}
    return alternate(rounds, lambda system, _: produce(stack, system, load, topics[system]))


def fetch_rounds(stack: Stack, load: Load, rounds: int) -> Runs:
    """Each reads what its own side has written, the bridge's what came through it, again and again."""
    topics = {system: stack.topic(system, load.partitions) for system in SYSTEMS}
    for system, topic in topics.items():
        produce(stack, system, load, topic)
    return alternate(rounds, lambda system, _: fetch(stack, system, load, topics[system]))


def first_rounds(stack: Stack, load: Load, rounds: int, *, listening: bool) -> Runs:
    """The same, each topic read once. `listening`: while a consumer has the bridge keep what is written in memory."""
    # none is written to when it has just been made: Kafka 4.1 may then refuse an idempotent producer's batches forever
    topics = [{system: stack.topic(system, load.partitions) for system in SYSTEMS} for _ in range(rounds + 1)]

    def once(system: str, number: int) -> Run:
        topic = topics[number][system]
        if system == "bridge" and listening:
            listen(stack, topic, load)
        produce(stack, system, load, topic)
        return fetch(stack, system, load, topic)

    return alternate(rounds, once)


def listen(stack: Stack, topic: str, load: Load) -> None:
    """Have the bridge keep the tail of a topic: one record sent and read."""
    one = Load(load.size, load.partitions, load.batch_bytes, 1)
    produce(stack, "bridge", one, topic)
    fetch(stack, "bridge", one, topic)


COLUMNS = [
    "load",
    "bridge MB/s",
    "Pulsar MB/s",
    "Kafka MB/s",
    "bridge / Pulsar",
    "bridge / Kafka",
    "bridge CPU s per 100 MB",
    "client, bridge, Pulsar CPU",
    "client, Pulsar CPU",
    "client, Kafka CPU",
]


def row(name: str, runs: Runs) -> list[Cell]:
    """A line of the table of `COLUMNS`."""
    rates = {system: [run.rate for run in runs[system]] for system in SYSTEMS}
    cells: list[Cell] = [name]
    cells += [round(statistics.median(rates[system]), 1) for system in SYSTEMS]
    cells += [round(paired_ratio(rates["bridge"], rates[other]), 2) for other in ("pulsar", "kafka")]
    cells.append(round(_cpu(runs["bridge"], "bridge"), 2))
    for system in SYSTEMS:
        cells.append(" + ".join(f"{_cpu(runs[system], process):.2f}" for process in runs[system][0].cpu))
    return cells


def _cpu(runs: Sequence[Run], process: str) -> float:
    """Processor seconds for 100 MB."""
    return statistics.median(run.cpu[process] / run.megabytes * 100 for run in runs)


SETTINGS = (
    f"Producers: acks=all, idempotent, 5 requests in flight, linger {LINGER_MS} ms. Pulsar's client has the same batch "
    "size and delay, as many records pending as 6 such batches hold, and Pulsar's deduplication on. Values are text, "
    "chosen at random from 200. Kafka acknowledges from its page cache; Pulsar syncs its journal before each receipt. "
    "Consumers: 1 MB fetches; Pulsar's receiver queue holds 1 MB."
)
