"""Let Maven fetch a list of jars into a directory, with its progress told in a line."""

import os
import re
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from bridge.errors import StartupError
from bridge.standalone.tools import find_maven

_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_ATTEMPTS = 3
# Maven's own default is to wait 30 minutes for a silent server: the wagon of 3.8, then the resolver of 3.9 and 4.
_TIMEOUT_OPTIONS = (
    "-Dmaven.wagon.rto=60000",
    "-Dmaven.wagon.http.retryHandler.count=3",
    "-Daether.connector.requestTimeout=60000",
    "-Daether.connector.http.retryHandler.count=3",
)
_DOWNLOADED = re.compile(r"Downloaded from \S+ \S+ \(([\d.]+) ([kMG]?)B")
_UNITS = {"": 1e-6, "k": 1e-3, "M": 1.0, "G": 1e3}  # in MB
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


class Fetch:
    """One Maven run, repeated when the network fails: Maven goes on where it stopped."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def run(self, coordinates: Sequence[str], target: Path, repository: Path | None = None) -> None:
        """Fetch the jars into `target`, by way of the user's Maven repository or a given one."""
        maven = find_maven()
        self._say(f"fetching {len(coordinates)} jars of Apache Pulsar with Maven (once; about 235 MB for all)")
        with tempfile.TemporaryDirectory(prefix="bridge-pom-") as work:
            Path(work, "pom.xml").write_text(make_pom(coordinates), encoding="utf-8")
            command = [
                str(maven),
                "-B",
                "-f",
                f"{work}/pom.xml",
                *_TIMEOUT_OPTIONS,
                _GOAL,
                f"-DoutputDirectory={target}",
            ]
            if repository is not None:
                command.append(f"-Dmaven.repo.local={repository}")
            failure: list[str] | None = []
            for attempt in range(1, _ATTEMPTS + 1):
                # -U: without it Maven remembers that a download failed and does not try again for a day
                failure = self._run_once([*command, "-U"] if attempt > 1 else command)
                if failure is None:
                    return
                self._say(f"Maven failed, attempt {attempt} of {_ATTEMPTS}")
        raise StartupError("Maven cannot fetch Pulsar's jars; it said:\n" + "\n".join(failure or []))

    def _run_once(self, command: list[str]) -> list[str] | None:
        """None when Maven succeeded, else its last words."""
        progress = _Progress(self._say)
        last_lines: deque[str] = deque(maxlen=8)
        environment = {**os.environ, "MAVEN_OPTS": os.environ.get("MAVEN_OPTS", "") + " -Xmx512m"}
        with subprocess.Popen(  # noqa: S603 - the command is ours, found on the user's PATH
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", env=environment,
        ) as maven:  # fmt: skip
            try:
                for line in maven.stdout or ():
                    progress.line(line)
                    if "[ERROR]" in line:
                        last_lines.append(_COLOURS.sub("", line).rstrip())
            except BaseException:
                maven.terminate()
                raise
        return None if maven.returncode == 0 else list(last_lines) or ["(nothing)"]


class _Progress:
    """Counts Maven's downloads and tells them every few seconds."""

    EVERY_SECONDS = 5.0

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._files = 0
        self._megabytes = 0.0
        self._told = time.monotonic()

    def line(self, line: str) -> None:
        match = _DOWNLOADED.search(line)
        if match is None:
            return
        self._files += 1
        self._megabytes += float(match.group(1)) * _UNITS[match.group(2)]
        if time.monotonic() - self._told >= self.EVERY_SECONDS:
            self._told = time.monotonic()
            self._say(f"  {self._files} files, {self._megabytes:.0f} MB")


def make_pom(coordinates: Sequence[str]) -> str:
    """A pom that names exactly these jars and nothing they depend on."""
    dependencies: list[str] = []
    for line in coordinates:
        group, artifact, version, *classifier = map(escape, line.split(":"))
        named = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        named += "".join(f"<classifier>{text}</classifier>" for text in classifier)
        dependencies.append(f"<dependency>{named}{_NOTHING_ELSE}</dependency>")
    return _POM.format(dependencies="\n".join(dependencies))


_NOTHING_ELSE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>pulsar-kafka-bridge</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>
{dependencies}
</dependencies>
</project>
"""
