"""Helpers of tests live in modules of their own: nothing imports from a module of tests."""

from __future__ import annotations

import ast

from tests.support.sources import imported_names, name, python_files

FOLDERS = ("bench", "bridge", "pipeline", "tests")


def test_nothing_is_imported_from_a_module_of_tests() -> None:
    found = [
        f"{name(path)}: {module}"
        for folder in FOLDERS
        for path in python_files(folder)
        for module in imported_names(ast.parse(path.read_text(encoding="utf-8")))
        if module.startswith("tests.") and any(part.startswith("test_") for part in module.split("."))
    ]
    assert not found
