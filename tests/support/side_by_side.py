"""`make test` runs several processes of pytest: which tests stay together, and which have the machine alone.

A core would be idle otherwise: most tests with servers wait for them.
"""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

ALONE = "tests/hostile/test_costs.py"
"""Measures how long others wait."""
TOGETHER = ("tests/hostile/", "tests/pipeline/", "tests/faults/", "tests/pulsar_secured/", "tests/pulsar_cluster/")
"""Each shares servers that take long to start: one process runs all of it. First, for it is what takes longest."""
LONG = (
    "tests/standalone/test_command.py",
    "tests/clients/",
    "tests/migration/",
    "tests/relay/test_shared_address.py",
    "tests/http/status/test_page.py",
    "tests/node/workers/test_real_workers.py",
)
"""Files of half a minute and more: at the end, one process would wait for the other's."""
ROOM = "bridge_tests_room"
_DIRECTORY = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def rank(nodeid: str) -> int:
    """Where tests stand in the order: those that take longest go first, so that both processes end at one time."""
    first = (*TOGETHER, *LONG)
    return next((place for place, begin in enumerate(first) if nodeid.startswith(begin)), len(first))


def unit_of(nodeid: str) -> str:
    """What stays in one process: a folder of `TOGETHER`, else a file."""
    return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])


def scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Hand out the units in their order."""
    from xdist.scheduler import LoadScopeScheduling

    class Units(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    config.option.loadscopereorder = False
    return Units(config, log)


def shared_directory(config: pytest.Config) -> str:
    """A directory for the locks of one run; the process that starts the others removes it."""
    directory = config.stash.get(_DIRECTORY, None)
    if directory is None:
        directory = config.stash[_DIRECTORY] = tempfile.TemporaryDirectory(prefix="bridge-tests-")
        config.add_cleanup(directory.cleanup)
    return directory.name


class Room:
    """Where tests of several processes run: many at once, or one alone.

    The door is shut while a test waits to be alone: otherwise others would come in again and again.
    """

    def __init__(self, directory: Path) -> None:
        self._door, self._room = ((directory / name).open("w") for name in ("door", "room"))

    def enter(self, *, alone: bool) -> None:
        """Wait for a place."""
        how = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        fcntl.flock(self._door, how)
        fcntl.flock(self._room, how)
        if not alone:
            fcntl.flock(self._door, fcntl.LOCK_UN)

    def leave(self) -> None:
        """Give it back."""
        fcntl.flock(self._room, fcntl.LOCK_UN)
        fcntl.flock(self._door, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the locks' files."""
        self._door.close()
        self._room.close()


class Worker:
    """The part of a process beside another."""

    def __init__(self, directory: str) -> None:
        self._room = Room(Path(directory))
        self._is_alone = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put them in order, the same in both processes."""
        items.sort(key=lambda item: rank(item.nodeid))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[Any]:
        """Hold a place during the test, from before its time limit begins; tests alone hold one up to the last."""
        if not self._is_alone:
            self._is_alone = item.nodeid.startswith(ALONE)
            self._room.enter(alone=self._is_alone)
        try:
            return (yield)
        finally:
            self._is_alone = self._is_alone and nextitem is not None and nextitem.nodeid.startswith(ALONE)
            if not self._is_alone:
                self._room.leave()

    def pytest_unconfigure(self) -> None:
        """Leave nothing open."""
        self._room.close()
