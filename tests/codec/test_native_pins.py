"""The native codec's crates: every one that a build takes is pinned in Cargo.toml."""

import tomllib
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"


def test_every_crate_of_the_build_is_pinned_exactly() -> None:
    lock = NATIVE / "Cargo.lock"
    if not lock.exists():
        pytest.skip("the native codec was not built here")
    manifest = tomllib.loads((NATIVE / "Cargo.toml").read_text())
    dependencies = manifest["dependencies"] | manifest["target"]["cfg(any())"]["dependencies"]
    pinned = {name: one if isinstance(one, str) else one["version"] for name, one in dependencies.items()}
    built = {one["name"]: f"={one['version']}" for one in tomllib.loads(lock.read_text())["package"] if "source" in one}
    assert pinned == built
