"""The table of clients and what each was seen to do, on bridge and on a real Kafka: `--matrix FILE` puts it there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.pages import put_between

AREAS = {
    "test_records": "all fields, every codec",
    "test_topics": "topics",
    "test_offsets": "seek",
    "test_groups": "groups",
    "test_rebalance": "groups",
    "test_consumer_groups": "new groups (KIP-848)",
    "test_group_admin": "group admin",
    "test_administration": "configs, partitions, delete records",
    "test_transactions": "transactions",
}
WHOLE = {
    "test_console_tools": "Java console tools",
    "test_admin_tools": "Java admin tools",
    "test_connect": "Kafka Connect",
    "test_connect_exactly_once": "Kafka Connect",
    "test_flink": "Flink's Kafka sink",
    "test_streams": "Kafka Streams",
    "test_old_clients": "clients of Kafka 0.8.2 to 0.10.1",
    "test_spark_contract": "Spark's Kafka connector",
    "test_refusals": "bad requests, sent raw",
    "test_transaction_states": "bad requests, sent raw",
}
"""Tests that are of one client as a whole; they are counted in the column of their own."""
OWN = "its own tests"
_ENDPOINTS = {"real_kafka": "control", "at_kafka": "control"}
_BEGIN, _END = "<!-- clients: begin, written by `make test-clients` -->", "<!-- clients: end -->"
_TIMES = """
From the moment a second member starts until both hold their partitions; medians over 25 times, the member coming at any
time between two heartbeats (200 ms) of the first.

"""
Cell = tuple[str, str, str]


@dataclass
class Matrix:
    """Counts passed and failed tests by client, area and endpoint."""

    cells: dict[str, Cell] = field(default_factory=dict)
    passed: Counter[Cell] = field(default_factory=Counter)
    failed: Counter[Cell] = field(default_factory=Counter)
    rebalances: dict[str, dict[str, float]] = field(default_factory=dict)
    """By client and endpoint: the median in seconds."""

    def collect(self, item: pytest.Item) -> None:
        """Take note of where a test belongs."""
        module = item.nodeid.partition("::")[0].rpartition("/")[2].removesuffix(".py")
        callspec = getattr(item, "callspec", None)
        params = {} if callspec is None else callspec.params
        family = params.get("reader") or params.get("family")
        endpoint = _ENDPOINTS.get(str(params.get("endpoint")), "bridge")
        if module in WHOLE:
            self.cells[item.nodeid] = (WHOLE[module], OWN, endpoint)
        elif module in AREAS and (family or params.get("writer")):
            self.cells[item.nodeid] = (str(family or params["writer"]), AREAS[module], endpoint)

    def take(self, report: pytest.TestReport) -> None:
        """Count a test that has ended."""
        cell = self.cells.get(report.nodeid)
        if cell is None:
            return
        if report.failed:
            self.failed[cell] += 1
        elif report.when == "call" and report.passed:
            self.passed[cell] += 1
            for name, value in report.user_properties:
                if name == "rebalance" and isinstance(value, tuple):
                    client, endpoint, seconds = value
                    self.rebalances.setdefault(client, {})[endpoint] = seconds

    def table(self) -> str:
        """Markdown: a row for each client, `passed on bridge / passed on Kafka`, failures beside them."""
        cells = set(self.passed) | set(self.failed)
        areas = [area for area in dict.fromkeys([*AREAS.values(), OWN]) if any(cell[1] == area for cell in cells)]
        rows = [["client", *areas], ["---"] * (len(areas) + 1)]
        for client in sorted({cell[0] for cell in cells}, key=str.lower):
            rows.append([client, *(self._cell(client, area) for area in areas)])
        return "\n".join(_row(row) for row in rows) + "\n"

    def times(self) -> str:
        """Markdown: the rebalances that were timed."""
        rows = [["client", "bridge, ms", "Kafka, ms", "bridge / Kafka"], ["---", "---:", "---:", "---:"]]
        for client, medians in sorted(self.rebalances.items()):
            bridge, kafka = medians.get("bridge"), medians.get("control")
            if bridge and kafka:
                rows.append([client, f"{bridge * 1000:.0f}", f"{kafka * 1000:.0f}", f"{bridge / kafka:.2f}"])
        return "\n".join(_row(row) for row in rows) + "\n"

    def _cell(self, client: str, area: str) -> str:
        shown = [self._count((client, area, endpoint)) for endpoint in ("bridge", "control")]
        return "" if not any(shown) else " / ".join(one or "–" for one in shown)

    def _count(self, cell: Cell) -> str:
        if not self.passed[cell] and not self.failed[cell]:
            return ""
        failed = f" ({self.failed[cell]} failed)" if self.failed[cell] else ""
        return f"{self.passed[cell]}{failed}"


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


class Plugin:
    """Counts while pytest runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._matrix = Matrix()

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Take note of every test."""
        self._matrix.collect(item)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count it."""
        self._matrix.take(report)

    def pytest_sessionfinish(self) -> None:
        """Write the tables."""
        put_between(self._path, _BEGIN, _END, self._matrix.table() + _TIMES + self._matrix.times())
