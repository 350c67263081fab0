"""What tests run of this system's programs: `make test` begins with it, so that no test finds one missing.

`python -m tests.support.programs` installs what is missing by apt-get where it may without a password, and says in one
line what is missing where it may not.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from bridge.errors import StartupError
from bridge.standalone.tools import find_java

PACKAGES = dict(line.split() for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines())
"""Each with Debian's package of it. `make unit` needs none of them, and refuses to run them."""
_POLICY = Path("/usr/sbin/policy-rc.d")
_START_NO_SERVICE = "#!/bin/sh\nexit 101\n"


def require(program: str, how: str = "") -> str:
    """Return the path of a program, or fail with how to get it: a missing client is a failure, never a skip."""
    found = shutil.which(program)
    if found is None:
        raise AssertionError(f"{program} is not installed: {how or f'sudo apt-get install {PACKAGES[program]}'}")
    return found


def find_missing() -> list[str]:
    """The programs that are not here, in their order."""
    return [name for name in PACKAGES if not _is_here(name)]


def _is_here(name: str) -> bool:
    try:
        if ".so" in name:
            ctypes.CDLL(name)
        elif name == "java":
            find_java()
    except (OSError, StartupError):
        return False
    return ".so" in name or shutil.which(name) is not None


def root_command(user: int) -> list[str] | None:
    """What a command begins with that root runs; None where that would take a password."""
    if user == 0:
        return []
    sudo = ["sudo", "-n"]
    if shutil.which("sudo") and subprocess.run([*sudo, "true"], capture_output=True, check=False).returncode == 0:
        return sudo
    return None


def install(packages: Collection[str], as_root: Sequence[str], policy: Path = _POLICY) -> None:
    """Have apt-get install them, and start no service of them: dpkg asks `policy-rc.d` before it does."""
    apt = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-y", "-o", "DPkg::Lock::Timeout=300"]
    is_ours = not policy.exists()
    if is_ours:
        write = [*as_root, "install", "-m", "755", "/dev/stdin", str(policy)]
        subprocess.run(write, input=_START_NO_SERVICE.encode(), check=True)
    try:
        # what fails here is told by apt-get, and found missing afterwards
        subprocess.run([*apt, "update"], check=False)
        subprocess.run([*apt, "install", "--no-install-recommends", *packages], check=False)
    finally:
        if is_ours:
            subprocess.run([*as_root, "rm", "-f", policy], check=True)


def main() -> int:
    """0 where all are here in the end."""
    missing = find_missing()
    has_apt = shutil.which("apt-get") is not None
    as_root = root_command(os.geteuid()) if missing and has_apt else None
    if as_root is not None:
        print(f"make test: apt-get installs {', '.join(missing)}", flush=True)
        install(packages_of(missing), as_root)
        missing = find_missing()
    if not missing:
        return 0
    command = f"sudo apt-get install --no-install-recommends {' '.join(packages_of(missing))}"
    how = f"with `{command}`" if has_apt else "as your system does"
    print(f"make test: tests need {', '.join(missing)}: install what is missing {how}", file=sys.stderr)
    return 1


def packages_of(missing: Collection[str]) -> list[str]:
    """Debian's packages of these programs."""
    return sorted({PACKAGES[name] for name in missing})


if __name__ == "__main__":
    sys.exit(main())
