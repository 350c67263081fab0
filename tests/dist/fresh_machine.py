"""A Debian that has what README names and nothing else, in a directory: debootstrap makes it, which takes root.

It reaches PyPI and Maven Central as this machine does: what configures pip and Maven is copied, and whom they trust.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.deploy.images import DEBIAN, run
from tests.support.programs import require
from tests.support.sources import ROOT

NAMED = ("git", "make", "maven", "openjdk-17-jre-headless", "python3", "python3-venv")
"""What README names, as Debian calls it."""
USER = "plain"
SOURCES = "/home/sources"
_NETWORK = ("/etc/hosts", "/etc/resolv.conf")
_CLIENTS = (
    "/etc/maven/settings.xml", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/certs/java/cacerts",
    f"{Path.home()}/.config/pip/pip.conf", f"{Path.home()}/.m2/settings.xml",  # root's, who alone can make such a root
)  # fmt: skip
_VARIABLES = ("MAVEN_", "PIP_CERT", "PIP_INDEX", "SSL_CERT_FILE", "http_proxy", "https_proxy", "no_proxy")
_IN = """set -e
mount --bind "$1" "$1"; mount --rbind /dev "$1/dev"; mount -t proc proc "$1/proc"
ip link set lo up 2> /dev/null || true
exec chroot --userspec="$2" "$1" sh -ec "cd $3; $4"
"""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class FreshMachine:
    """Its files, and commands that run on it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        run(require("debootstrap", "sudo apt-get install debootstrap"), "--variant=minbase", DEBIAN, root)
        self._copy(_NETWORK)
        self.run("apt-get -qq update && apt-get -qq -y install --no-install-recommends " + " ".join(NAMED), at="/")
        self._copy(_CLIENTS)  # over what the packages brought
        self.run(f"useradd --create-home {USER}", at="/")
        run("git", "clone", "--quiet", "--no-hardlinks", ROOT, root / SOURCES.lstrip("/"))

    def _copy(self, names: Sequence[str]) -> None:
        for name in filter(os.path.isfile, names):
            there = self._root / name.lstrip("/")
            there.parent.mkdir(parents=True, exist_ok=True)
            there.unlink(missing_ok=True)
            shutil.copyfile(name, there)

    def run(self, line: str, *, online: bool = True, at: str = SOURCES) -> str:
        """What it printed; the test fails with it if the command does."""
        done = self.ended(line, online=online, at=at)
        assert done.returncode == 0, f"{line}\n{done.stdout[-6000:]}"
        return done.stdout

    def ended(
        self, line: str, *, user: str = "root", online: bool = True, at: str = SOURCES
    ) -> subprocess.CompletedProcess[str]:
        """A shell's line, however it ended; with no network but loopback unless `online`."""
        alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *([] if online else ["--net"])]
        command = [*alone, "bash", "-c", _IN, "fresh", str(self._root), user, at, line]
        home = "/root" if user == "root" else f"/home/{user}"
        given = {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)}
        environment = {**given, "DEBIAN_FRONTEND": "noninteractive", "HOME": home, "LANG": "C.UTF-8", "PATH": _PATH}
        return subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )

    def remove(self) -> None:
        """Leave nothing of some gigabytes."""
        shutil.rmtree(self._root)
