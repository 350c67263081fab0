"""`--offline` lets loopback and scripts of the tests' own through, and nothing else; children are offline too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import offline

OUTSIDE = "192.0.2.1"  # a documentation address (RFC 5737)


@pytest.mark.parametrize(
    ("event", "arguments", "told"),
    [
        ("socket.connect", (None, ("127.0.0.1", 80)), None),
        ("socket.connect", (None, ("::1", 80, 0, 0)), None),
        ("socket.connect", (None, "/run/x.sock"), None),
        ("socket.connect", (None, (OUTSIDE, 80)), f"a connection to {OUTSIDE}"),
        ("socket.sendto", (None, (OUTSIDE, 53)), f"a connection to {OUTSIDE}"),
        ("socket.getaddrinfo", ("localhost", 80, 0, 0, 0), None),
        ("socket.getaddrinfo", (OUTSIDE, 80, 0, 0, 0), None),
        ("socket.getaddrinfo", (None, 80, 0, 0, 0), None),
        ("socket.getaddrinfo", ("nowhere.invalid", 80, 0, 0, 0), None),
        ("socket.getaddrinfo", (b"example.org", 80, 0, 0, 0), "a look-up of example.org"),
        ("socket.gethostbyname", ("example.org",), "a look-up of example.org"),
        ("open", ("/etc/hosts", "r", 0), None),
    ],
)
def test_what_is_refused(event: str, arguments: tuple[object, ...], told: str | None) -> None:
    if told is None:
        offline._hook(event, arguments)
        assert not offline.refused
        return
    with pytest.raises(offline.OfflineError, match=told):
        offline._hook(event, arguments)
    assert offline.refused == [told]
    offline.refused.clear()


def test_java_is_refused_and_a_script_in_its_place_is_not(tmp_path: Path) -> None:
    installed, written = Path("/usr/bin/env"), tmp_path / "java"
    written.write_text("#!/bin/sh\n")
    written.chmod(0o755)
    offline._hook("subprocess.Popen", (str(written), [str(written)], None, None))
    offline._hook("subprocess.Popen", ("java", ["java"], None, {"PATH": str(tmp_path)}))
    offline._hook("subprocess.Popen", (str(installed), [str(installed), "java"], None, None))
    assert not offline._is_real("java", {"PATH": "/nowhere"})
    assert offline._is_real("env", {"PATH": str(installed.parent)})


INI = """
[pytest]
asyncio_default_fixture_loop_scope = function
markers =
    kafka: x
    pulsar: x
"""
CHILD = f"""
import socket
try:
    socket.create_connection(("{OUTSIDE}", 9), timeout=0.01)
except OSError as error:
    print(error)
"""


def test_children_are_offline_too() -> None:
    environment = {**os.environ, "PYTHONPATH": str(offline._IN_CHILDREN)}
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == f"a connection to {OUTSIDE}: refused by --offline\n"


def test_a_test_that_goes_on_after_a_refusal_fails(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    pytester.makeconftest("from tests.conftest import *")
    pytester.makepyfile(
        f"""
        import contextlib, socket

        def test_outside():
            with contextlib.suppress(OSError):
                socket.create_connection(("{OUTSIDE}", 9), timeout=0.01)

        def test_loopback():
            with socket.create_server(("127.0.0.1", 0)) as server:
                socket.create_connection(server.getsockname()).close()
        """
    )
    pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\nmarkers =\n    kafka: x\n    pulsar: x\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(root))
    pytester.runpytest_subprocess("--offline", "-p", "no:cacheprovider").assert_outcomes(passed=2, errors=1)
