"""A signal ends a job at once, or behind what must not be left in the midst, or wakes it from its rest."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterator
from threading import Timer

import pytest

from bridge.pipeline.context import Context
from bridge.pipeline.progress import Progress
from bridge.pipeline.report import Report
from bridge.pipeline.session import SessionOptions


@pytest.fixture
def context() -> Iterator[Context]:
    before = [(each, signal.getsignal(each)) for each in (signal.SIGINT, signal.SIGTERM)]
    context = Context(SessionOptions(), Progress("quiet", io.StringIO()), Report(None, "copy"))
    context.catch_signals()
    yield context
    for signum, handler in before:
        signal.signal(signum, handler)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_interrupts(context: Context) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    with pytest.raises(KeyboardInterrupt):
        context.go_on()


def test_what_must_be_done_to_its_end_is(context: Context) -> None:
    done = []
    with context.to_its_end():
        with context.to_its_end():
            interrupt()
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]
    with pytest.raises(KeyboardInterrupt):
        context.go_on()


def test_the_second_signal_does_not_wait(context: Context) -> None:
    with context.to_its_end():
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_a_rest_ends_with_a_signal_and_the_next_one_counts_as_the_first(context: Context) -> None:
    with context.to_its_end():
        assert context.rest(0.001) is False
        timer = Timer(0.01, interrupt)
        timer.start()
        assert context.rest(600) is True
        timer.join()
        context.go_on()
        interrupt()
        assert context.rest(600) is True  # it came before
        interrupt()
    with pytest.raises(KeyboardInterrupt):
        context.go_on()
