"""Our programs with franz-go, built by the Go that is here; Go itself fetches the modules that go.sum names."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.programs import require

_BUILD_SECONDS = 900.0
"""The first build compiles Go's own library, too; later ones find it in Go's cache."""


def built(sources: Path, program: Path) -> Path:
    """Build a directory's program."""
    go = require("go", "Go 1.23 or newer, or leave out --go")
    command = [go, "build", "-mod=readonly", "-o", str(program), "."]
    done = subprocess.run(command, cwd=sources, capture_output=True, text=True, timeout=_BUILD_SECONDS)
    assert done.returncode == 0, f"go build failed:\n{done.stderr[-2000:]}"
    return program
