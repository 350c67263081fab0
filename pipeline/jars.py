"""The Kafka connector's jars: fetched once through Maven into the user's cache, each checked against its sha256."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

from pipeline.errors import PipelineError, Usage

# To change a version: edit pom.xml, empty the cache, and put here what `sha256sum` says of what Maven fetched.
LOCKED = {
    "spark-sql-kafka-0-10_2.13-4.0.4.jar": "b2f7b3a4fbf292b5bf10bd4dd6af301eded9c9985b16239b407401d66dbc8a25",
    "spark-token-provider-kafka-0-10_2.13-4.0.0.jar": (
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767"
    ),
    "kafka-clients-3.9.1.jar": "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
    "commons-pool2-2.12.0.jar": "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
}
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_TIMEOUT = 600.0


def cache_directory() -> Path:
    """Where this user's caches live, as the XDG base directory specification says."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base, "pulsar-kafka-bridge")


def connector_jars(directory: Path | None = None) -> list[Path]:
    """The jars, fetched when the cache lacks them; from a directory of the user's own nothing is fetched."""
    target = directory or cache_directory() / "spark-kafka-4.0.4"
    if _wrong(target):
        if directory is not None:
            raise Usage(f"{directory} does not hold the jars this version was tested with: {', '.join(_wrong(target))}")
        _fill(target)
    return [target / name for name in LOCKED]


def _wrong(directory: Path) -> list[str]:
    """The jars that are missing or changed."""
    return [name for name, sha256 in LOCKED.items() if _sha256(directory / name) != sha256]


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return "missing"


def _fill(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be fetching them
        if not _wrong(target):
            return
        with tempfile.TemporaryDirectory(dir=target) as work:
            _run_maven(Path(work))
            wrong = _wrong(Path(work))
            if wrong:
                raise PipelineError(
                    f"Maven's mirror serves another {wrong[0]} than the one this version was tested with"
                )
            for name in LOCKED:
                os.replace(Path(work, name), target / name)


def _run_maven(work: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise PipelineError(
            "Maven is needed to fetch the Kafka connector: install it, or name its jars with --jars DIR"
        )
    print("fetching 4 jars of the Kafka connector with Maven (once; 10 MB)", file=sys.stderr, flush=True)
    pom = work / "pom.xml"
    pom.write_bytes(resources.files("pipeline").joinpath("pom.xml").read_bytes())
    command = [maven, "-B", "-U", "-f", str(pom), _GOAL, f"-DoutputDirectory={work}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)  # noqa: S603 - our own command
    if done.returncode != 0:
        said = [line for line in done.stdout.splitlines() if "[ERROR]" in line][:4]
        raise PipelineError("Maven cannot fetch the Kafka connector; it said:\n" + "\n".join(said))


def main() -> int:
    """`python -m pipeline.jars`: fill the cache and nothing else, for tests and images."""
    try:
        connector_jars()
    except PipelineError as error:
        print(f"bridge-pipeline: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
