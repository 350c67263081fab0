"""Archives of classes, parsed and checked (JEP 350): the JVMs of tests start with half of the work.

`python -m tests.support.keep_classes`, which `make jars` runs, makes them once for a Java and its jars. Where there is
none, a JVM starts without.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bridge.errors import StartupError
from bridge.standalone.maven import cache_directory

PULSAR, KAFKA = "pulsar-classes-", "kafka-classes-"


def options(java: Path, jars: Sequence[Path], name: str = PULSAR) -> tuple[str, ...]:
    """What a JVM of this Java and class path is started with."""
    archive = archive_of(java, jars, name)
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off") if archive.is_file() else ()


def of_class_path(directory: Path) -> tuple[str, ...]:
    """The same for the Java that is found and a directory of Kafka's jars."""
    java = shutil.which("java")
    return () if java is None else options(Path(java), sorted(directory.glob("*.jar")), KAFKA)


def archive_of(java: Path, jars: Iterable[Path], name: str = PULSAR) -> Path:
    """Where the archive is or would be: another one for another Java, and for jars that a JVM would take for others."""
    identity = hashlib.sha256()
    for path in (java.resolve(), *jars):
        facts = path.stat()
        identity.update(f"{path} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return cache_directory() / f"{name}{identity.hexdigest()[:16]}.jsa"


def make(archive: Path, name: str, run: Callable[[Path, tuple[str, ...]], None]) -> str:
    """Keep what a program loads, unless that is there; what was done.

    `run` starts it in a directory of its own, with these options, and ends it in order.
    """
    title = name.partition("-")[0].capitalize()
    if archive.is_file():
        return f"the archive of {title}'s classes is there"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as work:
        written = Path(work, archive.name)
        try:
            run(Path(work), (f"-XX:ArchiveClassesAtExit={written}", "-Xlog:disable"))
        except StartupError as error:
            return f"{title}'s classes are not kept, so that tests start it more slowly: {error}"
        if not written.is_file():
            return f"{title}'s classes are not kept, so that tests start it more slowly: its JVM wrote no archive"
        for old in archive.parent.glob(f"{name}*.jsa"):
            old.unlink(missing_ok=True)
        os.replace(written, archive)  # whole or not at all
    return f"{title}'s classes are kept in {archive}"
