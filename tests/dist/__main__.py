"""`make dist`: the source distribution and the wheels of a release, built and checked; they come to dist/.

It runs in the environment of requirements/dist.lock and imports nothing of it but by its commands.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUT = ROOT / "dist"
GLIBC = "2.17"
"""The oldest C library that the wheels run on: manylinux2014, which every Linux with a Python 3.11 fulfils."""
ARCHITECTURES = ("x86_64", "aarch64")
CODEC = "bridge/codec/_native.abi3.so"
LINKER = f"""#!/bin/bash
# cargo, which links by zig against glibc {GLIBC}, for any architecture
[ "$1" = rustc ] || exec cargo "$@"
exec cargo-zigbuild "${{@/%-unknown-linux-gnu/-unknown-linux-gnu.{GLIBC}}}"
"""


def run(*command: str | Path, **environment: str) -> str:
    """Run a command of this environment; what it printed. Its failure, quoted, ends the build."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PATH": path, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        sys.exit(f"dist: {' '.join(map(str, command))} ended with {done.returncode}")
    return done.stdout


def source_distribution() -> Path:
    """Build it; it has what the wheels are built from."""
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", OUT)
    (made,) = OUT.glob("*.tar.gz")
    return made


def target_of(architecture: str) -> str:
    """Rust's name of it, where its library is here; else the end, with what brings it."""
    target = f"{architecture}-unknown-linux-gnu"
    if shutil.which("rustc") is None:
        sys.exit("dist: Rust is needed for the native codec: https://rustup.rs, or your system's packages")
    if not Path(run("rustc", "--print", "target-libdir", "--target", target).strip()).is_dir():
        sys.exit(
            f"dist: Rust's library for {target} is needed: `rustup target add {target}`; without it, "
            f"`--architecture {platform.machine()}` builds this machine's alone"
        )
    return target


def wheel(source: Path, architecture: str, room: Path) -> Path:
    """Build the wheel of one architecture from the unpacked source distribution, and have auditwheel name it."""
    target = target_of(architecture)
    cargo = room / "cargo"
    cargo.write_text(LINKER, encoding="utf-8")
    cargo.chmod(0o755)
    raw = room / architecture
    run(
        sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-index", "--no-deps",
        "--no-build-isolation", "--wheel-dir", raw, source,
        CARGO=str(cargo), CARGO_BUILD_TARGET=target, _PYTHON_HOST_PLATFORM=f"linux-{architecture}",
        CARGO_TARGET_DIR=str(ROOT / "native" / "target"), CARGO_ZIGBUILD_CACHE_DIR=str(room / "zig"),
    )  # fmt: skip
    (built,) = raw.glob("*.whl")
    if CODEC not in zipfile.ZipFile(built).namelist():
        sys.exit(f"dist: the native codec could not be built for {architecture}: see `cargo build` in native/")
    run("auditwheel", "repair", "-w", OUT, built)
    (fixed,) = OUT.glob(f"*_{architecture}.whl")
    if f"manylinux_{GLIBC.replace('.', '_')}_" not in fixed.name:
        sys.exit(f"dist: {fixed.name} needs a newer C library than {GLIBC}: `auditwheel show` says what of it")
    return fixed


def check(files: list[Path]) -> None:
    """What the public tools find in metadata and contents; every finding ends the build."""
    run("twine", "check", "--strict", *files)
    run("check-wheel-contents", *[file for file in files if file.suffix == ".whl"])


def main() -> None:
    """Build and check all, and say what there is."""
    parser = argparse.ArgumentParser(prog="make dist", description="the packages of a release")
    parser.add_argument("--architecture", action="append", choices=ARCHITECTURES, help="wheels for this alone")
    architectures = parser.parse_args().architecture or ARCHITECTURES
    for one in architectures:
        target_of(one)  # before minutes are spent
    shutil.rmtree(OUT, ignore_errors=True)
    files = [source_distribution()]
    with tempfile.TemporaryDirectory() as directory:
        room = Path(directory)
        with tarfile.open(files[0]) as archive:
            archive.extractall(room, filter="data")
        (source,) = (path for path in room.iterdir() if path.is_dir())
        files += [wheel(source, architecture, room) for architecture in architectures]
    check(files)
    for file in files:
        print(f"{file.stat().st_size:>10,}  {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
