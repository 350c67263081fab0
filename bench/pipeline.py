"""The Spark jobs on the bridge beside the same jobs on Kafka: `python -m bench.pipeline`, on an otherwise idle machine.

Every job runs on both in turn, the order changing from round to round, after one round that does not count. A ratio is
the median over the rounds of one pair each. The last table is ListOffsets, which Spark asks twice a poll.
"""

import argparse
import shutil
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Cpu, paired_ratio, percentile
from bench.progress import PartsProgress
from bench.results import Cell, Part, Table, plain
from bench.stack import Stack, running
from bridge.pipeline.cli import make_parser, run
from bridge.pipeline.context import Context
from bridge.pipeline.frames import kafka_frame
from bridge.pipeline.jobs import all_jobs
from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.progress import Progress
from bridge.pipeline.ranges import TopicRange
from bridge.pipeline.report import Report
from bridge.pipeline.session import SessionOptions, create_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SYSTEMS = ("bridge", "kafka")
PARTITIONS = 4
RESULTS = Path(__file__).parent / "results"
_ASKED = 5000
_LIST_OFFSETS_P99 = 1.0
# what each job is to reach, bridge ÷ Kafka
TARGETS = {
    "scan, 5,000 records a poll": 0.8,
    "scan, 500 records a poll": 0.7,
    "archive": 0.9,
    "traffic": 0.9,
    "reconcile": 0.85,
    "replay": 0.7,
    "copy": 0.7,
}


@dataclass
class Bench:
    """A session, the servers, and a topic of the same records on each."""

    spark: "SparkSession"
    stack: Stack
    directory: Path
    records: int
    topics: dict[str, str] = field(default_factory=dict)
    _names: int = 0

    def fill(self, system: str) -> None:
        """Write the topic that is read by all jobs: keys of up to 6 bytes, values of 180."""
        from pyspark.sql import functions as f

        topic = self.topics[system] = self.stack.topic(system, PARTITIONS)
        rows = self.spark.range(self.records).select(
            (f.col("id") % PARTITIONS).cast("int").alias("partition"),
            (f.col("id") % 100_000).cast("string").cast("binary").alias("key"),
            f.rpad(f.concat(f.lit("value "), f.col("id")), 180, "x").cast("binary").alias("value"),
        )
        options = {"kafka.bootstrap.servers": self.stack.bootstrap(system), "topic": topic}
        rows.repartition(PARTITIONS, "partition").write.format("kafka").options(**options).save()

    def scan(self, system: str, poll: int) -> None:
        """Read everything and do nothing with it."""
        endpoint = EndpointOptions(self.stack.bootstrap(system), {"max.poll.records": str(poll)})
        share = self.records // PARTITIONS
        ranges = [TopicRange(self.topics[system], each, 0, share) for each in range(PARTITIONS)]
        kafka_frame(self.spark, endpoint, ranges).write.format("noop").mode("overwrite").save()

    def job(self, name: str, *words: str) -> None:
        """Run a job of the pipeline as its command line would."""
        jobs = all_jobs()
        arguments = make_parser(jobs).parse_args([name, *words, "--progress", "quiet"])
        context = Context(SessionOptions(), Progress("quiet"), Report(None, name), self.spark)
        code = run(jobs[name], arguments, context)
        if code != 0:
            raise RuntimeError(f"{name} ended with {code}")

    def archive(self, system: str) -> Path:
        """Archive the topic to a new place."""
        out = self.new("archive")
        topic, bootstrap = self.topics[system], self.stack.bootstrap(system)
        self.job("archive", "--bootstrap", bootstrap, "--topics", topic, "--out", str(out))
        return out

    def traffic(self, system: str) -> None:
        """Measure the topic."""
        words = ["--bootstrap", self.stack.bootstrap(system), "--topics", self.topics[system]]
        self.job("traffic", *words, "--out", str(self.new("traffic")))

    def reconcile(self, system: str) -> None:
        """Compare the topic with itself: two scans and their hashes."""
        bootstrap = self.stack.bootstrap(system)
        self.job("reconcile", "--a", bootstrap, "--b", bootstrap, "--topics", self.topics[system])

    def replay(self, system: str, archive: Path) -> None:
        """Write one and the same archive to a new topic."""
        target = self.stack.topic(system, PARTITIONS)
        words = ["--archive", str(archive), "--bootstrap", self.stack.bootstrap(system)]
        self.job("replay", *words, "--map", f"{self.topics['kafka']}={target}")

    def copy(self, system: str) -> None:
        """Copy Kafka's topic to a new one."""
        target = self.stack.topic(system, PARTITIONS)
        words = ["--source", self.stack.bootstrap("kafka"), "--target", self.stack.bootstrap(system)]
        self.job("copy", *words, "--topics", self.topics["kafka"], "--map", f"{self.topics['kafka']}={target}")

    def new(self, name: str) -> Path:
        """A fresh directory."""
        self._names += 1
        return self.directory / f"{name}-{self._names}"


Work = Callable[[str], object]


@dataclass(frozen=True)
class Run:
    """What one run took."""

    seconds: float
    spark_cpu: float
    server_cpu: float


def works(bench: Bench) -> dict[str, Work]:
    """What is measured, by its name."""
    archived = bench.archive("kafka")
    return {
        "scan, 5,000 records a poll": lambda system: bench.scan(system, 5000),
        "scan, 500 records a poll": lambda system: bench.scan(system, 500),
        "archive": bench.archive,
        "traffic": bench.traffic,
        "reconcile": bench.reconcile,
        "replay": lambda system: bench.replay(system, archived),
        "copy": bench.copy,
    }


def measured(bench: Bench, work: Work, system: str) -> Run:
    """Run it once."""
    stack = bench.stack
    ours = {"bridge": stack.bridge.pid, "pulsar": stack.pulsar.pid}
    servers = ours if system == "bridge" else {"kafka": stack.kafka.pid}
    jvm: int = bench.spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    cpu = Cpu({"spark": jvm, **servers})
    began = time.monotonic()
    work(system)
    seconds, used = time.monotonic() - began, cpu.used()
    return Run(seconds, used.pop("spark"), sum(used.values()))


def rounds(bench: Bench, work: Work, count: int) -> dict[str, list[Run]]:
    """So many rounds that count, after one that does not."""
    found: dict[str, list[Run]] = {system: [] for system in SYSTEMS}
    for number in range(count + 1):
        for system in SYSTEMS if number % 2 else reversed(SYSTEMS):
            one = measured(bench, work, system)
            if number:
                found[system].append(one)
    return found


def row(name: str, found: Mapping[str, Sequence[Run]], records: int) -> list[Cell]:
    """The line of one job."""
    seconds = {system: [one.seconds for one in found[system]] for system in SYSTEMS}
    # the ratio of speeds: more is better
    ratio = paired_ratio(seconds["kafka"], seconds["bridge"])
    speeds = [f"{records / statistics.median(seconds[system]) / 1000:,.0f}" for system in SYSTEMS]
    cpu = [statistics.median(one.server_cpu for one in found[system]) * 1e6 / records for system in SYSTEMS]
    spark = [statistics.median(one.spark_cpu for one in found[system]) * 1e6 / records for system in SYSTEMS]
    met = "yes" if ratio >= TARGETS[name] else "NO"
    return [name, *speeds, f"{ratio:.2f}", f"{TARGETS[name]:.2f}", met, *(f"{each:.1f}" for each in (*cpu, *spark))]


def list_offsets(address: str, topic: str, count: int) -> list[float]:
    """Milliseconds of single questions for a partition's ends, one after another on one connection."""
    host, _, port = address.rpartition(":")
    took = []
    with socket.create_connection((host, int(port)), 30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(count + count // 10):
            request = _list_offsets_request(topic, number, -1 - number % 2)
            began = time.perf_counter()
            connection.sendall(request)
            (size,) = struct.unpack(">i", _exactly(connection, 4))
            answer = _exactly(connection, size)
            took.append((time.perf_counter() - began) * 1000)
            # the error code stands behind correlation id, topics, name, partitions and partition
            (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
            if error:
                raise RuntimeError(f"ListOffsets: error {error}")
    return took[count // 10 :]


def _list_offsets_request(topic: str, correlation: int, timestamp: int) -> bytes:
    name = topic.encode()
    head = struct.pack(">hhih", 2, 1, correlation, -1)
    body = struct.pack(">iih", -1, 1, len(name)) + name + struct.pack(">iiq", 1, 0, timestamp)
    return struct.pack(">i", len(head) + len(body)) + head + body


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise RuntimeError("the server has closed the connection")
        data += more
    return data


def asking(bench: Bench, count: int) -> Table:
    """The table of ListOffsets."""
    found: dict[str, list[list[float]]] = {system: [] for system in SYSTEMS}
    for number in range(count):
        for system in SYSTEMS if number % 2 else reversed(SYSTEMS):
            found[system].append(list_offsets(bench.stack.bootstrap(system), bench.topics[system], _ASKED))
    rows: list[list[Cell]] = []
    for system in SYSTEMS:
        half, most = (statistics.median(percentile(each, at) for each in found[system]) for at in (50, 99))
        rows.append([system, f"{half:.3f}", f"{most:.3f}", "yes" if most <= _LIST_OFFSETS_P99 else "NO"])
    title = f"ListOffsets of one partition's end, ms; the bridge's p99 is to be {_LIST_OFFSETS_P99} at most"
    return Table(title, ["", "p50", "p99", "met"], rows)


@contextmanager
def _bench(records: int) -> "Iterator[Bench]":
    directory = Path(tempfile.mkdtemp(prefix="bridge-bench-"))
    try:
        with running(directory) as stack:
            spark = create_session(SessionOptions("local[2]"))
            try:
                yield Bench(spark, stack, directory, records)
            finally:
                spark.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main() -> int:
    """Print the tables and keep them; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--only", nargs="*", choices=TARGETS, default=[*TARGETS], metavar="JOB")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to keep the results (default: %(default)s)")
    arguments = parser.parse_args()
    records = arguments.records - arguments.records % PARTITIONS
    columns = ["job", "bridge k/s", "Kafka k/s", "bridge / Kafka", "target", "met"]
    columns += ["bridge and Pulsar CPU s/M", "Kafka CPU s/M", "Spark CPU s/M on the bridge", "on Kafka"]
    table = Table(f"{records:,} records, {arguments.rounds} rounds", columns, [])
    with _bench(records) as bench:
        for system in SYSTEMS:
            bench.fill(system)
        wanted = {name: work for name, work in works(bench).items() if name in arguments.only}
        progress = PartsProgress([*wanted], {})
        for name, work in wanted.items():
            with progress.running(name):
                table.rows.append(row(name, rounds(bench, work, arguments.rounds), records))
            print("  ".join(str(cell) for cell in table.rows[-1]), flush=True)
        asked = asking(bench, arguments.rounds)
    part = Part("pipeline", "Spark jobs", (__doc__ or "").partition("\n\n")[2].strip(), [table, asked])
    part.write(arguments.out)
    print("\n\n".join(plain(each) for each in part.tables))
    met = [line[5] for line in table.rows] + [line[3] for line in asked.rows if line[0] == "bridge"]
    return 0 if set(met) == {"yes"} else 1


if __name__ == "__main__":
    raise SystemExit(main())
