"""Other versions of Pulsar for the tests: `--pulsar-version 4.2.4`. What the bridge starts for users is the pinned one.

Maven resolves a version's jars as Pulsar's own build does. One digest for each version pins all of them by name and
content; Maven itself compares each with the checksum that is published beside it. `python -m
tests.support.pulsar_versions 4.2.5` fetches a version that is not here and prints its line.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

from bridge.standalone.jars import PULSAR_VERSION, ensure_pulsar_jars
from bridge.standalone.maven import MavenFetch, cache_directory

DIGESTS: Final[dict[str, str]] = {
    "3.0.7": "7fa511cd35c7c639a74bdea13d79be64f8a272527ece0cd4f05f5211a9947fcd",
    "3.2.3": "191ef57757f5fa1006ee34656f6716b79d3636e0cda715c911649e8a4c16d9d2",
    "3.3.2": "1d1e58f0c67ad4125bd5c22d10595abaabba716bfae491976e94fd3dae42a2b9",
    "4.2.4": "e16057eaecc14740ae2eeb3217a27b54ca1e847af6ee3e696f023899003ea466",
}
# Versions before 3.3 do not start on a virtual machine that does not tell its network's speed.
SETTINGS: Final = {"loadBalancerOverrideBrokerNicSpeedGbps": "1"}
_chosen = PULSAR_VERSION


def add_option(parser: pytest.Parser) -> None:
    """Add the option."""
    told = f"the Pulsar that tests start, instead of {PULSAR_VERSION}: {', '.join(DIGESTS)}"
    parser.addoption("--pulsar-version", default=PULSAR_VERSION, help=told)


def configure(config: pytest.Config, *, given: bool) -> None:
    """Take the option over; `given`: tests use a Pulsar that runs already."""
    global _chosen
    _chosen = config.getoption("--pulsar-version")
    if _chosen == PULSAR_VERSION:
        return
    if given:
        raise pytest.UsageError("--pulsar-version starts a Pulsar: unset BRIDGE_TEST_PULSAR")
    if _chosen not in DIGESTS:
        raise pytest.UsageError(f"Pulsar {_chosen} is not in {__name__}, which says how to add it")


def chosen_settings() -> dict[str, str]:
    """What it needs in its configuration to start here."""
    return {} if _chosen == PULSAR_VERSION else SETTINGS


def chosen_jars() -> list[Path]:
    """Its class path, fetched at the first use."""
    if _chosen == PULSAR_VERSION:
        return ensure_pulsar_jars(print)
    directory = fetched(_chosen)
    found = digest(directory)
    assert found == DIGESTS[_chosen], f"{directory} has digest {found}: remove it, and use another Maven mirror"
    return sorted(directory.iterdir())


def fetched(version: str) -> Path:
    """The directory with a version's jars, fetched unless they are there."""
    target = cache_directory() / f"pulsar-{version}-resolved"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        jars = Path(work, "jars")
        MavenFetch(print, f"Apache Pulsar {version}", "250 MB").run(
            [f"org.apache.pulsar:pulsar-broker:{version}"], jars, transitive=True,
            versions_of=f"org.apache.pulsar:pulsar:{version}",
        )  # fmt: skip
        # the directory appears whole or not at all; the second process keeps the first one's
        if not target.is_dir():
            shutil.move(jars, target)
    return target


def digest(directory: Path) -> str:
    """The sha256 of lines `sha256 name`, sorted by name, of all files."""
    lines = hashlib.sha256()
    for path in sorted(directory.iterdir()):
        with path.open("rb") as file:
            lines.update(f"{hashlib.file_digest(file, 'sha256').hexdigest()} {path.name}\n".encode())
    return lines.hexdigest()


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        print(f'    "{asked}": "{digest(fetched(asked))}",')
