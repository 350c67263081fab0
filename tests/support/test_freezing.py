from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.freezing import freeze, frozen, running_threads, thaw

_MANY_THREADS = """
import threading
for _ in range(20):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("up", flush=True)
threading.Event().wait()
"""


@pytest.fixture
def pid() -> Iterator[int]:
    """A process of 21 threads."""
    with subprocess.Popen([sys.executable, "-c", _MANY_THREADS], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            yield process.pid
        finally:
            process.kill()


def test_all_threads_have_stopped_when_it_returns(pid: int) -> None:
    assert len(running_threads(pid)) == 21
    with frozen(pid):
        assert running_threads(pid) == []
    assert len(running_threads(pid)) == 21


def test_it_waits_for_the_thread_that_stops_the_others(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the first thread got no processor: the signal is on its way, and the process goes on."""
    looks: list[int] = []
    send = os.kill

    def late(number: int, wanted: int) -> None:
        if wanted != signal.SIGSTOP:
            send(number, wanted)

    def look(number: int) -> list[int]:
        looks.append(number)
        if len(looks) == 3:
            send(pid, signal.SIGSTOP)
        return running_threads(number)

    monkeypatch.setattr("tests.support.freezing.os.kill", late)
    monkeypatch.setattr("tests.support.freezing.running_threads", look)
    freeze(pid)
    assert len(looks) >= 3
    assert running_threads(pid) == []
    thaw(pid)
