"""The native codec lets other threads run while it reads bytes that cannot change: a request's views are read-only."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bridge.codec import HEADER_SIZE, Rebuild, Record, Twin
from tests.codec.conftest import native

SIZE = 8 << 20
ROUNDS = 1000  # a thread that may run gets a processor within these, some 0.3 s of work


@pytest.fixture(scope="module")
def twin() -> Twin:
    return native()


@pytest.fixture(scope="module")
def batch(twin: Twin) -> bytes:
    return twin.build_batch([Record(0, 1, None, bytes(SIZE), [])], Rebuild(0, 1, 0))


@pytest.fixture
def who_asks_for_the_gil_waits() -> Iterator[None]:
    """No thread gives the GIL up because another one waits for it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(60)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def others_run_during(work: Callable[[], Any]) -> bool:
    """Whether this thread can run before the work of another has ended: that one works until it is told."""
    begun = threading.Event()
    told: list[bool] = []
    over: list[bool] = []

    def in_thread() -> None:
        begun.set()
        for _ in range(ROUNDS):
            work()
            if told:
                return
        over.append(True)

    thread = threading.Thread(target=in_thread)
    thread.start()
    begun.wait()
    told.append(True)
    thread.join()
    return not over


@pytest.mark.usefixtures("who_asks_for_the_gil_waits")
def test_others_run_while_a_read_only_view_is_read(twin: Twin, batch: bytes) -> None:
    view = memoryview(bytearray(batch)).toreadonly()
    assert others_run_during(lambda: twin.read_header(view))
    assert others_run_during(lambda: twin.encode_payload(view[HEADER_SIZE:], 1, 1))


@pytest.mark.usefixtures("who_asks_for_the_gil_waits")
def test_none_runs_while_what_may_change_is_read(twin: Twin, batch: bytes) -> None:
    view = memoryview(bytearray(batch))
    assert not others_run_during(lambda: twin.encode_payload(view[HEADER_SIZE:], 1, 1))
