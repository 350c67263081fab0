"""Has Maven fetch a list of jars into a directory, and tells its progress."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from tqdm import tqdm

_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_ATTEMPTS = 3
# Maven's own default is to wait 30 minutes for a silent server: the wagon of 3.8, then the resolver of 3.9 and 4.
_TIMEOUT_OPTIONS = (
    "-Dmaven.wagon.rto=60000",
    "-Dmaven.wagon.http.retryHandler.count=3",
    "-Daether.connector.requestTimeout=60000",
    "-Daether.connector.http.retryHandler.count=3",
)
_DOWNLOADED = re.compile(r"Downloaded from \S+ (\S+) \(([\d.]+) ([kMG]?)B")
_UNITS = {"": 1e-6, "k": 1e-3, "M": 1.0, "G": 1e3}  # in MB
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


class JarsError(Exception):
    """The jars cannot be had; the message says what to do."""


Say = Callable[[str], None]
"""Tell the user a line."""


class MavenFetch:
    """One Maven run, repeated when the network fails: Maven goes on where it stopped."""

    def __init__(self, say: Say, product: str, size: str = "") -> None:
        """`product` and `size`, of all its jars, are what the user is told."""
        self._say = say
        self._product = product
        self._size = size

    def run(
        self,
        coordinates: Sequence[str],
        target: Path,
        repository: Path | None = None,
        *,
        transitive: bool = False,
        versions_of: str = "",
    ) -> None:
        """Fetch the jars into `target`, by way of the user's Maven repository or a given one.

        `transitive`: with all that they depend on, in the versions that Maven chooses, or that the pom `versions_of`
        manages (`group:artifact:version`). Without it Maven asks for every version that a range allows.
        """
        maven = find_maven(self._product)
        size = f"; about {self._size} for all" if self._size else ""
        self._say(f"fetching {len(coordinates)} jars of {self._product} with Maven (once{size})")
        with tempfile.TemporaryDirectory(prefix="bridge-pom-") as work:
            Path(work, "pom.xml").write_text(
                make_pom(coordinates, transitive=transitive, versions_of=versions_of), encoding="utf-8"
            )
            command = _command(maven, work, target, repository)
            failure: list[str] | None = []
            for attempt in range(1, _ATTEMPTS + 1):
                # -U: without it Maven remembers that a download failed and does not try again for a day
                jars = set() if transitive else {jar_name(line) for line in coordinates}
                failure = self._run_once([*command, "-U"] if attempt > 1 else command, jars)
                if failure is None:
                    return
                self._say(f"Maven failed, attempt {attempt} of {_ATTEMPTS}")
        raise JarsError(f"Maven cannot fetch the jars of {self._product}; it said:\n" + "\n".join(failure or []))

    def _run_once(self, command: list[str], jars: set[str]) -> list[str] | None:
        """None when Maven succeeded, else its last words."""
        progress = Downloads(jars)
        last_lines: deque[str] = deque(maxlen=8)
        environment = {**os.environ, "MAVEN_OPTS": os.environ.get("MAVEN_OPTS", "") + " -Xmx512m"}
        with subprocess.Popen(  # noqa: S603 - the command is ours, found on the user's PATH
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", env=environment,
        ) as maven:  # fmt: skip
            try:
                for line in maven.stdout or ():
                    progress.read(line)
                    if "[ERROR]" in line:
                        last_lines.append(_COLOURS.sub("", line).rstrip())
            except BaseException:
                maven.terminate()
                raise
            finally:
                progress.bar.close()
        return None if maven.returncode == 0 else list(last_lines) or ["(nothing)"]


def _command(maven: Path, work: str, target: Path, repository: Path | None) -> list[str]:
    command = [str(maven), "-B", "-f", f"{work}/pom.xml", *_TIMEOUT_OPTIONS, _GOAL, f"-DoutputDirectory={target}"]
    if repository is not None:
        command.append(f"-Dmaven.repo.local={repository}")
    return command


class Downloads:
    """Counts what Maven says it has downloaded, and shows it on a terminal; nothing is written elsewhere."""

    def __init__(self, jars: Set[str]) -> None:
        """`jars`: the files that are wanted, of which some may be there; none where that is not known.

        Maven fetches its own plug-ins before.
        """
        self._jars = jars
        self._megabytes = 0.0
        self.bar: Any = tqdm(total=len(jars) or None, unit=" jars", dynamic_ncols=True, leave=False, disable=None)

    def read(self, line: str) -> None:
        """Take a line that Maven printed."""
        match = _DOWNLOADED.search(line)
        if match is None:
            return
        name = match[1].rpartition("/")[2]
        self._megabytes += float(match[2]) * _UNITS[match[3]]
        self.bar.set_postfix_str(f"{self._megabytes:.0f} MB", refresh=False)
        self.bar.update(name in self._jars if self._jars else name.endswith(".jar"))


def jar_name(coordinates: str) -> str:
    """The file name that Maven gives to `group:artifact:version[:classifier]`."""
    _, artifact, version, *classifier = coordinates.split(":")
    return "-".join([artifact, version, *classifier]) + ".jar"


def make_pom(coordinates: Sequence[str], *, transitive: bool = False, versions_of: str = "") -> str:
    """A pom that names exactly these jars, and what they depend on only if asked to: version ranges end here."""
    dependencies: list[str] = []
    exclusions = "" if transitive else _NOTHING_ELSE
    for line in coordinates:
        group, artifact, version, *classifier = map(escape, line.split(":"))
        named = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        named += "".join(f"<classifier>{text}</classifier>" for text in classifier)
        dependencies.append(f"<dependency>{named}{exclusions}</dependency>")
    management = ""
    if versions_of:
        group, artifact, version = map(escape, versions_of.split(":"))
        management = _MANAGEMENT.format(group=group, artifact=artifact, version=version)
    return _POM.format(dependencies="\n".join(dependencies), management=management)


_NOTHING_ELSE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>pulsar-kafka-bridge</groupId><artifactId>jars</artifactId><version>1</version>
{management}<dependencies>
{dependencies}
</dependencies>
</project>
"""
_MANAGEMENT = """<dependencyManagement><dependencies><dependency>
<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
<type>pom</type><scope>import</scope>
</dependency></dependencies></dependencyManagement>
"""


def find_maven(product: str) -> Path:
    """The mvn of PATH."""
    found = shutil.which("mvn")
    if not found:
        how = _INSTALL.get(sys.platform, _INSTALL["linux"])
        raise JarsError(f"Maven is needed once, to fetch {product}, and there is no `mvn` on the PATH: {how}")
    return Path(found)


_INSTALL = {
    "linux": "install it with `sudo apt-get install maven` or your system's like",
    "darwin": "install it with `brew install maven`",
}
