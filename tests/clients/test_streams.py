"""Kafka Streams counts words: internal topics, a group, commits, lasting state; and exactly once, also when killed."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.clients.endpoint import Clients, Endpoint, unique
from tests.clients.members import Joining, Member, until
from tests.clients.model import Draft, attempts
from tests.clients.transactions.confluent import ConfluentReader, ConfluentTransactions
from tests.clients.transactions.raw import await_leaders
from tests.faults.processes import let_pass
from tests.support.java import STREAMS, compiled, java_command

SOURCES = Path(__file__).parent / "java_streams"
LINES = ["the quick brown fox", "jumps over the lazy dog", "the dog sleeps"]
EXACTLY_ONCE = (
    "processing.guarantee=exactly_once_v2",
    "statestore.cache.max.bytes=0",  # else counts that follow each other closely are told as one
    "commit.interval.ms=50",
    "group.instance.id=one",  # who comes back after a kill need not wait for the end of its session
)
ROUNDS = 40
"""So often the lines are written at a time."""
LOOK_EVERY = 0.1


@pytest.fixture(scope="module")
def classes() -> Path:
    return compiled(SOURCES, STREAMS)


class WordCount:
    """The application, as a process."""

    def __init__(self, endpoint: Endpoint, classes: Path, work: Path, *names: str, settings: tuple[str, ...] = ()):
        arguments = (endpoint.kafka, *names, str(work / "state"), *settings)
        command = java_command("WordCount", *arguments, heap="512m", jars=STREAMS, classes=classes)
        self.killed = False
        self._log = work / "log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)

    def end(self) -> None:
        """Let it end in order."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0, self._log.read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """SIGKILL; nothing where it has ended."""
        self.killed = True
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()


@contextmanager
def word_count(
    endpoint: Endpoint, classes: Path, work: Path, *names: str, settings: tuple[str, ...] = ()
) -> Iterator[WordCount]:
    """The application, until the end of the block; it must end in order, unless it was killed there."""
    application = WordCount(endpoint, classes, work, *names, settings=settings)
    try:
        yield application
        if not application.killed:
            application.end()
    finally:
        application.kill()


def until_counted(member: Member, lines: list[str]) -> None:
    expected = {f"{word}={count}" for word, count in Counter(" ".join(lines).split()).items()}
    until("the counts", lambda: expected <= set(member.values), member)


def test_words_are_counted_and_the_counts_outlive_the_application(
    endpoint: Endpoint, clients: Clients, classes: Path, tmp_path: Path
) -> None:
    source, sink, application = unique("lines"), unique("counts"), unique("word-count")
    for topic in (source, sink):
        clients["confluent"].create_topic(topic, 2)
    clients["confluent"].write(source, [Draft("", line.encode(), partition=n % 2) for n, line in enumerate(LINES)])
    reader = clients.groups("confluent").join(Joining(unique("reader"), sink))
    try:
        with word_count(endpoint, classes, tmp_path, application, source, sink):
            until_counted(reader, LINES)
        committed = clients.groups("kafka-python").group_offsets(application)
        assert {(source, 0): 2, (source, 1): 1}.items() <= committed.items()
        clients["confluent"].write(source, [Draft("", b"the end", partition=0)])
        with word_count(endpoint, classes, tmp_path, application, source, sink):
            until_counted(reader, [*LINES, "the end"])
        internal = {topic.removeprefix(application) for topic in clients["confluent"].topics() if application in topic}
        assert {name.rsplit("-", 1)[1] for name in internal} == {"changelog", "repartition"}
    finally:
        reader.leave()


class Counting:
    """Lines for the application, and what it counted of them."""

    def __init__(self, endpoint: Endpoint, clients: Clients) -> None:
        self.source, self.sink, self.application = unique("lines"), unique("counts"), unique("word-count")
        self._clients = clients
        for topic in (self.source, self.sink):
            clients["confluent"].create_topic(topic, 2)
            await_leaders(endpoint.kafka, topic, 2)
        self.reader: ConfluentReader = ConfluentTransactions(endpoint.kafka).reader(self.sink, [0, 1], committed=True)
        self.written: Counter[str] = Counter()
        self.told: dict[str, list[int]] = {}

    @property
    def names(self) -> tuple[str, str, str]:
        """As the application takes them."""
        return self.application, self.source, self.sink

    def write(self) -> None:
        """Write the lines once more, many times."""
        lines = LINES * ROUNDS
        drafts = [Draft("", line.encode(), partition=number % 2) for number, line in enumerate(lines)]
        self._clients["confluent"].write(self.source, drafts)
        self.written.update(" ".join(lines).split())

    def until_told(self, count: int) -> None:
        """Read what is committed until there are so many counts."""
        for _ in attempts(f"{count} counts"):
            for values in self.reader.read().values():
                for word, _, number in (value.partition("=") for value in values):
                    self.told.setdefault(word, []).append(int(number))
            if sum(map(len, self.told.values())) >= count:
                return
            let_pass(LOOK_EVERY)

    def committed(self) -> int:
        """How many lines the group has committed."""
        offsets = self._clients.groups("kafka-python").group_offsets(self.application)
        return sum(offset for (topic, _), offset in offsets.items() if topic == self.source)


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(0, id="undisturbed"),
        pytest.param(1, id="killed"),
        pytest.param(20, id="killed-often", marks=pytest.mark.soak),
    ],
)
def test_each_word_is_counted_exactly_once(
    endpoint: Endpoint, clients: Clients, classes: Path, tmp_path: Path, kills: int
) -> None:
    counting = Counting(endpoint, clients)
    with closing(counting.reader):
        for _ in range(kills):
            seen = sum(map(len, counting.told.values()))
            with word_count(endpoint, classes, tmp_path, *counting.names, settings=EXACTLY_ONCE) as running:
                counting.write()
                counting.until_told(seen + 1)  # some are committed, and it is at the others
                running.kill()
        with word_count(endpoint, classes, tmp_path, *counting.names, settings=EXACTLY_ONCE):
            counting.write()
            counting.until_told(counting.written.total())
        assert counting.told == {word: list(range(1, count + 1)) for word, count in counting.written.items()}
        assert counting.committed() == len(LINES) * ROUNDS * (kills + 1)
        counting.until_told(0)  # nothing came with the end
        assert sum(map(len, counting.told.values())) == counting.written.total()
