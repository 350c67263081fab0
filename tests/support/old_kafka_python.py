"""kafka-python 2.x in a directory of its own, beside the 3.x of the environment: installed by its lock, once."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bridge.standalone.maven import cache_directory
from tests.support.driver import Driver

ROOT = Path(__file__).parent.parent.parent
LOCK = ROOT / "requirements" / "kafka-python-2.lock"


def old_kafka_python() -> Path:
    """Return the directory to put first on the path; made again when the lock changes."""
    version = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    target = cache_directory() / f"kafka-python-2-{version}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        installed = Path(work) / "installed"
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps"]
        command += ["--require-hashes", "--only-binary", ":all:", "-r", str(LOCK), "--target", str(installed)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"pip could not install {LOCK.name}:\n{done.stderr[-2000:]}"
        # the directory appears whole or not at all; the second process keeps the first one's
        if not target.is_dir():
            installed.rename(target)
    return target


def old_kafka_python_driver(bootstrap: str, log: Path) -> Driver:
    """Start the driver in a process in which `kafka` is 2.x."""
    environment = {**os.environ, "PYTHONPATH": f"{old_kafka_python()}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.clients.families.python_driver", bootstrap]
    return Driver(command, log, environment)
