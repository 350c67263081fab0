"""Find Java, or say in one line how to install it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bridge.errors import StartupError

OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

_INSTALL_JAVA = {
    "linux": "install it with `sudo apt-get install openjdk-17-jre-headless` or your system's like",
    "darwin": "install it with `brew install openjdk@17` and set JAVA_HOME as brew says",
}


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """The java of JAVA_HOME, else of PATH, when it is new enough."""
    home = environ.get("JAVA_HOME", "")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH"))
    how = _hint(_INSTALL_JAVA)
    if not found or not os.access(found, os.X_OK):
        where = f"JAVA_HOME={home} has no bin/java" if home else "there is no `java` on the PATH"
        raise StartupError(f"Java {OLDEST_JAVA} or newer is needed and {where}: {how}")
    version = _java_version(found)
    if version is None:
        raise StartupError(f"Java {OLDEST_JAVA} or newer is needed and {found} does not run: {how}")
    if version < OLDEST_JAVA:
        raise StartupError(f"Java {OLDEST_JAVA} or newer is needed and {found} is Java {version}: {how}")
    return Path(found)


def _java_version(java: str) -> int | None:
    try:
        # `-version` goes to standard error; macOS ships a stub that only prints advice and fails.
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stderr + done.stdout)
    return int(match.group(1)) if done.returncode == 0 and match else None


def _hint(by_system: Mapping[str, str]) -> str:
    return by_system.get(sys.platform, by_system["linux"])
