"""Kafka Streams in a streams group (KIP-1071): who has which tasks, internal topics, kills, standbys, exactly once."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from bridge.apis import create_topics, incremental_alter_configs, streams_group_describe
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask_at, unique
from tests.clients.model import TIMEOUT_SECONDS, attempts
from tests.clients.transactions.confluent import ConfluentTransactions
from tests.faults.processes import let_pass
from tests.support.bridges import BridgeThread, settings_for
from tests.support.group_tool import table
from tests.support.java import NEWEST, compiled, java_command, run_command
from tests.support.pulsar import PulsarAddress

SOURCES = Path(__file__).parent / "java_streams_groups"
TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
EXACTLY_ONCE = ("processing.guarantee=exactly_once_v2",)
LINES = ("the quick brown fox", "jumps over the lazy dog", "the dog sleeps")
LOOK_EVERY = 0.1
_CONFIGS_OF_A_GROUP, _SET = 32, 0


@pytest.fixture(scope="module")
def classes() -> Path:
    return compiled(SOURCES, NEWEST)


@pytest.fixture(scope="module")
def address(pulsar: PulsarAddress) -> Iterator[str]:
    """A bridge whose members are soon missed, and told of a rebalance at once."""
    groups = {"consumer_heartbeat_interval_ms": 200, "consumer_session_timeout_ms": 3000}
    running = BridgeThread(settings_for(pulsar, pulsar.create_namespace(), {"groups": groups}))
    running.start()
    yield running.kafka
    running.stop()


class Application:
    """A process of the application, which tells what it is asked."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="application", daemon=True)
        self._reader.start()

    def ask(self, question: str) -> list[str]:
        """Its answer, in words."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{question}\n")
        self._process.stdin.flush()
        return self.told(question)

    def told(self, what: str) -> list[str]:
        """The next line that begins so, without its beginning."""
        while True:
            try:
                first, *rest = self._lines.get(timeout=TIMEOUT_SECONDS).split()
            except queue.Empty:
                raise AssertionError(self._log.read_text(errors="replace")[-4000:]) from None
            if first == what:
                return rest
            assert first != "failed", rest

    def until_tasks(self, active: int, standby: int = 0) -> None:
        """Wait until it runs, and has so many tasks."""
        wanted = ["RUNNING", str(active), str(standby)]
        for _ in attempts(f"tasks {wanted}"):
            seen = self.ask("state")
            if seen == wanted:
                return
            let_pass(LOOK_EVERY)

    def end(self) -> None:
        """Let it end in order."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0, self._log.read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """SIGKILL; nothing where it has ended."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._reader.join(30)
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip():
                self._lines.put(line)


class Bench:
    """One application with a source and a sink of two partitions each."""

    def __init__(self, address: str, classes: Path, work: Path, topology: str) -> None:
        self.address, self.topology = address, topology
        self.source, self.sink, self.application = unique("source"), unique("sink"), unique("application")
        self._classes, self._work = classes, work
        self._count = 0
        self._producer = Producer(
            {"bootstrap.servers": address, "log_level": 0, "partitioner": "murmur2_random"}  # Java's
        )
        self._reader = ConfluentTransactions(address).reader(self.sink, [0, 1], committed=True)
        self.read: list[str] = []

    def make(self, *topics: str, partitions: int = 2) -> None:
        wanted = [
            create_topics.RequestTopic(
                name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
            )
            for name in topics or (self.source, self.sink)
        ]
        for made in ask_at(self.address, create_topics.API, create_topics.Request(topics=wanted)).topics:
            assert made.error_code == ErrorCode.NONE, made

    def configure(self, **values: str) -> None:
        """Set configs of the group, whose names have dots for underscores."""
        configs = [
            incremental_alter_configs.Config(name=name.replace("_", "."), config_operation=_SET, value=value)
            for name, value in values.items()
        ]
        resource = incremental_alter_configs.Resource(
            resource_type=_CONFIGS_OF_A_GROUP, resource_name=self.application, configs=configs
        )
        request = incremental_alter_configs.Request(resources=[resource], validate_only=False)
        (done,) = ask_at(self.address, incremental_alter_configs.API, request).responses
        assert done.error_code == ErrorCode.NONE, done

    @contextmanager
    def running(self, *settings: str) -> Iterator[Application]:
        """A process of the application; it is killed at the end where it has not ended."""
        self._count += 1
        work = self._work / f"{self._count}"
        work.mkdir()
        names = (self.address, self.application, self.topology, self.source, self.sink, str(work / "state"))
        command = java_command("Application", *names, *settings, heap="256m", jars=NEWEST, classes=self._classes)
        process = Application(command, work / "log")
        try:
            yield process
        finally:
            process.kill()

    def write(self, *records: tuple[str, str], topic: str = "") -> None:
        for key, value in records:
            self._producer.produce(topic or self.source, key=key.encode(), value=value.encode())
        assert self._producer.flush(TIMEOUT_SECONDS) == 0

    def until_read(self, count: int) -> None:
        """Read what is committed until there are so many records."""
        for _ in attempts(f"{count} records"):
            for values in self._reader.read().values():
                self.read += values
            if len(self.read) >= count:
                return
            let_pass(LOOK_EVERY)

    def describe(self) -> Any:
        request = streams_group_describe.Request(group_ids=[self.application], include_authorized_operations=False)
        return ask_at(self.address, streams_group_describe.API, request).groups[0]

    def until_state(self, state: str) -> None:
        for _ in attempts(state):
            if self.describe().group_state == state:
                return
            let_pass(LOOK_EVERY)

    def tool(self, *arguments: str) -> str:
        command = java_command(TOOL, "--bootstrap-server", self.address, *arguments, jars=NEWEST)
        return run_command(command)

    def close(self) -> None:
        self._reader.close()


MakeBench = Callable[[str], Bench]


@pytest.fixture
def bench(address: str, classes: Path, tmp_path: Path) -> Iterator[MakeBench]:
    made: list[Bench] = []

    def make(topology: str) -> Bench:
        made.append(Bench(address, classes, tmp_path, topology))
        made[-1].configure(streams_initial_rebalance_delay_ms="0")
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_records_are_mapped_and_the_group_is_seen_by_kafkas_tool(bench: MakeBench) -> None:
    mapping = bench("map")
    mapping.make()
    mapping.write(("k", "one"), ("k", "two"))
    of_group = ("--group", mapping.application)
    with mapping.running("num.stream.threads=2") as application:
        application.until_tasks(active=2)
        mapping.until_read(2)
        assert sorted(mapping.read) == ["ONE", "TWO"]
        mapping.until_state("Stable")
        assert mapping.application in mapping.tool("--list").split()
        rows = table(mapping.tool("--describe", "--members", *of_group))
        assert {row["GROUP"] for row in rows} == {mapping.application}
        assert len(rows) == 2
        rows = table(mapping.tool("--describe", "--offsets", *of_group))
        assert {(row["TOPIC"], row["OFFSET-LAG"]) for row in rows} == {(mapping.source, "0")}
        application.end()
    assert mapping.describe().group_state == "Empty"
    mapping.tool("--reset-offsets", "--to-earliest", "--execute", "--all-input-topics", *of_group)
    with mapping.running() as application:
        mapping.until_read(4)
        application.end()
    rows = table(mapping.tool("--delete-offsets", "--all-input-topics", *of_group), "TOPIC")
    assert {row["TOPIC"] for row in rows if row["STATUS"] == "Successful"} == {mapping.source}
    assert "success" in mapping.tool("--delete", *of_group).lower()
    assert mapping.application not in mapping.tool("--list").split()


def test_words_are_counted_exactly_once_by_two_processes_of_which_one_is_killed(bench: MakeBench) -> None:
    counting = bench("count")
    counting.make()
    counting.configure(streams_num_standby_replicas="1")
    written: Counter[str] = Counter()

    def write() -> None:
        lines = LINES * 20
        counting.write(*((str(number % 7), line) for number, line in enumerate(lines)))
        written.update(" ".join(lines).split())

    with counting.running(*EXACTLY_ONCE) as one:
        one.until_tasks(active=4)
        write()
        counting.until_read(1)
        with counting.running(*EXACTLY_ONCE) as other:
            one.until_tasks(active=2, standby=1)
            other.until_tasks(active=2, standby=1)
            write()
            counting.until_read(len(counting.read) + 1)  # it is in the midst of them
            other.kill()
        one.until_tasks(active=4)
        write()
        counting.until_read(written.total())
        one.end()
    told: dict[str, list[int]] = {}
    for word, _, count in (value.partition("=") for value in counting.read):
        told.setdefault(word, []).append(int(count))
    assert told == {word: list(range(1, count + 1)) for word, count in written.items()}
    described = counting.describe()
    internal = [
        topic
        for part in described.topology.subtopologies
        for topic in (*part.state_changelog_topics, *part.repartition_source_topics)
    ]
    assert [topic.partitions for topic in internal] == [2, 2]


def test_a_stream_is_joined_with_a_table_of_the_same_partitions(bench: MakeBench) -> None:
    joining = bench("join")
    right = f"{joining.source}-table"
    joining.make(joining.sink, right)
    joining.make(joining.source, partitions=1)
    joining.write(("a", "1"), ("b", "2"), topic=right)
    with joining.running("application.server=localhost:7001") as application:
        application.until_tasks(active=3)
        hosts = application.ask("hosts")
        joining.write(("x", "a"), ("y", "b"), ("z", "c"))
        joining.until_read(2)
        assert sorted(joining.read) == ["a+1", "b+2"]
        assert [host.split(":")[0] for host in hosts] == ["7001"]
        application.end()


def test_a_source_that_is_missing_fails_the_application(bench: MakeBench) -> None:
    mapping = bench("map")
    mapping.make(mapping.sink)
    with mapping.running() as application:
        assert application.told("failed")[0] == "MissingSourceTopicException"
        application.end()
    mapping.until_state("Empty")


def test_an_internal_topic_of_another_size_fails_the_application(bench: MakeBench) -> None:
    counting = bench("count")
    counting.make()
    counting.make(f"{counting.application}-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog", partitions=3)
    with counting.running() as application:
        assert application.told("failed")[0] == "TopologyException"
        application.end()
    counting.until_state("Empty")
