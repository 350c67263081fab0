"""The limit of open files, in a process of its own: what is lowered for good stays low."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from bridge.runtime.file_limit import allow
from bridge.telemetry import log
from bridge.config import Settings
log.configure(Settings().log)
soft, hard, wanted = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
allow(wanted)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "then", "is_told"),
    [(100, 500, 50, 100, False), (100, 500, 300, 300, False), (100, 500, 1000, 500, True), (500, 500, 500, 500, False)],
)
def test_as_many_as_are_wanted_are_allowed_where_the_system_lets(
    soft: int, hard: int, wanted: int, then: int, is_told: bool
) -> None:
    command = [sys.executable, "-c", PROGRAM, *map(str, (soft, hard, wanted))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{then} {hard}\n"
    told = f'limit={then} wanted={wanted} run="ulimit -n {wanted}, or LimitNOFILE={wanted} in the unit, or lower'
    assert (told in done.stderr) == is_told
