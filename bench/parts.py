"""The parts of the benchmark: what each runs and the tables it makes of it."""

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bench import apart, end_to_end, nodes, singles, stub_rounds, throughput
from bench import security as costs
from bench import startup as starts
from bench import topics as many
from bench import transactions as exactly_once
from bench import workers as several
from bench.followers import READY
from bench.loads import Load
from bench.measure import memory, paired_ratio
from bench.results import Cell, Part, Table
from bench.stack import SYSTEMS, Stack


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything."""

    rounds: int
    megabytes: int
    seconds: float
    memory_seconds: float
    groups: int
    topics: int

    def scaled(self, share: float) -> int:
        """A part of the megabytes, not too small to be measured."""
        return max(10, int(self.megabytes * share))


FULL = Plan(rounds=5, megabytes=80, seconds=4.0, memory_seconds=90.0, groups=1000, topics=2000)
QUICK = Plan(rounds=2, megabytes=24, seconds=2.0, memory_seconds=10.0, groups=100, topics=100)


def produce(stack: Stack, plan: Plan) -> Part:
    """Both sizes, one and four partitions, both batch sizes."""
    table = Table("Produce", throughput.COLUMNS, [])
    for size, share in ((1024, 1.0), (100, 0.5)):
        for batch in (16 * 1024, 128 * 1024):
            for partitions in (1, 4):
                load = Load(size, partitions, batch, plan.scaled(share * (0.5 if batch < 20_000 else 1)))
                table.rows.append(throughput.row(load.name, throughput.produce_rounds(stack, load, plan.rounds)))
    return Part("produce", "Produce", throughput.SETTINGS, [table])


def fetch(stack: Stack, plan: Plan) -> Part:
    """From Pulsar's storage, and from memory."""
    old = Table("Fetch of older records, read for the first time", throughput.COLUMNS, [])
    again = Table("Fetch of older records, read again", throughput.COLUMNS, [])
    recent = Table("Fetch of what was written a moment ago", throughput.COLUMNS, [])
    for size, share in ((1024, 1.0), (100, 0.5)):
        for partitions in (1, 4):
            load = Load(size, partitions, 128 * 1024, plan.scaled(share))
            first = throughput.first_rounds(stack, load, plan.rounds, listening=False)
            old.rows.append(throughput.row(load.name, first))
            again.rows.append(throughput.row(load.name, throughput.fetch_rounds(stack, load, plan.rounds)))
        load = Load(size, 1, 128 * 1024, plan.scaled(share / 2))
        just_written = throughput.first_rounds(stack, load, plan.rounds, listening=True)
        recent.rows.append(throughput.row(load.name, just_written))
    method = f"{throughput.SETTINGS} Kafka has everything in the page cache, the bridge what fits in its own memory."
    return Part("fetch", "Fetch", method, [old, again, recent])


def compressed(stack: Stack, plan: Plan) -> Part:
    """Every codec, the same on all sides; MB are of values before compression."""
    table = Table("Produce, compressed", throughput.COLUMNS, [])
    for codec in ("lz4", "zstd", "snappy", "gzip"):
        load = Load(1024, 1, 128 * 1024, plan.scaled(0.5), codec)
        table.rows.append(throughput.row(load.name, throughput.produce_rounds(stack, load, min(plan.rounds, 3))))
    return Part("compressed", "Compression", throughput.SETTINGS, [table])


def partitions(stack: Stack, plan: Plan) -> Part:
    """The same records over more and more partitions."""
    table = Table("Produce to many partitions", throughput.COLUMNS, [])
    for count in (1, 100, 1000):
        load = Load(1024, count, 16 * 1024, plan.scaled(0.3))
        table.rows.append(throughput.row(load.name, throughput.produce_rounds(stack, load, min(plan.rounds, 2))))
    return Part("partitions", "Partitions", throughput.SETTINGS, [table])


def latency(stack: Stack, plan: Plan) -> Part:
    """From `send` to the acknowledgement, with no consumer, at a rate that leaves every side time."""
    rate, linger = 5000, 1
    load = Load(1024, 1, 16 * 1024, 1)
    topics = {system: stack.topic(system, 1) for system in SYSTEMS}
    common = {"payloads": str(stack.payloads.of(1024)), "rate": rate, "warm_seconds": 1, "seconds": plan.seconds}
    found: dict[str, list[dict[str, float]]] = {system: [] for system in SYSTEMS}
    for number in range(plan.rounds + 1):
        for system in (*SYSTEMS[number % 3 :], *SYSTEMS[: number % 3]):
            if system == "pulsar":
                settings = load.pulsar_producer() | {"linger_ms": linger}
                one = stack.pulsar_client.call("latency", topic=stack.native(topics[system]), **common, **settings)
            else:
                settings = load.producer_settings(stack.bootstrap(system)) | {"linger.ms": str(linger)}
                one = stack.kafka_client.call("latency", topic=topics[system], settings=settings, **common)
            if number:
                found[system].append(one)
    rows: list[list[Cell]] = []
    for percent in ("p50", "p99"):
        cells = {system: [one[percent] for one in found[system]] for system in SYSTEMS}
        added = statistics.median(ours - theirs for ours, theirs in zip(cells["bridge"], cells["pulsar"], strict=True))
        rows.append([percent, *(round(statistics.median(cells[system]), 2) for system in SYSTEMS), round(added, 2)])
    columns = ["", "bridge ms", "Pulsar ms", "Kafka ms", "bridge − Pulsar ms"]
    method = (
        f"{rate} records of 1 KB a second, sent evenly. Linger and Pulsar's batchingMaxPublishDelay are {linger} ms. "
        "The time is from send to acknowledgement. Figures are medians over the rounds; the last column is the "
        "median of the rounds' differences."
    )
    return Part("latency", "Latency of produce", method, [Table("From send to acknowledgement", columns, rows)])


def end_to_end_latency(stack: Stack, plan: Plan) -> Part:
    """From `send` until consumers have the record."""
    return end_to_end.part(stack, plan.rounds, plan.seconds)


def consumers(stack: Stack, plan: Plan) -> Part:
    """Consumers that follow one partition while it is written, at a rate that is easy to take and at full speed."""
    tables = []
    for name, rate in (("20 MB/s", 20_000_000 // 1024), ("at full speed", -1)):
        columns = ["consumers", "bridge MB/s", "× of one", "Kafka MB/s", "× of one", "bridge CPU s per 100 MB"]
        tables.append(Table(f"Fan-out of what is written {name}", columns, _fan_out(stack, plan, rate)))
    method = (
        "Consumers of one partition follow it from its beginning while 1 KB records are produced. MB/s is of all "
        "consumers together, until the slowest has everything, and so is the processor time. They are asyncio "
        "clients in one process of their own that read and discard."
    )
    return Part("consumers", "Many consumers of one partition", method, tables)


def _fan_out(stack: Stack, plan: Plan, rate: int) -> list[list[Cell]]:
    load = Load(1024, 1, 128 * 1024, plan.scaled(0.6))
    rows: list[list[Cell]] = []
    ones: dict[str, list[float]] = {}
    for count in (1, 10, 50):
        rates: dict[str, list[float]] = {"bridge": [], "kafka": []}
        cpu: list[float] = []
        for number in range(min(plan.rounds, 3) + 1):
            for system, found in rates.items():
                run, used = _followed(stack, system, load, count, rate)
                if number:
                    found.append(run)
                    if system == "bridge":
                        cpu.append(used)
        if count == 1:
            ones = rates
        row: list[Cell] = [count]
        for system, found in rates.items():
            row += [round(statistics.median(found), 1), round(paired_ratio(found, ones[system]), 1)]
        rows.append([*row, round(statistics.median(cpu), 2)])
    return rows


def _followed(stack: Stack, system: str, load: Load, count: int, rate: int) -> tuple[float, float]:
    topic = stack.topic(system, 1)
    cpu = stack.cpu(system)
    with apart.started(
        "followers", bootstrap=stack.bootstrap(system), topic=topic, records=load.records, consumers=count
    ) as followers:
        followers.wait_for(READY)
        throughput.produce(stack, system, load, topic, rate)
        result = followers.result()
    return result["megabytes"] / result["seconds"], cpu.used().get("bridge", 0.0) / result["megabytes"] * 100


def connections(stack: Stack, plan: Plan) -> Part:
    """Many connections that each send one record after another."""
    rows: list[list[Cell]] = []
    topics = {system: stack.topic(system, 16) for system in ("bridge", "kafka")}
    for count in (1, 100, 1000):
        found: dict[str, list[dict[str, float]]] = {"bridge": [], "kafka": []}
        for number in range(min(plan.rounds, 3) + 1):
            for system, runs in found.items():
                with apart.started(
                    "crowd", bootstrap=stack.bootstrap(system), topic=topics[system], connections=count,
                    partitions=16, size=1024, seconds=plan.seconds / 2,
                ) as crowd:  # fmt: skip
                    one = crowd.result()
                if number:
                    runs.append(one)
        row: list[Cell] = [count]
        for system in found:
            row += [round(statistics.median(one[key] for one in found[system]), 1) for key in ("rate", "p50", "p99")]
        rows.append([*row, round(memory(stack.bridge.pid), 0)])
    columns = ["connections"]
    columns += [f"{system} {what}" for system in ("bridge", "Kafka") for what in ("requests/s", "p50 ms", "p99 ms")]
    columns.append("bridge's memory MB")
    method = (
        "Each connection sends one record of 1 KB (acks=all, no batching) after the answer to the last, over 16 "
        "partitions. The clients are asyncio clients in one process of their own."
    )
    return Part("connections", "Many connections", method, [Table("Connections", columns, rows)])


def groups(stack: Stack, plan: Plan) -> Part:
    """Consumer groups, each of three members on connections of their own."""
    topic = stack.topic("bridge", 3)
    seconds = max(3.0, plan.seconds * 5)
    cpu = stack.cpu("bridge")
    with (
        sampled(stack.bridge.pid) as samples,
        apart.started(
            "groups", bootstrap=stack.bootstrap("bridge"), topic=topic, groups=plan.groups, rate=5000, seconds=seconds
        ) as process,
    ):
        found = process.result()
    used = cpu.used()
    cells: list[list[Cell]] = [
        ["groups × members", f"{plan.groups} × 3"],
        ["all formed after, s", round(found["formed_seconds"], 1)],
        ["heartbeats alone (1,000/s), p50, p99 ms", f"{found['alone_p50']:.1f}, {found['alone_p99']:.1f}"],
        ["commits begun at 5,000/s: answered a second", round(found["commit_rate"])],
        ["  p50, p99 ms", f"{found['commit_p50']:.1f}, {found['commit_p99']:.1f}"],
        ["heartbeats beside them, p50, p99 ms", f"{found['heartbeat_p50']:.1f}, {found['heartbeat_p99']:.1f}"],
        ["  processors that the members themselves take", round(found["cores"], 2)],
        ["most commits a second (200 at once)", round(found["most_commits"])],
        ["CPU seconds in all this: bridge, Pulsar", f"{used['bridge']:.1f}, {used['pulsar']:.1f}"],
        ["bridge's memory, MB: at the start, at the end", f"{samples[0][1]:.0f}, {samples[-1][1]:.0f}"],
    ]
    method = (
        "Real sockets from a process of their own. A commit is one offset, stored in Pulsar before the answer. Times "
        "count from when the request was due. The same load runs before for as long and is not counted."
    )
    part = Part("groups", "Consumer groups", method, [Table("Groups", ["", "bridge"], cells)])
    part.series["resident MB"] = samples
    return part


def memory_over_time(stack: Stack, plan: Plan) -> Part:
    """Full load in both directions beside a thousand connections on a thousand partitions, and slow consumers."""
    load = Load(1024, 4, 128 * 1024, plan.scaled(1.0))
    topic = stack.topic("bridge", 4)
    many = stack.topic("bridge", 1000)
    throughput.produce(stack, "bridge", load, topic)  # the slow ones have something to read
    bootstrap, seconds = stack.bootstrap("bridge"), plan.memory_seconds
    with (
        sampled(stack.bridge.pid) as samples,
        apart.started(
            "crowd", bootstrap=bootstrap, topic=many, connections=1000, partitions=1000, size=1024, seconds=seconds
        ) as crowd,
        apart.started("slow", bootstrap=bootstrap, topic=topic, partitions=4, consumers=50, seconds=seconds) as slow,
    ):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            throughput.produce(stack, "bridge", load, topic)
            throughput.fetch(stack, "bridge", load, topic)
        sent, read = crowd.result(), slow.result()
    # what comes after is no load: consumers take what is left, and partitions without readers free their memory
    settled = [megabytes for second, megabytes in samples if seconds / 4 < second <= seconds]
    rows: list[list[Cell]] = [
        ["seconds", round(seconds)],
        ["resident MB at the start", round(samples[0][1])],
        ["least and most after the first quarter", f"{min(settled):.0f}, {max(settled):.0f}"],
        ["spread around the middle", f"± {(max(settled) - min(settled)) / (max(settled) + min(settled)):.0%}"],
        ["single records of the 1,000 connections, a second", round(sent["rate"])],
        ["MB that the 50 slow consumers had", round(read["megabytes"])],
    ]
    method = (
        "Produce and fetch of 1 KB records in turns on 4 partitions. Beside them, 1,000 connections send single "
        "records to 1,000 partitions, and 50 slow consumers read the 4 partitions from their start. Records in "
        "memory take 256 MiB at most, requests as much, each reader 2 MiB (the defaults)."
    )
    part = Part("memory", "Memory", method, [Table("Memory under full load", ["", "bridge"], rows)])
    part.series["resident MB"] = samples
    return part


def startup(stack: Stack, plan: Plan) -> Part:
    """From a start to the first answer."""
    return Part("startup", "Start", starts.METHOD, [starts.table(stack.bridge, stack.directory, plan.rounds)])


def topics(stack: Stack, plan: Plan) -> Part:
    """What touches many topics."""
    return Part("topics", "Many topics", many.METHOD, [many.table(stack.bridge, stack.directory, plan.topics)])


def workers(stack: Stack, plan: Plan) -> Part:
    """Several processes beside one."""
    rounds = min(plan.rounds, 3)
    found = several.part(stack, rounds, plan.seconds, plan.scaled(0.4))
    found.tables.append(stub_rounds.table(stack, rounds, plan.seconds / 2))
    return replace(found, method=f"{found.method} {stub_rounds.METHOD}")


@contextmanager
def sampled(pid: int) -> Iterator[list[list[float]]]:
    """A process's resident megabytes, each second: [seconds, MB]; whole when the block ends."""
    start = time.monotonic()
    samples = [[0.0, memory(pid)]]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(1.0):
            samples.append([round(time.monotonic() - start, 1), round(memory(pid), 1)])

    watcher = threading.Thread(target=watch, name="memory")
    watcher.start()
    try:
        yield samples
    finally:
        over.set()
        watcher.join()


def many_nodes(stack: Stack, plan: Plan) -> Part:
    """Three nodes with many partitions."""
    return nodes.part(stack, plan.topics // 2, plan.memory_seconds / 3)


def security(stack: Stack, plan: Plan) -> Part:
    """TLS, log-in and permissions."""
    return costs.part(stack, plan.scaled(0.5), min(plan.rounds, 4), plan.seconds)


def single_records(stack: Stack, plan: Plan) -> Part:
    """One record a request, of many connections."""
    return singles.part(stack, plan.rounds, plan.seconds)


def transactions(stack: Stack, plan: Plan) -> Part:
    """Transactions beside Kafka's."""
    return exactly_once.part(stack, min(plan.rounds, 3), plan.seconds)


PARTS: dict[str, Callable[[Stack, Plan], Part]] = {
    "produce": produce,
    "fetch": fetch,
    "latency": latency,
    "end-to-end": end_to_end_latency,
    "consumers": consumers,
    "connections": connections,
    "singles": single_records,
    "transactions": transactions,
    "partitions": partitions,
    "compressed": compressed,
    "groups": groups,
    "memory": memory_over_time,
    "startup": startup,
    "topics": topics,
    "workers": workers,
    "nodes": many_nodes,
    "security": security,
}
