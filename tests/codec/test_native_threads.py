"""The native codec lets other threads run while it reads bytes that cannot change: a request's views are read-only."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bridge.codec import HEADER_SIZE, Rebuild, Record, Twin
from tests.codec.conftest import native

SIZE = 8 << 20


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
    """Whether this thread runs before the work of another has ended."""
    begun, over = threading.Event(), []

    def in_thread() -> None:
        begun.set()
        work()
        over.append(True)

    thread = threading.Thread(target=in_thread)
    thread.start()
    begun.wait()
    during = not over
    thread.join()
    return during


@pytest.mark.usefixtures("who_asks_for_the_gil_waits")
def test_others_run_while_a_read_only_view_is_read(twin: Twin, batch: bytes) -> None:
    view = memoryview(bytearray(batch)).toreadonly()
    assert others_run_during(lambda: twin.read_header(view))
    assert others_run_during(lambda: twin.encode_payload(view[HEADER_SIZE:], 1, 1))


@pytest.mark.usefixtures("who_asks_for_the_gil_waits")
def test_none_runs_while_what_may_change_is_read(twin: Twin, batch: bytes) -> None:
    view = memoryview(bytearray(batch))
    assert not others_run_during(lambda: twin.encode_payload(view[HEADER_SIZE:], 1, 1))
