"""Kafka Streams counts words (at_least_once): internal topics, a group, commits, lasting state."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.endpoint import Clients, Endpoint, unique
from tests.clients.members import Joining, Member, until
from tests.clients.model import Draft
from tests.support.java import STREAMS, compiled, java_command

SOURCES = Path(__file__).parent / "java_streams"
LINES = ["the quick brown fox", "jumps over the lazy dog", "the dog sleeps"]


@pytest.fixture(scope="module")
def classes() -> Path:
    return compiled(SOURCES, STREAMS)


@contextmanager
def word_count(endpoint: Endpoint, classes: Path, work: Path, *names: str) -> Iterator[None]:
    """The application, until the end of the block; it must end in order."""
    command = java_command(
        "WordCount", endpoint.kafka, *names, str(work / "state"), heap="512m", jars=STREAMS, classes=classes
    )
    with (work / "log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
    assert process.stdin is not None
    try:
        yield
        process.stdin.close()
        assert process.wait(60) == 0, (work / "log").read_text(errors="replace")[-4000:]
    finally:
        process.kill()
        process.wait()
        process.stdin.close()


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
