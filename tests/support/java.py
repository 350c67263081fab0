"""Java programs of the tests: jars from Maven in a user cache, the console tools, and a driver that speaks JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Any

KAFKA_VERSION = "4.1.1"
ARTIFACTS = (
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)
COMMAND_TIMEOUT = 120.0


def require(program: str, how: str) -> str:
    """Return the path of a program, or fail with how to get it: a missing client is a failure, never a skip."""
    found = shutil.which(program)
    if found is None:
        raise AssertionError(f"{program} is not installed: {how}")
    return found


def cache_directory() -> Path:
    """Return the user cache in which the jars stay between runs."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "pulsar-kafka-bridge"


def kafka_jars() -> Path:
    """Return the directory with Apache Kafka's jars, resolved by Maven at the first use."""
    target = cache_directory() / f"kafka-{KAFKA_VERSION}"
    if target.is_dir():
        return target
    maven = require("mvn", "apt-get install -y maven")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        pom = Path(work) / "pom.xml"
        pom.write_text(_pom(), encoding="utf-8")
        jars = Path(work) / "jars"
        command = [maven, "-B", "-q", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, f"Maven could not resolve Kafka's jars:\n{done.stdout[-2000:]}"
        # the directory appears whole or not at all; whoever came second keeps the first one's
        if not target.is_dir():
            jars.rename(target)
    return target


def _pom() -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in ARTIFACTS
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


def java_command(*arguments: str, heap: str = "256m") -> list[str]:
    """Return a command line with Kafka's jars on the class path, tuned for a quick start on few cores."""
    java = require("java", "apt-get install -y openjdk-17-jdk-headless")
    options = [f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    logging = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return [java, *options, *logging, "-cp", f"{kafka_jars()}/*", *arguments]


def run_tool(main_class: str, *arguments: str, stdin: bytes = b"") -> str:
    """Run one of Kafka's command-line tools to its end and return what it printed."""
    command = java_command(main_class, *arguments)
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=COMMAND_TIMEOUT)
    error = done.stderr.decode(errors="replace")
    assert done.returncode == 0, f"{main_class} {' '.join(arguments)} ended with {done.returncode}:\n{error[-4000:]}"
    return done.stdout.decode()


class JavaError(Exception):
    """An exception of the Java client; the first argument is its simple class name."""


class JavaDriver:
    """A running driver: one JVM for a whole session, one JSON line per command and per answer."""

    def __init__(self, source: Path, bootstrap: str, log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                java_command(str(source), bootstrap, heap="512m"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin: IO[bytes] = self._process.stdin
        self._stdout: IO[bytes] = self._process.stdout

    def __enter__(self) -> JavaDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, operation: str, **arguments: object) -> Any:
        """Run one operation in the driver and return its result."""
        self._stdin.write(json.dumps({"op": operation, **arguments}).encode() + b"\n")
        self._stdin.flush()
        line = self._stdout.readline()
        if not line:
            raise AssertionError(f"the Java driver died:\n{self._log.read_text(errors='replace')[-4000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise JavaError(answer["error"], answer.get("message"))
        return answer["result"]

    def close(self) -> None:
        """End the driver: it leaves when its standard input ends."""
        self._stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()
