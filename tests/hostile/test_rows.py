"""Each row of docs/hostile.md is shown: its scene ends as required, its tests exist, and the page has it."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridge.node.orphans import Guard
from bridge.standalone.bridge_process import BridgeProcess
from tests.faults.processes import open_files, resident_bytes
from tests.faults.rows import FAULTS, Fault
from tests.hostile import page
from tests.hostile.grounds import Grounds, Result, Times
from tests.hostile.measure import Peak
from tests.hostile.rows import ROWS, Row
from tests.hostile.scene import Seen, Target
from tests.support.pages import between
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import until

TESTS = Path(__file__).parents[1]
SECONDS, MANY = 0.5, 200
DESCRIPTORS = 20


Bridge = tuple[BridgeProcess, Callable[[float, int], Target]]


@pytest.fixture(scope="module")
def bridge(pulsar: PulsarAddress, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    with Grounds(pulsar, tmp_path_factory.mktemp("grounds"), guard).bridge() as started:
        yield started


@pytest.mark.parametrize("row", page.measured(), ids=lambda row: f"{row.number} {row.sent}")
async def test_it_ends_as_required_and_leaves_nothing(bridge: Bridge, row: Row) -> None:
    assert row.scene is not None
    process, target = bridge
    memory, files = resident_bytes(process.pid), open_files(process.pid)
    with Peak(process.pid) as peak:
        seen = await asyncio.to_thread(row.scene, target(SECONDS, MANY))
    print(f"figures: {row.number} {seen.text}; {(peak.bytes - memory) / 2**20:+.1f} MiB")
    assert seen.as_required, seen.text
    assert peak.bytes - memory < row.memory
    await until(lambda: open_files(process.pid) <= files + DESCRIPTORS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number} {row.sent}")
def test_it_is_shown_by_something_that_exists(row: Row) -> None:
    assert row.scene is not None or row.tests
    assert [one for one in row.tests if not _exists(one)] == []


def _exists(test: str) -> bool:
    """`file` or `file::test`."""
    file, _, name = test.partition("::")
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return not name or name in names


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.number} {fault.fault}")
def test_a_fault_is_shown_by_tests_that_exist(fault: Fault) -> None:
    assert [one for one in fault.tests if not _exists(one)] == []


def test_the_page_has_these_rows() -> None:
    assert between(page.PAGE, *page.OF_FAULTS) == page.faults(), "run `make hostile`"
    rows = [[row.number, row.sent, row.required] for row in page.measured()]
    assert page.rows_on_the_page() == rows, "run `make hostile`"
    assert between(page.PAGE, *page.TESTED) == page.tested(), "run `make hostile`"


@pytest.fixture
def result() -> Iterator[Result]:
    usual = {"asks": Times(0.001, 0.002, 0.003)}
    yield Result(ROWS[0], Seen("all closed", True), 0, 0, 0, usual, usual, usual, [])


def test_what_is_as_required_misses_nothing(result: Result) -> None:
    assert result.missed == []


def test_what_is_not_as_required_is_told(result: Result) -> None:
    slow = {"asks": Times(0.001, 0.0041, 0.1)}
    worse = result._replace(seen=Seen("", False), grown=ROWS[0].memory + 1, during=slow, errors=["refused"])
    assert worse.missed == ["outcome", "memory", "p99 asks", "errors"]
