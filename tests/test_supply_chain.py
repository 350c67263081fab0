"""What is installed is pinned with its hashes, and no code of ours runs what others have written as data."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.image_digests import FILES, images, pinned, unpinned
from tests.support.sources import ROOT, name, python_files

LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
OURS = [path for folder in ("bench", "bridge") for path in python_files(folder)]
BUILTINS = {"eval", "exec", "compile", "__import__"}
ALLOWED = {"bridge/kafka/schema.py": ["exec"]}
"""Code that is made from the descriptions of Kafka's messages, which are ours."""
MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}


def refused(tree: ast.AST) -> Iterator[str]:
    """What would run data: built-in functions, modules, a shell."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BUILTINS:
            yield node.func.id
        elif isinstance(node, ast.Call) and any(_is_true(one) for one in node.keywords if one.arg == "shell"):
            yield "a shell"
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MODULES:
            yield str(node.module)


def _is_true(keyword: ast.keyword) -> bool:
    return not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)


@pytest.mark.parametrize("path", OURS, ids=name)
def test_no_data_is_run(path: Path) -> None:
    assert list(refused(ast.parse(path.read_text(encoding="utf-8")))) == ALLOWED.get(name(path), [])


@pytest.mark.parametrize(
    "code", ["eval(x)", "import pickle", "from yaml import load", "import yaml.loader", "run(x, shell=True)"]
)
def test_what_runs_data_is_found(code: str) -> None:
    assert list(refused(ast.parse(code)))


@pytest.mark.parametrize("path", LOCKS, ids=name)
def test_every_package_has_one_version_and_its_hashes(path: Path) -> None:
    text = re.sub(r"\\\n", " ", path.read_text(encoding="utf-8"))
    packages = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert packages
    for line in packages:
        assert re.match(r"[A-Za-z0-9._-]+(\[[\w,-]+\])?==\S+ .*--hash=sha256:[0-9a-f]{64}", line), line[:80]


def test_images_are_pinned_by_digest_together_or_not_at_all() -> None:
    """Which digest a tag has now only its registry knows: `make images` asks it before a release."""
    found = {name: images((ROOT / name).read_text("utf-8")) for name in FILES}
    assert {name for name, of_file in found.items() if of_file} == set(FILES)
    assert len({is_pinned for of_file in found.values() for is_pinned in of_file.values()}) == 1


@pytest.mark.parametrize("name", FILES)
def test_a_digest_goes_behind_each_tag_and_takes_the_place_of_an_older_one(name: str) -> None:
    text = unpinned((ROOT / name).read_text("utf-8"))
    old, new = pinned(text, lambda image: f"sha256:{'a' * 64}"), pinned(text, lambda image: f"sha256:{'b' * 64}")
    assert all(images(old).values()) and not any(images(text).values())
    assert pinned(old, lambda image: f"sha256:{'b' * 64}") == new
    assert unpinned(new) == text
    assert len(re.findall(r"^FROM |^ +image: .+:", text, re.MULTILINE)) == new.count("@sha256:")
