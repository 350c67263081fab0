"""Images without Docker: buildah follows the Dockerfile, on bases that debootstrap makes of Debian's packages.

No registry of images is asked. The bases have the names of those that the Dockerfile begins with, so it runs as it is:
Debian with this machine's Rust, and Debian with a Python of this machine. Root is needed, and some gigabytes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.dist.pythons import pythons
from tests.support.image_digests import images, unpinned
from tests.support.programs import require
from tests.support.sources import ROOT

DEBIAN = "bookworm"
AUTHORITIES = "/etc/ssl/of-this-machine.crt"
"""Whom this machine trusts, for what a build fetches; not in the place of Debian's own, which a build may install."""
PACKAGES = {
    "python": "libssl3 libffi8 libsqlite3-0 zlib1g libbz2-1.0 liblzma5 libreadline8 libncursesw6 libuuid1",
    "rust": "gcc libc6-dev",
}
TOOLCHAIN = "/usr/local/toolchain"
PATH = f"{TOOLCHAIN}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CONFINED = """set -e
mount --bind "$1" "$1"; mount --rbind /dev "$1/dev"; mount -t proc proc "$1/proc"
mount -o remount,bind,ro "$1"
exec chroot "$1" setpriv --reuid "$2" --regid "$3" --clear-groups --bounding-set=-all --no-new-privs "${@:4}"
"""
"""As with `--read-only --cap-drop ALL --security-opt no-new-privileges --network host`."""


def run(*command: str | Path) -> str:
    """What a command printed; the test fails with it if the command does."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}"
    return done.stdout


class Images:
    """A storage of images in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        storage = ("--root", directory / "storage", "--runroot", directory / "run", "--storage-driver", "vfs")
        self._buildah = (require("buildah", "sudo apt-get install buildah"), *storage)

    def make_bases(self) -> None:
        """Make the images that the Dockerfile begins with."""
        debian = self._directory / "debian"
        run(require("debootstrap", "sudo apt-get install debootstrap"), "--variant=minbase", DEBIAN, debian)
        (debian / "etc/ssl").mkdir(parents=True, exist_ok=True)
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", debian / AUTHORITIES.lstrip("/"))
        shutil.copy("/etc/resolv.conf", debian / "etc/resolv.conf")
        for name in sorted(images((ROOT / "Dockerfile").read_text("utf-8"))):
            kind, version = re.findall(r"^(\w+):(\d+\.\d+)", name)[0]
            root = self._directory / kind
            run("cp", "-a", debian, root)
            run("chroot", root, "apt-get", "-qq", "update")
            run("chroot", root, "apt-get", "-qq", "install", "-y", "--no-install-recommends", *PACKAGES[kind].split())
            _copy_rust(root) if kind == "rust" else _copy_python(root, version)
            self._commit(root, f"docker.io/library/{name}")

    def _commit(self, root: Path, name: str) -> None:
        container = run(*self._buildah, "from", "scratch").strip()
        run(*self._buildah, "add", "--quiet", container, root, "/")
        for variable in (f"PATH={PATH}", f"PIP_CERT={AUTHORITIES}", f"CARGO_HTTP_CAINFO={AUTHORITIES}"):
            run(*self._buildah, "config", "--env", variable, container)
        run(*self._buildah, "commit", "--quiet", container, name)
        run(*self._buildah, "rm", container)
        shutil.rmtree(root)

    def remove(self) -> None:
        """Leave nothing of some gigabytes."""
        shutil.rmtree(self._directory)

    def build(self, context: Path) -> Image:
        """Follow the Dockerfile."""
        tag, file = "pulsar-kafka-bridge", self._directory / "Dockerfile"
        file.write_text(unpinned((context / "Dockerfile").read_text("utf-8")), "utf-8")  # our bases have other digests
        options = ("--isolation", "chroot", "--pull-never", "--format", "docker", "--file", file, "--tag", tag)
        run(*self._buildah, "bud", *options, context)
        container = run(*self._buildah, "from", "--pull-never", tag).strip()
        config = json.loads(run(*self._buildah, "inspect", "--type", "image", tag))["Docker"]["config"]
        return Image(Path(run(*self._buildah, "mount", container).strip()), config)


def _copy_rust(root: Path) -> None:
    toolchain = Path(run("rustc", "--print", "sysroot").strip())
    (root / TOOLCHAIN.lstrip("/")).mkdir()
    for part in ("bin", "lib"):
        run("cp", "-a", toolchain / part, root / TOOLCHAIN.lstrip("/"))


def _copy_python(root: Path, version: str) -> None:
    python = Path(run(pythons()[version], "-c", "import sys; print(sys.base_prefix)").strip())
    for part in ("bin", "lib", "include"):
        run("cp", "-a", python / part, root / "usr/local")
    run("chroot", root, "ldconfig")  # it may have its library beside it
    shutil.rmtree(root / f"usr/local/lib/python{version}/test")  # as in the official image


class Image:
    """An image's files, mounted, and how it is run."""

    def __init__(self, root: Path, config: Mapping[str, object]) -> None:
        self._root = root
        self._config = config

    def _command(self, program: Sequence[str], user: str = "") -> list[str]:
        assert self._config["User"] == "10001:10001"
        numbers = (user or "10001:10001").split(":")
        return ["unshare", "--mount", "bash", "-c", CONFINED, "confined", str(self._root), *numbers, *program]

    def _environment(self, given: Mapping[str, str]) -> dict[str, str]:
        own = dict(line.split("=", 1) for line in _texts(self._config["Env"]))
        return {**own, "PATH": f"{own['PATH']}:{os.environ['PATH']}", **given}

    def run(self, *arguments: str, program: Sequence[str] = (), user: str = "") -> str:
        """Run its program, or another, to its end, as its user or as another; what it prints."""
        command = self._command(program or (*_texts(self._config["Entrypoint"]), *arguments), user)
        done = subprocess.run(command, env=self._environment({}), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def healthy(self, given: Mapping[str, str]) -> bool:
        """What its health check says."""
        test = self._config["Healthcheck"]
        assert isinstance(test, dict)
        kind, *program = _texts(test["Test"])
        assert kind == "CMD"
        return subprocess.run(self._command(program), env=self._environment(given), check=False).returncode == 0

    @contextmanager
    def started(self, given: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        """Its program with its own arguments, until the block ends."""
        program = [*_texts(self._config["Entrypoint"]), *_texts(self._config["Cmd"])]
        process = subprocess.Popen(self._command(program), env=self._environment(given))
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _texts(value: object) -> list[str]:
    assert isinstance(value, list)
    return [str(one) for one in value]
