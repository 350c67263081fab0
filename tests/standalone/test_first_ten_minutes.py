"""The commands of docs/first-ten-minutes.md, in one shell, on a `bridge standalone` with ports of its own."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from bridge.standalone.ports import any_free
from tests.standalone.running import FREE_PORTS, standalone, started
from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "first-ten-minutes.md"
_NUMBERS = re.compile(r"\d+")
_SHOWS_THE_GROUP = """until "$PYTHON" -c '
import sys, urllib.request
page = urllib.request.urlopen("http://127.0.0.1:7093/api/state?view=groups").read()
sys.exit(b"readers" not in page)'; do sleep 0.1; done"""
"""The first node leads it, and the second one's page has it."""


def told(text: str) -> list[str]:
    """Its lines, without what each run has of its own: views' versions, ports, and the space that they take."""
    return [" ".join(_NUMBERS.sub("N", line).split()) for line in text.splitlines()]


@pytest.mark.usefixtures("quick_pulsar")
def test_the_first_ten_minutes_are_as_the_page_has_them(tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    (settings,) = re.findall(r"^```toml\n(.+?)^```$", page, re.DOTALL | re.MULTILINE)
    walk = "".join(re.findall(r"^```console\n(.+?)^```$", page, re.DOTALL | re.MULTILINE))
    assert len(re.findall(r"^\$ ", walk, re.MULTILINE)) > 10
    with standalone(tmp_path, "--ephemeral", "--no-demo", *FREE_PORTS) as run:
        ready = started(run)
        ports = {
            "9092": ready["kafka"].rpartition(":")[2],
            "6650": ready["pulsar"].rpartition(":")[2],
            "8080": ready["pulsar_http"].rpartition(":")[2],
            "9093": str(any_free()), "9095": str(any_free()), "7093": str(any_free()),
        }  # fmt: skip

        def here(text: str) -> str:
            return re.sub(r"(?<=:)\d{4}\b", lambda found: ports[found[0]], text)

        (tmp_path / "second.toml").write_text(here(settings), "utf-8")
        lines = []
        for command in re.findall(r"^\$ (.+)$", walk, re.MULTILINE):
            if command.startswith("kill"):
                lines.append(here(_SHOWS_THE_GROUP))
            lines += [f"echo {shlex.quote(f'$ {command}')}", here(command)]
        bridge = tmp_path / "bridge"
        bridge.write_text(f'#!/bin/sh\nexec {sys.executable} -m bridge "$@"\n', "utf-8")
        bridge.chmod(0o755)
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        given = {**os.environ, "PATH": path, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            ["bash", "-c", "\n".join(lines)], cwd=tmp_path, env=given, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as bash:  # fmt: skip
            try:
                said, _ = bash.communicate(timeout=200)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(bash.pid, signal.SIGKILL)  # the second node, where the walk ended early
    assert [line for line in told(said) if not line.startswith("bash: ")] == told(walk)  # it tells what was killed
