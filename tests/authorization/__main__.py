"""`python -m tests.authorization`: ask a real Kafka for all cells and all tools, and keep what it says in files."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from bridge.node.orphans import Guard
from tests.authorization import cells, secure, servers, steps
from tests.support.java import KAFKA_VERSION


def ask(directory: Path, guard: Guard) -> None:
    """Write what each principal is told."""
    data: dict[str, Any] = {"kafka": KAFKA_VERSION}
    for mode, rights in cells.MODES.items():
        (directory / mode).mkdir()
        with (
            servers.real_kafka(directory / mode, guard, rights, permissive=mode == "permissive") as address,
            cells.matrix_of(address, rights) as matrix,
        ):
            data[mode] = {row.name: cells.kept(matrix.told(row)) for row in cells.ROWS}
    cells.write(cells.FILE, data)


def run_tools(directory: Path, guard: Guard) -> None:
    """Write what each tool says."""
    (directory / "tools").mkdir()
    with secure.real_kafka(directory / "tools", guard) as server:
        cells.write(steps.FILE, {step.name: server.run(step) for step in steps.STEPS})


def main() -> int:
    """Write both files, or one of them."""
    parts = {"cells": ask, "tools": run_tools}
    parser = argparse.ArgumentParser(prog="python -m tests.authorization", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*parts, []], help="what to ask for; both if not said")
    wanted = parser.parse_args().parts or [*parts]
    with tempfile.TemporaryDirectory() as work, Guard() as guard:
        for part in wanted:
            parts[part](Path(work), guard)
    return 0


if __name__ == "__main__":
    sys.exit(main())
