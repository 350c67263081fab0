"""The wheel on every Python that is here, with the packages that its users get: fetched, so only in `make soak`.

BRIDGE_TEST_PYTHONS names others than those found, by their paths, separated as in PATH.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.dist.installation import environment, run, source_distribution, wheel
from tests.dist.pythons import pythons
from tests.standalone.running import FREE_PORTS, standalone, started

PYTHONS = pythons()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(source_distribution(tmp_path_factory.mktemp("sdist")), tmp_path_factory.mktemp("wheel"))


@pytest.mark.soak
def test_the_source_distribution_builds_in_an_environment_of_its_own(tmp_path: Path) -> None:
    run("python3", "-m", "venv", tmp_path / "venv")
    run(tmp_path / "venv/bin/pip", "wheel", "--no-deps", "-w", tmp_path / "made", source_distribution(tmp_path))
    assert [path.name for path in (tmp_path / "made").glob("*-cp311-abi3-*.whl")]


@pytest.mark.soak
@pytest.mark.usefixtures("quick_pulsar")
@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_the_main_job_is_done_with_all_of_its_own_packages(version: str, built: Path, tmp_path: Path) -> None:
    venv, empty = tmp_path / "venv", tmp_path / "empty"
    empty.mkdir()
    run(PYTHONS[version], "-m", "venv", venv)
    run(venv / "bin" / "pip", "install", "--quiet", f"{built}[standalone,fast]")
    bridge = (str(venv / "bin" / "bridge"),)
    with standalone(tmp_path, "--ephemeral", *FREE_PORTS, bridge=bridge, cwd=empty, env=environment()) as running:
        started(running)
        assert re.search(r"read by kafka-python +1,000 +as sent +dense from 0", running.output()), running.output()
        assert re.search(r"read by pulsar-client +1,000 +as sent", running.output()), running.output()
