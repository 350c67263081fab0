"""Our program with franz-go, built by the Go that is here; Go itself fetches the modules that go.sum names."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.driver import Driver
from tests.support.java import require

SOURCES = Path(__file__).parent / "go"
BUILD_TIMEOUT = 900.0
"""The first build compiles Go's own library, too; later ones find it in Go's cache."""


def go_driver(work: Path) -> Driver:
    """Build it, and start it."""
    go = require("go", "Go 1.23 or newer, or leave out --go")
    program = work / "login"
    command = [go, "build", "-mod=readonly", "-o", str(program), "."]
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, timeout=BUILD_TIMEOUT)
    assert done.returncode == 0, f"go build failed:\n{done.stderr[-2000:]}"
    return Driver([str(program)], work / "go.log")
