"""Kafka Streams in a streams group (KIP-1071): who has which tasks, internal topics, kills, standbys, exactly once.

That of Kafka 4.3 on the bridge; `make soak` asks the same of 4.2, and of a real Kafka 4.3.
"""

from __future__ import annotations

import queue
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from bridge.access.password_file import line_of
from bridge.apis import create_acls, create_topics, incremental_alter_configs, streams_group_describe
from bridge.kafka.error_codes import ErrorCode
from bridge.security.acls import Operation, PatternType, Permission, ResourceType
from bridge.standalone.ports import HOST
from tests.apis.wire import ask_at, unique
from tests.clients.model import TIMEOUT_SECONDS, attempts
from tests.clients.transactions.confluent import ConfluentTransactions
from tests.faults.processes import let_pass
from tests.security.users import credential
from tests.support.bridges import BridgeThread, settings_for
from tests.support.group_tool import table
from tests.support.java import KAFKA_NEWEST, NEWER, NEWEST, Jars, compiled, java_command, run_command
from tests.support.kafka_broker import NewKafka, streams_group_times
from tests.support.pulsar import PulsarAddress

SOURCES = Path(__file__).parent / "java_streams_groups"
TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
EXACTLY_ONCE = ("processing.guarantee=exactly_once_v2",)
LINES = ("the quick brown fox", "jumps over the lazy dog", "the dog sleeps")
LOOK_EVERY = 0.1
QUICK = {"consumer_heartbeat_interval_ms": 200, "consumer_session_timeout_ms": 3000}
STORE = "KSTREAM-AGGREGATE-STATE-STORE-0000000003"
"""Of the counts."""
END_OF_ALL = "end-of-all"
"""A record that asks for the whole application to shut down."""
USER, PASSWORD = "streams", "of the application"
_CONFIGS_OF_A_GROUP, _SET = 32, 0


@pytest.fixture(scope="module", params=[NEWEST, pytest.param(NEWER, marks=pytest.mark.soak)], ids=lambda one: one.name)
def jars(request: pytest.FixtureRequest) -> Jars:
    """The application's."""
    found: Jars = request.param
    return found


@pytest.fixture(scope="module")
def quick_bridge(pulsar: PulsarAddress) -> Iterator[str]:
    """One whose members are soon missed, and told of a rebalance at once."""
    running = BridgeThread(settings_for(pulsar, pulsar.create_namespace(), {"groups": QUICK}))
    running.start()
    yield running.kafka
    running.stop()


@pytest.fixture(scope="module")
def quick_kafka(new_kafka: NewKafka) -> Iterator[str]:
    """A real Kafka, likewise."""
    broker = new_kafka(jars=KAFKA_NEWEST, settings=streams_group_times(3000, 200))
    broker.start()
    try:
        yield broker.kafka
    finally:
        broker.stop()


@pytest.fixture(scope="module", params=["quick_bridge", pytest.param("quick_kafka", marks=pytest.mark.soak)])
def address(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


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
        return self.told(question.partition(" ")[0])

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

    def until_state(self, state: str) -> None:
        """Wait for a state, whatever its tasks."""
        for _ in attempts(state):
            if self.ask("state")[0] == state:
                return
            let_pass(LOOK_EVERY)

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

    def __init__(self, address: str, jars: Jars, work: Path, topology: str, *login: str) -> None:
        """`login`: the application's address and settings, where they are others than the test's."""
        self.address, self.topology = address, topology
        self._login = login or (address,)
        self.source, self.sink, self.application = unique("source"), unique("sink"), unique("application")
        self._jars, self._work = jars, work
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
        address, *login = self._login
        names = (address, self.application, self.topology, self.source, self.sink, str(work / "state"))
        classes = compiled(SOURCES, self._jars)
        command = java_command("Application", *names, *login, *settings, jars=self._jars, classes=classes)
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

    def topics(self) -> set[str]:
        """All that there are."""
        return set(self._producer.list_topics(timeout=TIMEOUT_SECONDS).topics)

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
def bench(address: str, jars: Jars, tmp_path: Path) -> Iterator[MakeBench]:
    made: list[Bench] = []

    def make(topology: str) -> Bench:
        made.append(Bench(address, jars, tmp_path, topology))
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


def _rows(counting: Bench, *arguments: str) -> list[dict[str, str]]:
    """What the tool says of the group."""
    return [row for row in table(counting.tool(*arguments)) if row["GROUP"] == counting.application]


@pytest.mark.soak
def test_kafkas_tool_shows_a_group_that_has_members_and_changes_none(bench: MakeBench) -> None:
    counting = bench("count")
    counting.make()
    of_group, inputs = ("--group", counting.application), ("--all-input-topics",)
    with counting.running() as application:
        application.until_tasks(active=4)
        counting.write(("k", "word"))
        counting.until_read(1)
        counting.until_state("Stable")
        assert [row["STATE"] for row in _rows(counting, "--list", "--state")] == ["Stable"]
        assert [row["STATE"] for row in _rows(counting, "--list", "--state", "stable")] == ["Stable"]
        for told in ([], ["--offsets"], ["--offsets", "--verbose"]):
            assert counting.source in {row["TOPIC"] for row in _rows(counting, "--describe", *told, *of_group)}
        assert _rows(counting, "--describe", "--all-groups")
        for told in (["--members"], ["--members", "--verbose"]):
            assert len(_rows(counting, "--describe", *told, *of_group)) == 1
        for told in (["--state"], ["--state", "--verbose"]):
            (row,) = _rows(counting, "--describe", *told, *of_group)
            assert "Stable" in row.values()
        for changes in (
            ["--delete"],
            ["--delete-offsets", *inputs],
            ["--reset-offsets", *inputs, "--to-latest", "--execute"],
        ):
            assert re.search("not.?empty|active|stable|subscribed", counting.tool(*changes, *of_group), re.I)
        application.end()


@pytest.mark.soak
def test_kafkas_tool_moves_a_group_and_deletes_its_internal_topics(bench: MakeBench, tmp_path: Path) -> None:
    counting = bench("count")
    counting.make()
    counting.write(*(("k", line) for line in LINES))  # to one partition
    of_group, inputs = ("--group", counting.application), ("--all-input-topics",)
    with counting.running() as application:
        application.until_tasks(active=4)
        counting.until_read(sum(len(line.split()) for line in LINES))
        application.end()

    def reset(*arguments: str) -> list[str]:
        """Where the source's partitions begin then."""
        found = _rows(counting, "--reset-offsets", *of_group, *arguments)
        return sorted(row["NEW-OFFSET"] for row in found if row["TOPIC"] == counting.source)

    assert reset(*inputs, "--to-earliest", "--dry-run") == ["0"]  # of what is committed
    assert reset(*inputs, "--to-current", "--dry-run") == ["3"]
    assert reset(*inputs, "--to-earliest", "--execute") == ["0"]
    assert reset(*inputs, "--to-current", "--dry-run") == ["0"]
    (committed,) = _rows(counting, "--reset-offsets", *of_group, *inputs, "--to-current", "--dry-run")
    one = f"{counting.source}:{committed['PARTITION']}"
    assert reset("--input-topic", one, "--to-offset", "2", "--execute") == ["2"]
    assert reset(*inputs, "--shift-by", "-1", "--execute") == ["1"]
    assert reset(*inputs, "--to-datetime", "2020-01-01T00:00:00.000", "--execute") == ["0"]
    assert reset(*inputs, "--to-latest", "--execute") == ["3"]
    assert reset(*inputs, "--by-duration", "PT1H", "--execute") == ["0"]
    exported = tmp_path / "offsets.csv"
    exported.write_text(counting.tool("--reset-offsets", *of_group, *inputs, "--to-latest", "--export", "--dry-run"))
    assert reset("--from-file", str(exported), "--execute") == ["3"]
    internal = {topic for topic in counting.topics() if topic.startswith(counting.application)}
    assert len(internal) == 2
    repartition = next(topic for topic in internal if topic.endswith("-repartition"))
    reset(*inputs, "--to-earliest", "--delete-internal-topic", repartition, "--execute")
    assert counting.topics() & internal == internal - {repartition}
    reset(*inputs, "--to-earliest", "--delete-all-internal-topics", "--execute")
    assert counting.topics() & internal == set()
    found = table(counting.tool("--delete-offsets", "--input-topic", counting.source, *of_group), "TOPIC")
    assert {row["STATUS"] for row in found if row["TOPIC"] == counting.source} == {"Successful"}
    assert "success" in counting.tool("--delete", *of_group).lower()


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(1, id="killed"),
        pytest.param(20, id="killed-often", marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
    ],
)
def test_words_are_counted_exactly_once_by_two_processes_of_which_one_is_killed(bench: MakeBench, kills: int) -> None:
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
        for _ in range(kills):
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
    counting.make(f"{counting.application}-{STORE}-changelog", partitions=3)
    with counting.running() as application:
        assert application.told("failed")[0] == "TopologyException"
        application.end()
    counting.until_state("Empty")


def test_the_whole_application_shuts_down_when_one_process_asks_for_it(bench: MakeBench) -> None:
    mapping = bench("map")
    mapping.make()
    with mapping.running() as one, mapping.running() as other:
        one.until_tasks(active=1)
        other.until_tasks(active=1)
        mapping.write(("k", END_OF_ALL))
        for process in (one, other):
            process.until_state("ERROR")
            process.end()
    mapping.until_state("Empty")


@pytest.mark.soak
def test_each_process_knows_where_a_key_is(bench: MakeBench) -> None:
    counting = bench("count")
    counting.make()
    counting.configure(streams_num_standby_replicas="1")
    counting.write(*((str(number), line) for number, line in enumerate(LINES)))
    ports = ["7001", "7002"]
    with ExitStack() as running:
        processes = [running.enter_context(counting.running(f"application.server=localhost:{port}")) for port in ports]
        for process in processes:
            process.until_tasks(active=2, standby=1)
        words = {word for line in LINES for word in line.split()}

        def told(process: Application) -> list[list[str]]:
            return [process.ask(f"holders {STORE} {word}") for word in sorted(words)]

        for _ in attempts("the same of both"):
            holders = told(processes[0])
            if holders == told(processes[1]) and {one[0] for one in holders} == set(ports):
                break
            let_pass(LOOK_EVERY)
        assert all(sorted(one) == ports for one in holders)
        for process in processes:
            process.end()


@pytest.mark.soak
def test_an_application_that_may_not_create_its_topics_waits_until_it_may(
    pulsar: PulsarAddress, jars: Jars, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text(line_of(USER, credential("SCRAM-SHA-256", PASSWORD)) + "\n")
    base = settings_for(pulsar, pulsar.create_namespace(), {"kafka": {"listen": f"{HOST}:9092"}, "groups": QUICK})
    running = BridgeThread(
        base.with_values(
            kafka={
                "listeners": f"PLAINTEXT://{HOST}:0,SASL_PLAINTEXT://{HOST}:0", "sasl_enabled_mechanisms": "PLAIN",
                "authorizer": "kafka", "super_users": "User:ANONYMOUS",
            },
            security={"password_file": str(users)},
        )
    )  # fmt: skip
    running.start()
    login, address = (f"{HOST}:{running.server.listeners.ports[name]}" for name in ("SASL_PLAINTEXT", "PLAINTEXT"))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    counting = Bench(
        address, jars, tmp_path, "count", login, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN",
        f'sasl.jaas.config={module} required username="{USER}" password="{PASSWORD}";',
    )  # fmt: skip
    try:
        counting.make()
        counting.configure(streams_initial_rebalance_delay_ms="0")
        counting.write(("k", LINES[0]))
        _grant(address, ResourceType.GROUP, counting.application, Operation.READ)
        for name in (counting.source, counting.sink, counting.application):
            _grant(address, ResourceType.TOPIC, name, Operation.READ, Operation.WRITE)
        with counting.running() as application:
            counting.until_state("NotReady")
            assert application.ask("state")[1:] == ["0", "0"]
            _grant(address, ResourceType.TOPIC, counting.application, Operation.CREATE)
            counting.until_read(len(LINES[0].split()))
            application.end()
    finally:
        counting.close()
        running.stop()


def _grant(address: str, kind: ResourceType, prefix: str, *operations: Operation) -> None:
    creations = [
        create_acls.Creation(
            resource_type=kind, resource_name=prefix, resource_pattern_type=PatternType.PREFIXED,
            principal=f"User:{USER}", host="*", operation=operation, permission_type=Permission.ALLOW,
        )
        for operation in operations
    ]  # fmt: skip
    for made in ask_at(address, create_acls.API, create_acls.Request(creations=creations)).results:
        assert made.error_code == ErrorCode.NONE, made
