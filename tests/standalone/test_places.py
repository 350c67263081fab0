"""Ports and data directories: what is asked for, what is taken, and whose it is."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.errors import StartupError
from bridge.standalone import ports
from bridge.standalone.datadir import DataDir
from bridge.standalone.ports import HOST, PortOption, any_free, choose, is_free
from bridge.standalone.tools import find_java


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server((HOST, 0)) as server:
        yield server.getsockname()[1]


def test_a_taken_default_gives_another_and_says_so(taken: int) -> None:
    port, note = choose(PortOption("--kafka-port", taken))
    assert port != taken
    assert note == f"kafka port is {port}: the default {taken} is taken"


def test_a_taken_wish_is_an_error(taken: int) -> None:
    with pytest.raises(StartupError, match=f"--kafka-port {taken}: the port is taken"):
        choose(PortOption("--kafka-port", 9092, taken))


def test_port_0_is_any_free_one() -> None:
    port, note = choose(PortOption("--http-port", 7092, 0))
    assert is_free(port)
    assert note == f"http port is {port}"


def test_one_port_is_not_given_twice() -> None:
    free = any_free()
    used: set[int] = set()
    assert choose(PortOption("--kafka-port", free), used) == (free, None)
    assert choose(PortOption("--http-port", free), used)[0] != free
    with pytest.raises(StartupError, match="taken"):
        choose(PortOption("--pulsar-port", 6650, free), used)


def test_what_is_not_open_yet_is_not_chosen_again() -> None:
    assert len({any_free() for _ in range(500)}) == 500


def test_no_connection_is_given_a_free_port_by_the_kernel(taken: int) -> None:
    given = []
    for _ in range(50):
        with socket.create_connection((HOST, taken)) as connection:
            given.append(connection.getsockname()[1])
    found = {any_free() for _ in range(50)}
    assert not [port for port in found if min(given) <= port <= max(given)], (found, given)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("32768\t60999\n", range(10_000, 32_768)),
        ("10240 30000", range(30_001, 65_536)),
        ("1024 65535", range(10_000, 65_536)),  # the kernel gives every port: then any
        (None, range(10_000, 49_152)),
    ],
)
def test_servers_have_the_ports_that_the_kernel_does_not_give(
    told: str | None, expected: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = tmp_path / "range"
    if told is not None:
        where.write_text(told)
    monkeypatch.setattr(ports, "_LOCAL_PORTS", where)
    assert ports.ports_for_servers() == expected


def test_a_data_directory_has_one_user(tmp_path: Path) -> None:
    with DataDir(tmp_path / "data", print), pytest.raises(StartupError, match=f"in use by process {os.getpid()}"):
        DataDir(tmp_path / "data", print)
    with DataDir(tmp_path / "data", print) as again:
        assert not again.ephemeral


def test_the_child_of_a_killed_run_keeps_the_lock_until_it_ends(tmp_path: Path) -> None:
    code = f"""
import os, subprocess
from pathlib import Path
from bridge.standalone.datadir import DataDir
data = DataDir(Path({str(tmp_path / "data")!r}), print)
child = subprocess.Popen(["sleep", "100"], pass_fds=[data.lock])
Path({str(tmp_path / "child")!r}).write_text(str(child.pid))
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL)
    said: list[str] = []

    def say(line: str) -> None:
        """It waits for the child, which ends now."""
        said.append(line)
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)

    with DataDir(tmp_path / "data", say):
        assert said == ["waiting for the Pulsar of an earlier, killed run to stop"]


def test_another_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(StartupError, match="holds files that are not ours"):
        DataDir(tmp_path, print)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartupError, match=r"cannot use the data directory .*file/data"):
        DataDir(tmp_path / "file" / "data", print)


def test_an_ephemeral_directory_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with DataDir(None, print) as data:
        assert data.path.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11"),
        ("echo 'java version \"1.8.0_392\"' >&2", "is Java 8"),
        ("exit 1", "does not run"),
    ],
)
def test_a_java_that_will_not_do_is_named(script: str, said: str, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    with pytest.raises(StartupError, match=f"Java 17 or newer is needed and {java} {said}: install it with"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_a_missing_java_is_said(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="there is no `java` on the PATH"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(StartupError, match=f"JAVA_HOME={tmp_path} has no bin/java"):
        find_java({"JAVA_HOME": str(tmp_path)})
