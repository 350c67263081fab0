"""Java programs of the tests: jars from Maven in a user cache, Kafka's console tools, and drivers compiled here."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bridge.standalone.maven import Jar, JarCache, MavenFetch, cache_directory
from tests.support import class_archives
from tests.support.driver import Driver
from tests.support.programs import require

KAFKA_VERSION = "4.1.1"
"""Whose clients have streams groups: they are not ready in 4.1."""
OLD_KAFKA_VERSION = "3.9.1"
OLDEST_KAFKA_VERSION = "2.8.2"
NEWER_KAFKA_VERSION = "4.2.1"
NEWEST_KAFKA_VERSION = "4.3.1"
FLINK_VERSION = "2.1.0"
FLINK_KAFKA_VERSION = "4.0.1-2.0"
COMMAND_TIMEOUT = 120.0
QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""For programs that live for seconds, on few cores."""
_LOGGING = ("org.slf4j", "slf4j-simple", "1.7.36")
_TOOLS = Path(__file__).parent / "java_tools"
_IN_ONE_JVM = {
    "AclCommand", "BrokerApiVersionsCommand", "ConfigCommand", "ConsumerGroupCommand", "DelegationTokenCommand",
    "DeleteRecordsCommand", "FeatureCommand", "GetOffsetShell", "GroupsCommand", "LeaderElectionCommand",
    "ReassignPartitionsCommand", "ShareGroupCommand", "TopicCommand", "TransactionsCommand",
}  # fmt: skip
"""Tools that ask and end: they keep nothing in static fields, as the console's consumer does."""
_APACHE = "org.apache.kafka"
_FLINK = "org.apache.flink"


@dataclass(frozen=True, slots=True)
class Jars:
    """A class path; its name is that of its directory in the cache."""

    name: str
    artifacts: tuple[tuple[str, str, str], ...]


KAFKA = Jars(
    f"kafka-{KAFKA_VERSION}",
    ((_APACHE, "kafka-tools", KAFKA_VERSION), (_APACHE, "kafka_2.13", KAFKA_VERSION), _LOGGING),
)


KAFKA_NEWEST = Jars(f"kafka-{NEWEST_KAFKA_VERSION}", ((_APACHE, "kafka_2.13", NEWEST_KAFKA_VERSION), _LOGGING))
"""A broker of the newest version: the control of what only its clients have, and what benchmarks measure beside."""


def _clients(version: str) -> Jars:
    """The Java client of some version alone, with what our drivers need."""
    jackson = ("com.fasterxml.jackson.core", "jackson-databind", "2.16.2")
    return Jars(f"kafka-clients-{version}", ((_APACHE, "kafka-clients", version), jackson, _LOGGING))


def _streams(version: str) -> Jars:
    """Streams, the tools and the client of some version."""
    artifacts = (_APACHE, "kafka-streams", version), (_APACHE, "kafka-tools", version), _LOGGING
    return Jars(f"kafka-streams-{version}", artifacts)


NEWER = _streams(NEWER_KAFKA_VERSION)
NEWEST = _streams(NEWEST_KAFKA_VERSION)
OLD_CLIENTS = _clients(OLD_KAFKA_VERSION)
OLDEST_CLIENTS = _clients(OLDEST_KAFKA_VERSION)
STREAMS = Jars(f"kafka-streams-{KAFKA_VERSION}", ((_APACHE, "kafka-streams", KAFKA_VERSION), _LOGGING))
CONNECT = Jars(
    f"kafka-connect-{KAFKA_VERSION}",
    (
        (_APACHE, "connect-runtime", KAFKA_VERSION),
        (_APACHE, "connect-file", KAFKA_VERSION),
        (_APACHE, "connect-json", KAFKA_VERSION),
        _LOGGING,
    ),
)
MIRROR = Jars(f"kafka-mirror-{KAFKA_VERSION}", ((_APACHE, "connect-mirror", KAFKA_VERSION), _LOGGING))
"""MirrorMaker 2."""
SPRING = Jars("spring-kafka-4.0.7", (("org.springframework.boot", "spring-boot-starter-kafka", "4.0.7"),))
FLINK = Jars(
    f"flink-{FLINK_VERSION}-kafka-{FLINK_KAFKA_VERSION}",
    (
        (_FLINK, "flink-clients", FLINK_VERSION),
        (_FLINK, "flink-connector-base", FLINK_VERSION),
        (_FLINK, "flink-connector-datagen", FLINK_VERSION),
        (_FLINK, "flink-connector-kafka", FLINK_KAFKA_VERSION),
        _LOGGING,
    ),
)
"""A whole Flink, 80 MB; its connector brings kafka-clients 3.9."""
DEFINITIONS = Jar(
    "52501b7b47510c66f898871adaf6d2968ab7246561d44ced43643a8a587f0b36",
    f"{_APACHE}:kafka-clients:{NEWEST_KAFKA_VERSION}",
)
"""It holds Kafka's definitions of its messages. `make unit` has them, and no other jar."""


_tools: dict[Jars, Driver] = {}


def definitions_jar() -> Path:
    """Return the jar with Kafka's definitions, fetched by Maven at the first use."""
    fetch = MavenFetch(print, "Kafka's definitions", "10 MB")
    (jar,) = JarCache(
        cache_directory() / f"kafka-definitions-{NEWEST_KAFKA_VERSION}", print, [DEFINITIONS], fetch
    ).ensure()
    return jar


def jars_directory(jars: Jars) -> Path:
    """Return the directory with a class path's jars, resolved by Maven at the first use."""
    target = cache_directory() / jars.name
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        fetched = Path(work) / "jars"
        MavenFetch(print, jars.name).run([":".join(one) for one in jars.artifacts], fetched, transitive=True)
        _appear(fetched, target)
    return target


def java_command(
    *arguments: str,
    heap: str = "256m",
    jars: Jars = KAFKA,
    classes: Path | None = None,
    options: Sequence[str] = QUICK_START,
    log_level: str = "warn",
) -> list[str]:
    """Return a command line with these jars on the class path."""
    java = require("java")
    logging = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"
    class_path = f"{jars_directory(jars)}/*" + ("" if classes is None else f":{classes}")
    kept = class_archives.of_class_path(jars_directory(jars)) if options == QUICK_START else ()
    return [java, f"-Xmx{heap}", *options, *kept, logging, "-cp", class_path, *arguments]


def run_tool(main_class: str, *arguments: str, stdin: bytes = b"", jars: Jars = KAFKA) -> str:
    """Run one of Kafka's command-line tools to its end and return what it printed."""
    if main_class.rpartition(".")[2] not in _IN_ONE_JVM:
        return run_command(java_command(main_class, *arguments, jars=jars), stdin)
    if jars not in _tools:
        command = java_command("Driver", jars=jars, classes=compiled(_TOOLS, jars))
        _tools[jars] = Driver(command, Path(os.devnull))  # what a tool says comes with its answer
    try:
        code, printed, errors = _tools[jars].call("run", tool=main_class, arguments=arguments)
    except AssertionError:  # it has ended: the next tool gets another
        _tools.pop(jars).close()
        raise
    said = f"{printed}{errors}"
    assert code == 0, f"{main_class} {' '.join(arguments)} ended with {code}:\n{said[-4000:]}"
    return str(printed)


def end_tools() -> None:
    """End the JVMs in which tools ran."""
    for driver in _tools.values():
        driver.close()
    _tools.clear()


def run_command(command: list[str], stdin: bytes = b"") -> str:
    """The same of a command that is made already."""
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=COMMAND_TIMEOUT)
    said = (done.stdout + done.stderr).decode(errors="replace")  # some tell their errors on one, some on the other
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{said[-4000:]}"
    return done.stdout.decode()


def compiled(sources: Path, jars: Jars) -> Path:
    """Compile a directory of sources against a class path, unless that was done before; where the classes are."""
    files = sorted(sources.glob("*.java"))
    identity = hashlib.sha256(b"".join([jars.name.encode(), *(source.read_bytes() for source in files)]))
    target = cache_directory() / f"classes-{identity.hexdigest()[:16]}"
    if target.is_dir():
        return target
    javac = require("javac")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        classes = Path(work) / "classes"
        quick = [f"-J{option}" for option in QUICK_START]
        command = [javac, *quick, "-nowarn", "-d", str(classes), "-cp", f"{jars_directory(jars)}/*", *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT)
        assert done.returncode == 0, done.stderr
        _appear(classes, target)
    return target


def _appear(made: Path, target: Path) -> None:
    """A directory appears whole or not at all; of two processes that make it the second keeps the first one's."""
    try:
        made.rename(target)
    except OSError:
        assert target.is_dir()


def java_driver(sources: Path, jars: Jars, bootstrap: str, work: Path, options: Sequence[str] = QUICK_START) -> Driver:
    """Start the driver of a directory of sources: one JVM for a whole session."""
    work.mkdir()
    classes = compiled(sources, jars)
    command = java_command("Driver", bootstrap, heap="512m", jars=jars, classes=classes, options=options)
    return Driver(command, work / "driver.log")


def write_properties(path: Path, **properties: str) -> str:
    """A file of properties for a Java program, whose names have dots for underscores; its path."""
    path.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in properties.items()))
    return str(path)
