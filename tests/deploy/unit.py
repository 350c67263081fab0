"""The systemd unit as what it says, and what its names of groups of system calls stand for."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.support.programs import require
from tests.support.sources import ROOT

UNIT = ROOT / "config" / "systemd" / "bridge.service"
SECRETS = UNIT.with_name("bridge.service.d") / "secrets.conf"


def settings(path: Path = UNIT) -> dict[str, list[str]]:
    """Every value of every name, in order."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`systemd-analyze`, which needs no running systemd for what is asked here."""
    return subprocess.run([require("systemd-analyze"), *arguments], capture_output=True, text=True, check=False)


def system_calls(group: str) -> set[str]:
    """The names in a group such as `@system-service`, with those of the groups in it."""
    said = analyze("syscall-filter", "--no-pager", group)
    assert said.returncode == 0, said.stderr
    names = {line.strip() for line in said.stdout.splitlines()[1:] if line.strip() and not line.strip().startswith("#")}
    for inner in {name for name in names if name.startswith("@")}:
        names = names - {inner} | system_calls(inner)
    return names


def allowed_calls() -> set[str]:
    """What `SystemCallFilter` leaves: a line with ~ takes away."""
    allowed: set[str] = set()
    for line in settings()["SystemCallFilter"]:
        for name in line.removeprefix("~").split():
            calls = system_calls(name) if name.startswith("@") else {name}
            allowed = allowed - calls if line.startswith("~") else allowed | calls
    return allowed
