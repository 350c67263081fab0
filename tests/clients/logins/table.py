"""The table of log-ins, in docs/security.md: what each client said and how soon, on the bridge and on a real Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.logins.ways import MECHANISMS, RIGHT, WRONG
from tests.support.pages import put_between

CELL = Callable[[str, object], None]
"""pytest's `record_property`."""
BEGIN, END = "<!-- logins: begin, written by `make test-clients` -->", "<!-- logins: end -->"
_Cell = tuple[str, str, str, bool, str, float]
"""Client, mechanism, case, whether it is the bridge, the error, seconds."""


class Table:
    """Collects cells while pytest runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cells: dict[tuple[str, str, str, bool], tuple[str, float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the cell of a test that passed."""
        if report.when != "call" or not report.passed:
            return
        for name, value in report.user_properties:
            if name == "login":
                self.add(value)

    def add(self, cell: Any) -> None:
        """Take one."""
        client, mechanism, case, by_bridge, error, seconds = cell
        self._cells[client, mechanism, case, by_bridge] = (error, seconds)

    def pytest_sessionfinish(self) -> None:
        """Write it."""
        put_between(self._path, BEGIN, END, self.text())

    def text(self) -> str:
        """Markdown: a row for each case, a column for each client; then how each client says so."""
        clients = list(dict.fromkeys(client for client, _, _, _ in self._cells))
        rows = [["mechanism", "credentials", *clients], ["---"] * 2 + ["---:"] * len(clients)]
        for mechanism in MECHANISMS:
            for case in (RIGHT, *WRONG[mechanism]):
                rows.append([mechanism, case, *(self._seconds(client, mechanism, case) for client in clients)])
        names = [["client", "wrong password, unknown user", "wrong token", "wrong certificate"], ["---"] * 4]
        for client in clients:
            kinds = (MECHANISMS[:3], MECHANISMS[3:4], MECHANISMS[4:])
            names.append([client, *(self._errors(client, kind) for kind in kinds)])
        return "\n".join(map(_row, rows)) + "\n\n" + "\n".join(map(_row, names)) + "\n"

    def _seconds(self, client: str, mechanism: str, case: str) -> str:
        shown = []
        for by_bridge in (True, False):
            error, seconds = self._cells.get((client, mechanism, case, by_bridge), ("", None))
            if seconds is None:
                shown.append("–")
            else:
                shown.append(_outcome(case, error, seconds))
        return "" if shown == ["–", "–"] else " / ".join(shown)

    def _errors(self, client: str, mechanisms: Iterable[str]) -> str:
        """What it says to the bridge; and to Kafka, where that is something else."""
        both = []
        for by_bridge in (True, False):
            said = {
                error: None
                for (who, mechanism, case, where), (error, _) in self._cells.items()
                if who == client and mechanism in mechanisms and case != RIGHT and where == by_bridge
            }
            both.append(", ".join(f"`{error}`" for error in said))
        return both[0] if both[1] in ("", both[0]) else f"{both[0]}; from Kafka {both[1]}"


def _outcome(case: str, error: str, seconds: float) -> str:
    if error == "TimeoutError":  # the test's own
        return "never"
    return "refused" if error and case == RIGHT else f"{seconds:.1f}"


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"
