"""Completion in real shells, of both commands: what shtab makes of their parsers."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.programs import require

SECONDS = 20.0
MODULES = {"bridge": "bridge", "bridge-pipeline": "bridge.pipeline"}
CASES = [
    ("bridge", "sta", {"standalone"}),
    ("bridge", "group re", {"reset"}),
    ("bridge", "user ", {"list", "add", "remove"}),
    ("bridge", "check --j", {"--json"}),
    ("bridge", "import kop --dry", {"--dry-run"}),
    ("bridge", "user add --mechanism SCRAM-SHA-5", {"SCRAM-SHA-512"}),
    ("bridge", "run --config br", {"bridge.toml"}),
    ("bridge-pipeline", "ver", {"verify"}),
    ("bridge-pipeline", "archive --comp", {"--compression"}),
    ("bridge-pipeline", "verify --archive br", {"bridge.toml"}),
]


@pytest.mark.parametrize(("command", "typed", "expected"), CASES)
def test_bash(command: str, typed: str, expected: set[str], tmp_path: Path) -> None:
    words = [command, *typed.split(" ")]
    (tmp_path / "bridge.toml").touch()
    program = (
        f". {shlex.quote(str(script(command, 'bash', tmp_path)))}\n"
        f"COMP_WORDS=({shlex.join(words)}) COMP_CWORD={len(words) - 1}\n"
        f'complete -p {command} | grep -q -- "-F _shtab_{command.replace("-", "_")}" || exit 3\n'
        f"_shtab_{command.replace('-', '_')}\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    assert set(run("bash", ["--norc", "-c", program], tmp_path)) == expected


@pytest.mark.programs
@pytest.mark.parametrize(("command", "typed", "expected"), CASES)
def test_fish(command: str, typed: str, expected: set[str], tmp_path: Path) -> None:
    (tmp_path / "bridge.toml").touch()
    program = (
        f"source {shlex.quote(str(script(command, 'fish', tmp_path)))}; complete -C {shlex.quote(f'{command} {typed}')}"
    )
    said = run("fish", ["--no-config", "-c", program], tmp_path)
    assert expected <= {line.partition("\t")[0] for line in said}


@pytest.mark.programs
@pytest.mark.parametrize(("command", "typed", "expected"), [case for case in CASES if len(case[2]) == 1])
def test_zsh(command: str, typed: str, expected: set[str], tmp_path: Path) -> None:
    (tmp_path / "bridge.toml").touch()
    (expanded,) = expected
    line = " ".join([command, *typed.split(" ")[:-1], expanded])
    functions = tmp_path / "functions"
    functions.mkdir()
    script(command, "zsh", functions)
    with ZshOnTerminal(tmp_path) as zsh:
        # what is completed is run, and seen: the words that the command would be given
        zsh.run(f'function {command} {{ print -r -- "ran: {command} $*" }}')
        zsh.run(f"fpath=({functions} $fpath); autoload -U compinit && compinit -D -u")
        zsh.type(f"{command} {typed}\t\n")
        zsh.wait_for(f"ran: {line}")


def script(command: str, shell: str, directory: Path) -> Path:
    """A file of what the command prints, by the name that zsh asks for."""
    path = directory / f"_{command}"
    said = [sys.executable, "-m", MODULES[command], "completion", shell]
    path.write_bytes(subprocess.run(said, stdout=subprocess.PIPE, timeout=SECONDS, check=True).stdout)
    return path


def run(shell: str, arguments: list[str], directory: Path) -> list[str]:
    command = [shell, *arguments]
    environment = {**os.environ, "HOME": str(directory)}
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


class ZshOnTerminal:
    """zsh completes only for a person: on a terminal."""

    def __init__(self, directory: Path) -> None:
        ours, its = os.openpty()
        environment = {**os.environ, "HOME": str(directory), "TERM": "dumb", "PS1": ""}
        self._process = subprocess.Popen(
            [require("zsh"), "-f", "-i"],
            stdin=its, stdout=its, stderr=its, cwd=directory, env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(its)
        self._terminal = ours
        self._said = ""

    def __enter__(self) -> ZshOnTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(SECONDS)
        os.close(self._terminal)

    def run(self, line: str) -> None:
        self.type(f"{line}; print do''ne\n")
        self.wait_for("done")

    def type(self, text: str) -> None:
        self._said = ""
        os.write(self._terminal, text.encode())

    def wait_for(self, text: str) -> None:
        until = time.monotonic() + SECONDS
        while text not in self._said:
            readable, _, _ = select.select([self._terminal], [], [], max(0.0, until - time.monotonic()))
            assert readable, f"zsh said {self._said!r}"
            self._said += os.read(self._terminal, 4096).decode(errors="replace")
