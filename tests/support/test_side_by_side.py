"""Several processes of pytest: what stays together, in which order, and who has the machine alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.side_by_side import Room, rank, unit_of

WAIT = 30.0


def test_folders_that_share_servers_stay_together_and_others_go_by_file() -> None:
    assert unit_of("tests/pipeline/jobs/test_copy.py::test_x[a::b]") == "tests/pipeline/"
    assert unit_of("tests/faults/test_stops.py::test_x") == "tests/faults/"
    assert unit_of("tests/clients/test_records.py::test_x") == "tests/clients/test_records.py"


def test_what_takes_longest_goes_first() -> None:
    files = ("hostile/t", "pipeline/t", "faults/t", "standalone/test_command", "clients/t", "apis/t")
    nodes = [f"tests/{name}.py::test_x" for name in files]
    assert sorted(reversed(nodes), key=rank) == nodes


class Visitor:
    """Enters a room from a thread of its own, as another process would."""

    def __init__(self, directory: Path, *, alone: bool) -> None:
        self._room, self._alone = Room(directory), alone
        self.entered, self._may_leave = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._visit)
        self._thread.start()

    def _visit(self) -> None:
        self._room.enter(alone=self._alone)
        self.entered.set()
        self._may_leave.wait(WAIT)
        self._room.leave()

    def leave(self) -> None:
        self._may_leave.set()
        self._thread.join(WAIT)
        self._room.close()


@contextmanager
def visiting(directory: Path, *, alone: bool) -> Iterator[Visitor]:
    visitor = Visitor(directory, alone=alone)
    try:
        yield visitor
    finally:
        visitor.leave()


def test_many_are_there_at_once(tmp_path: Path) -> None:
    with visiting(tmp_path, alone=False) as one, visiting(tmp_path, alone=False) as another:
        assert one.entered.wait(WAIT)
        assert another.entered.wait(WAIT)


def test_who_is_alone_waits_for_others_and_keeps_them_out(tmp_path: Path) -> None:
    with visiting(tmp_path, alone=False) as early:
        assert early.entered.wait(WAIT)
        with visiting(tmp_path, alone=True) as alone:
            assert not alone.entered.is_set()
            early.leave()
            assert alone.entered.wait(WAIT)
            with visiting(tmp_path, alone=False) as late:
                assert not late.entered.is_set()
                alone.leave()
                assert late.entered.wait(WAIT)
