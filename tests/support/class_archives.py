"""An archive of Pulsar's classes, parsed and checked (JEP 350): the JVMs of tests start with half of the work.

`python -m tests.support.class_archives`, which `make jars` runs, makes it once for a Java and its jars. Where there is
none, a JVM starts without.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from bridge.errors import StartupError
from bridge.standalone.guard import Guard
from bridge.standalone.jars import ensure_pulsar_jars
from bridge.standalone.jvm import QUICK_START
from bridge.standalone.ports import any_free
from bridge.standalone.process import PulsarPlan, PulsarProcess
from bridge.standalone.tools import find_java
from maven_jars import cache_directory

_NAME = "pulsar-classes-"
_WRITTEN_WITHIN_SECONDS = 120.0


def options(java: Path, jars: Sequence[Path]) -> tuple[str, ...]:
    """What a JVM of this Java and class path is started with."""
    archive = archive_of(java, jars)
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off") if archive.is_file() else ()


def archive_of(java: Path, jars: Iterable[Path]) -> Path:
    """Where the archive is or would be: another one for another Java, and for jars that a JVM would take for others."""
    identity = hashlib.sha256()
    for path in (java.resolve(), *jars):
        facts = path.stat()
        identity.update(f"{path} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return cache_directory() / f"{_NAME}{identity.hexdigest()[:16]}.jsa"


def make(java: Path, jars: Sequence[Path]) -> str:
    """Start a Pulsar once and keep what it loads, unless that is there; what was done."""
    archive = archive_of(java, jars)
    if archive.is_file():
        return "the archive of Pulsar's classes is there"
    with Guard() as guard, tempfile.TemporaryDirectory(dir=archive.parent) as work:
        written = Path(work, archive.name)
        try:
            _keep_classes(java, jars, guard, written)
        except StartupError as error:
            return f"Pulsar's classes are not kept, so that tests start it more slowly: {error}"
        if not written.is_file():
            return "Pulsar's classes are not kept, so that tests start it more slowly: its JVM wrote no archive"
        for old in archive.parent.glob(f"{_NAME}*.jsa"):
            old.unlink(missing_ok=True)
        os.replace(written, archive)  # whole or not at all
    return f"Pulsar's classes are kept in {archive}"


def _keep_classes(java: Path, jars: Sequence[Path], guard: Guard, archive: Path) -> None:
    port = any_free()
    kept = (*QUICK_START, f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable")
    plan = PulsarPlan(archive.parent / "pulsar", port, any_free({port}), java_options=kept)
    process = PulsarProcess(plan, java, jars, guard)
    process.start()
    process.child.stop(_WRITTEN_WITHIN_SECONDS)  # the JVM writes it at its end


if __name__ == "__main__":
    print(make(find_java(), ensure_pulsar_jars(print)), flush=True)
