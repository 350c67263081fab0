"""The Pythons of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

NEWEST = 15
"""No Python is looked for from this minor version on."""


def pythons() -> dict[str, str]:
    """The Pythons of this machine that the bridge is for: paths by their versions."""
    given = os.environ.get("BRIDGE_TEST_PYTHONS")
    names = given.split(os.pathsep) if given else [f"python3.{minor}" for minor in range(11, NEWEST)]
    pyenv = Path.home() / ".pyenv" / "versions"
    found = [*filter(None, map(shutil.which, names)), *([] if given else map(str, pyenv.glob("3.1[1-9]*/bin/python")))]
    versions: dict[str, str] = {}
    for path in found:
        # a shim of pyenv's is there for Pythons that are not in use, too, and fails
        asked = subprocess.run([path, "-V"], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            versions.setdefault(".".join(asked.stdout.split()[1].split(".")[:2]), path)
    return versions
