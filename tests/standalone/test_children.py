"""Children and their guard: stopped by their own pid, and never left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.errors import StartupError
from bridge.node.orphans import Guard
from bridge.standalone import probe
from bridge.standalone.child import Child, tail
from tests.support.foreign import gone, until

STUBBORN = ["/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"]


def test_the_guard_ends_the_children_of_a_killed_parent(tmp_path: Path) -> None:
    code = f"""
import sys
from bridge.node.orphans import Guard
guard = Guard(timeout=2)
with open({str(tmp_path / "out")!r}, "wb") as out:
    gentle = guard.popen(["sleep", "100"], output=out)
    stubborn = guard.popen({STUBBORN!r}, output=out)
print(gentle.pid, stubborn.pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        gentle, stubborn = map(int, parent.stdout.readline().split())
        assert not gone(gentle)
        parent.send_signal(signal.SIGKILL)
    assert until(lambda: gone(gentle))
    assert until(lambda: gone(stubborn))  # TERM is not enough: KILL follows


def test_a_guard_that_was_killed_is_replaced_and_guards_all_children(tmp_path: Path) -> None:
    guard = Guard(timeout=2)
    with (tmp_path / "out").open("wb") as out:
        children = [guard.popen(["sleep", "100"], output=out)]
        assert until(lambda: runs_sleep(children[0]))
        os.kill(guard.pid, signal.SIGKILL)
        os.waitid(os.P_PID, guard.pid, os.WEXITED | os.WNOWAIT)
        children.append(guard.popen(["sleep", "100"], output=out))
    assert until(lambda: runs_sleep(children[1]))
    guard.close()  # as when this process ends
    assert [child.wait() for child in children] == [-signal.SIGTERM] * 2


def runs_sleep(child: subprocess.Popen[bytes]) -> bool:
    return Path(f"/proc/{child.pid}/comm").read_text() == "sleep\n"


def test_the_guard_goes_when_it_is_let_go(tmp_path: Path) -> None:
    with Guard() as guard:
        child = Child("sleep", guard, tmp_path / "out")
        child.start(["sleep", "100"])
        child.kill()
        watcher = guard.pid
        assert not gone(watcher)
    assert gone(watcher)
    assert child.exit_description() == "was killed by SIGKILL"


def test_stop_is_gentle_first_and_sure_in_the_end(guard: Guard, tmp_path: Path) -> None:
    child = Child("sh", guard, tmp_path / "out")
    child.start(["sleep", "100"])
    assert child.stop(10)
    assert child.exit_description() == "was killed by SIGTERM"
    child.start(STUBBORN)
    assert until(lambda: child.last_lines() == "up")
    assert not child.stop(0.2)
    assert child.exit_description() == "was killed by SIGKILL"
    child.kill()  # once more does no harm


def test_output_of_the_run_before_is_kept(guard: Guard, tmp_path: Path) -> None:
    child = Child("sh", guard, tmp_path / "out")
    for word in ("first", "second"):
        child.start(["/bin/sh", "-c", f"echo {word}; exit 3"])
        assert child.wait(10)
        assert child.exit_description() == "exited with 3"
        child.kill()
    assert (tmp_path / "out").read_text() == "second\n"
    assert (tmp_path / "out.1").read_text() == "first\n"


def test_waiting_ends_when_the_child_dies(guard: Guard, tmp_path: Path) -> None:
    child = Child("the child", guard, tmp_path / "out")
    child.start(["/bin/sh", "-c", "exit 7"])
    with pytest.raises(StartupError, match="the child exited with 7 while starting"):
        probe.wait_until_ready(child, lambda: "not yet", 30)
    child.kill()


def test_waiting_ends_when_the_time_is_up(guard: Guard, tmp_path: Path) -> None:
    child = Child("the child", guard, tmp_path / "out")
    child.start(["sleep", "100"])
    with pytest.raises(StartupError, match="the child is not ready after 0 s: still thinking"):
        probe.wait_until_ready(child, lambda: "still thinking", 0.1)
    child.kill()


def test_the_tail_of_a_missing_file_is_empty(tmp_path: Path) -> None:
    assert tail(tmp_path / "none", 5) == ""


def test_a_line_that_is_very_long_is_cut(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f"first\n{'x' * 20_000}\nlast\n")
    assert tail(tmp_path / "log", 3) == f"first\n{'x' * 400}...\nlast"
