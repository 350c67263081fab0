"""The native codec's crates: each has a version and a checksum in the repository, and no build takes another."""

import re
import tomllib

from tests.support.sources import ROOT

NATIVE = ROOT / "native"
OURS = "sparse+https://crates.invalid/"
"""The name that the registry has here: .cargo/config.toml leads it to cargo's default one."""


def test_every_crate_has_a_version_and_a_checksum_and_names_no_registry() -> None:
    crates = tomllib.loads((NATIVE / "Cargo.lock").read_text())["package"]
    assert [one["name"] for one in crates if "source" not in one] == ["bridge-codec"]
    for one in crates:
        if one["name"] != "bridge-codec":
            assert one["source"] == OURS
            assert re.fullmatch(r"[0-9a-f]{64}", one["checksum"])
    wanted = tomllib.loads((NATIVE / "Cargo.toml").read_text())["dependencies"]
    locked = {one["name"]: one["version"] for one in crates}
    assert {name: one["version"] for name, one in wanted.items()} == {name: f"={locked[name]}" for name in wanted}


def test_every_build_is_locked_and_has_the_lock() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools-rust"]["ext-modules"]
    assert [one["cargo-manifest-args"] for one in project] == [["--locked"]]
    assert "native/Cargo.lock .cargo/config.toml" in (ROOT / "MANIFEST.in").read_text()
    assert re.search(r"^COPY \.cargo \.cargo$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert "!.cargo" in (ROOT / ".dockerignore").read_text().splitlines()
