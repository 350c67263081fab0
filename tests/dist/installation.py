"""A package installed in a fresh virtual environment, as its users do it, away from the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.support.sources import ROOT

PACKAGES = ("bridge",)
SOURCES = (
    *PACKAGES, ".cargo", "config", "native", "CHANGELOG.md", "LICENSE", "MANIFEST.in", "NOTICE", "README.md",
    "pyproject.toml", "setup.cfg",
)  # fmt: skip
"""What a source distribution is made of."""
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """What a command printed; the test fails with it if the command does."""
    done = subprocess.run(
        command, cwd=cwd, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def environment() -> dict[str, str]:
    """This process's, without what would lead into the repository; an installation must have the native codec."""
    given = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONPROFILEIMPORTTIME")}
    return {**given, "BRIDGE_CODEC": "native", "CARGO_TARGET_DIR": str(ROOT / "native" / "target")}


def source_distribution(room: Path) -> Path:
    """Build it from a copy of the sources, for a build writes beside them."""
    copy = room / "sources"
    copy.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "target", "*.so")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy / name)
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", build, room, cwd=copy)
    (made,) = room.glob("*.tar.gz")
    return made


def wheel(source: Path, room: Path) -> Path:
    """Build the wheel of this machine from the source distribution."""
    assert shutil.which("cargo"), "cargo is needed to build the native codec: install Rust, for example with rustup"
    run(sys.executable, *PIP, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", room, source, cwd=room)
    (made,) = room.glob("*.whl")
    return made


def install_beside(package: Path, directory: Path) -> Path:
    """Install in a new environment that borrows this one's other packages; the path of its `bridge`."""
    run(sys.executable, "-m", "venv", "--without-pip", directory)
    run(sys.executable, *PIP, "--python", directory, "install", "--no-index", "--no-deps", package)
    (packages,) = directory.glob("lib/python3*/site-packages")
    # the lines of .pth files there are not read, so the repository itself is not borrowed
    (packages / "borrowed.pth").write_text(sysconfig.get_path("platlib") + "\n", encoding="utf-8")
    return directory / "bin" / "bridge"
