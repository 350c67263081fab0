"""Helpers of tests live in modules of their own: nothing imports from a module of tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.sources import name, python_files

FOLDERS = ("bench", "bridge", "pipeline", "tests")


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, also in functions, and the names it takes from them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_nothing_is_imported_from_a_module_of_tests() -> None:
    found = [
        f"{name(path)}: {module}"
        for folder in FOLDERS
        for path in python_files(folder)
        for module in imported(path)
        if module.startswith("tests.") and any(part.startswith("test_") for part in module.split("."))
    ]
    assert not found
