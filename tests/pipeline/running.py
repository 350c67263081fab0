"""Jobs under test: run inside this process and its session, or as a process of their own that can be killed."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, TopicPartition

from bridge.node.orphans import Guard
from bridge.pipeline.cli import make_parser, run, session_options
from bridge.pipeline.context import Context
from bridge.pipeline.endpoint import KafkaEndpoint
from bridge.pipeline.jobs import all_jobs
from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.progress import Progress
from bridge.pipeline.report import Report
from tests.support.java import QUICK_START
from tests.support.programs import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent.parent
TIMEOUT = 240.0
# a JVM without C2 keeps 48 MB for code, too little for what Spark generates in minutes: they are swept all the time
QUICK = {"JAVA_TOOL_OPTIONS": " ".join((*QUICK_START, "-XX:ReservedCodeCacheSize=160m"))}
"""For the JVMs that PySpark starts."""
KEEPING_CLASSES = {"SPARK_SUBMIT_OPTS": "-XX:+RecordDynamicDumpInfo -Xlog:disable"}
"""For the one whose classes `keep_classes` will keep; for Spark's own JVM alone, not the one that makes its command."""
SHUFFLE_PARTITIONS = 2
"""As many as there are cores: each stage has so many tasks, however few the records are."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended, and what it told."""

    code: int
    report: dict[str, Any]
    notes: list[str]

    @property
    def error(self) -> str:
        """The one line that says why it ended early."""
        return str(self.report.get("error", ""))


def run_job(spark: SparkSession | None, *words: str) -> Outcome:
    """Run a command line in this process; without a session none may be asked for."""
    jobs = all_jobs()
    arguments = make_parser(jobs).parse_args(words)
    said = io.StringIO()
    report = Report(arguments.report, arguments.job)
    context = Context(session_options(arguments), Progress("json", said), report, spark)
    if spark is None:
        context = _WithoutSpark(session_options(arguments), Progress("json", said), report)
    code = run(jobs[arguments.job], arguments, context)
    events = [json.loads(line) for line in said.getvalue().splitlines()]
    return Outcome(code, report.facts, [event["text"] for event in events if event["event"] == "note"])


class _WithoutSpark(Context):
    @property
    def spark(self) -> SparkSession:
        raise AssertionError("Spark was to be started")


def keep_classes(spark: SparkSession, archive: Path) -> None:
    """Keep the classes of the session's JVM, parsed and checked, for those of the jobs (JEP 350): half of a start."""
    jvm: Any = spark._jvm  # py4j, untyped
    pid = str(jvm.java.lang.ProcessHandle.current().pid())
    jcmd = require("jcmd")
    done = subprocess.run([jcmd, pid, "VM.cds", "dynamic_dump", str(archive)], capture_output=True, text=True)
    assert archive.is_file(), done.stdout + done.stderr


class JobProcess:
    """`python -m bridge.pipeline …`, its progress read as events."""

    def __init__(self, guard: Guard, classes: Path, *words: str) -> None:
        """`classes` is what `keep_classes` kept."""
        command = [sys.executable, "-m", "bridge.pipeline", *words]
        command += ["--progress", "json", "--master", "local[2]", "--driver-memory", "1g"]
        command += ["--shuffle-partitions", str(SHUFFLE_PARTITIONS)]
        environment = {**os.environ, **QUICK, "SPARK_SUBMIT_OPTS": f"-XX:SharedArchiveFile={classes} -Xlog:disable"}
        read, write = os.pipe()
        with os.fdopen(write, "wb") as output:
            self._process = guard.popen(command, output=output, cwd=ROOT, environment=environment)
        self._guard = guard
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._over = False
        self._reader = threading.Thread(target=self._read, args=(read,), daemon=True)
        self._reader.start()

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool]) -> None:
        """Return when an event has come; AssertionError when the job ends without it."""
        with self._news:
            assert self._news.wait_for(lambda: self._over or any(map(wanted, self._events())), TIMEOUT), self._lines
            assert any(map(wanted, self._events())), "".join(self._lines)

    def kill(self) -> None:
        """SIGKILL Python alone: the JVM notices, as it would when memory is short and only one of them is killed."""
        os.kill(self._process.pid, signal.SIGKILL)
        self._end()

    def kill_all(self) -> None:
        """SIGKILL Python and the JVM."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._end()

    def interrupt(self) -> None:
        """SIGTERM, as an operator stops it."""
        os.kill(self._process.pid, signal.SIGTERM)

    def stop(self) -> None:
        """End what a test that failed has left running."""
        if self.running:
            self.kill_all()

    def finish(self) -> int:
        """Wait for the end and return the exit code."""
        code = self._process.wait(TIMEOUT)
        self._end()
        return code

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    @property
    def said(self) -> str:
        """All it wrote."""
        return "".join(self._lines)

    def _end(self) -> None:
        self._process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        self._guard.forget(self._process.pid)

    def _events(self) -> list[dict[str, Any]]:
        """Its events: an event is a line's end, and what the JVM was writing at that time may stand before it."""
        return [json.loads(line[at:]) for line in self._lines if (at := line.find('{"event"')) >= 0]

    def _read(self, read: int) -> None:
        with os.fdopen(read, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                with self._news:
                    self._lines.append(line)
                    self._news.notify_all()
        with self._news:
            self._over = True
            self._news.notify_all()


def until_written(endpoint: EndpointOptions, topic: str, records: int, process: JobProcess) -> None:
    """Return when so many records can be read; the job has created the topic, or found it."""
    with KafkaEndpoint(endpoint) as asked:
        if topic not in asked.topics():
            process.wait_for(lambda event: event.get("text") == f"created {topic}")
        places = [TopicPartition(topic, number, 0) for number in asked.partitions([topic])[topic]]
    settings = {"bootstrap.servers": endpoint.bootstrap, "group.id": "no-group", "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        consumer.assign(places)
        while records > 0:
            messages = consumer.consume(min(records, 1000), 1)
            assert messages or process.running, process.said
            records -= sum(message.error() is None for message in messages)
