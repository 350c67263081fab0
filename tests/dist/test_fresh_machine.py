"""On a machine that has what README names, README's commands need nothing else: in `make soak`, as root.

The tests are in the order in which a person comes by: the last one installs what the others do without.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.dist.fresh_machine import SOURCES, USER, FreshMachine

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3000)]

SAMPLE = (
    "tests/clients/test_console_tools.py",
    "tests/clients/test_records.py",
    "tests/clients/test_streams.py",
    "tests/deploy/test_systemd.py",
    "tests/monitoring",
    "tests/pipeline/test_login.py",
    "tests/pulsar_cluster/test_proxy.py",
    "tests/http/status",
    "tests/cli/test_completion.py",
    "tests/telemetry/test_scrape.py",
)
"""Tests that run all of the programs, and take of all that is fetched."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshMachine]:
    made = FreshMachine(tmp_path_factory.mktemp("fresh") / "debian")
    yield made
    made.remove()


def passed(said: str) -> int:
    """How many tests did, by pytest's closing line; all that ran."""
    closing = said.rstrip().splitlines()[-1]
    found = re.search(r"(\d+) passed", closing)
    assert found and "failed" not in closing and "error" not in closing, said[-3000:]
    return int(found[1])


def test_unit_passes_without_a_network_once_set_up(machine: FreshMachine) -> None:
    machine.run("make setup")
    assert passed(machine.run("make unit", online=False)) > 8000


def test_who_may_not_install_reads_one_line_before_anything_runs(machine: FreshMachine) -> None:
    room = f"/home/{USER}/bridge"
    machine.run(f"git clone --quiet {SOURCES} {room} && chown -R {USER} {room}")
    done = machine.ended("make test", user=USER, at=room)
    assert done.returncode != 0
    venv, told, *make = done.stdout.splitlines()
    assert re.fullmatch(r"make test: tests need .*kcat.*zsh: install .* with `sudo apt-get install .* kcat .*`", told)
    assert venv.endswith("-m venv .venv")
    assert all(line.startswith("make: ***") for line in make)
    machine.run(f"test ! -e {room}/.venv/.dev; rm -rf {room}")


def test_test_installs_and_fetches_all_at_its_beginning(machine: FreshMachine) -> None:
    machine.run("make programs jars")
    assert passed(machine.run(f"make test ARGS='{' '.join(SAMPLE)}'", online=False)) > 100
