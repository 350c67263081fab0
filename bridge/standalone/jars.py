"""Pulsar's jars: which they are, and the cache that holds them.

jars.txt is the lock: one line a jar, `sha256 group:artifact:version[:classifier]`.
"""

import sys
from functools import cache
from importlib import resources
from pathlib import Path

from bridge.errors import StartupError
from bridge.standalone.maven import Jar, JarCache, JarsError, MavenFetch, Say, cache_directory

PULSAR_VERSION = "4.0.7"


@cache
def locked() -> tuple[Jar, ...]:
    """The jars of the pinned Pulsar."""
    text = resources.files(__package__).joinpath("jars.txt").read_text(encoding="utf-8")
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(Jar(sha256, coordinates) for sha256, coordinates in lines)


def ensure_pulsar_jars(say: Say, *, verify: bool = False) -> list[Path]:
    """Every jar, present and as locked; `verify` reads every byte again."""
    fetch = MavenFetch(say, "Apache Pulsar", "235 MB")
    try:
        return JarCache(cache_directory() / f"pulsar-{PULSAR_VERSION}", say, locked(), fetch).ensure(verify=verify)
    except JarsError as error:
        raise StartupError(str(error)) from None


def main() -> int:
    """`python -m bridge.standalone.jars`: fill the cache and nothing else, for tests and images."""
    try:
        ensure_pulsar_jars(lambda line: print(line, flush=True), verify="--verify" in sys.argv)
    except StartupError as error:
        print(f"bridge: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
