"""Kafka Connect (standalone) carries the lines of a file into a topic and out of it into another file."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import IO

from bridge.standalone.ports import any_free
from tests.clients.endpoint import Clients, Endpoint, unique
from tests.clients.members import Joining, until
from tests.support.java import CONNECT, java_command, write_properties

TIMEOUT_SECONDS = 60.0


def properties(endpoint: Endpoint, work: Path, topic: str) -> list[str]:
    """A worker, a source and a sink, each in its file."""
    return [
        write_properties(
            work / "worker.properties",
            bootstrap_servers=endpoint.kafka,
            key_converter="org.apache.kafka.connect.storage.StringConverter",
            value_converter="org.apache.kafka.connect.storage.StringConverter",
            offset_storage_file_filename=str(work / "offsets"),
            offset_flush_interval_ms="500",
            listeners=f"http://127.0.0.1:{any_free()}",
        ),
        write_properties(
            work / "source.properties",
            name=f"source-{topic}",
            connector_class="org.apache.kafka.connect.file.FileStreamSourceConnector",
            file=str(work / "in.txt"),
            topic=topic,
        ),
        write_properties(
            work / "sink.properties",
            name=f"sink-{topic}",
            connector_class="org.apache.kafka.connect.file.FileStreamSinkConnector",
            file=str(work / "out.txt"),
            topics=topic,
        ),
    ]


@contextmanager
def connect(work: Path, files: list[str]) -> Iterator[None]:
    """The worker, until the end of the block; it must end in order."""
    command = java_command("org.apache.kafka.connect.cli.ConnectStandalone", *files, heap="512m", jars=CONNECT)
    with (work / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
        process.terminate()
        assert process.wait(60) in (0, 143), (work / "log").read_text(errors="replace")[-4000:]
    finally:
        process.kill()
        process.wait()


@contextmanager
def followed(file: Path) -> Iterator[IO[bytes]]:
    """The lines of a file as they come; the wait for them ends with the timeout."""
    file.touch()
    tail = subprocess.Popen(["tail", "-n", "+1", "-F", str(file)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    timeout = Timer(2 * TIMEOUT_SECONDS, tail.kill)
    timeout.start()
    assert tail.stdout is not None
    try:
        yield tail.stdout
    finally:
        timeout.cancel()
        tail.kill()
        tail.wait()
        tail.stdout.close()


def test_lines_go_from_file_to_file_and_none_twice(endpoint: Endpoint, clients: Clients, tmp_path: Path) -> None:
    topic = unique("connect")
    clients["confluent"].create_topic(topic, 1)
    first, second = [f"line {n}" for n in range(20)], [f"more {n}" for n in range(10)]
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"{line}\n" for line in first))
    files = properties(endpoint, tmp_path, topic)
    reader = clients.groups("confluent").join(Joining(unique("reader"), topic))
    try:
        with followed(sink) as lines:
            with connect(tmp_path, files):
                assert [lines.readline().decode().strip() for _ in first] == first
            with source.open("a") as more:
                more.write("".join(f"{line}\n" for line in second))
            with connect(tmp_path, files):
                assert [lines.readline().decode().strip() for _ in second] == second
        until("the topic's records", lambda: len(reader.seen) >= 30, reader)
        assert reader.values == first + second
    finally:
        reader.leave()
    group = clients.groups("kafka-python").group_offsets(f"connect-sink-{topic}")
    assert group == {(topic, 0): 30}
    assert sink.read_text().splitlines() == first + second
