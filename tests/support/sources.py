"""The files of this repository that people write, for tests that read them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("bench", "bridge", "config", "docs", "native", "requirements", "tests", ".ci")
SUFFIXES = {
    "",
    ".conf",
    ".css",
    ".go",
    ".html",
    ".in",
    ".java",
    ".js",
    ".md",
    ".properties",
    ".py",
    ".rs",
    ".toml",
    ".txt",
    ".xml",
    ".yml",
}
NOT_OURS = {"__pycache__", "pb", "target", "plots", "vendor"}
"""Folders of generated files, and of others' files."""


def text_files() -> Iterator[Path]:
    """Every file of text that is written by hand, or has parts that are."""
    found = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in FOLDERS:
        found += (ROOT / folder).rglob("*")
    return _ours(found)


def python_files(folder: str) -> Iterator[Path]:
    """The Python files of one folder."""
    return _ours((ROOT / folder).rglob("*.py"))


def _ours(found: Iterable[Path]) -> Iterator[Path]:
    for path in sorted(found):
        if path.suffix in SUFFIXES and path.is_file() and not NOT_OURS.intersection(path.relative_to(ROOT).parts):
            yield path


def documents() -> Iterator[Path]:
    """README, ARCHITECTURE and the other documents."""
    return (path for path in text_files() if path.suffix == ".md")


def imported_names(tree: ast.AST) -> Iterator[str]:
    """What is imported at the top, under `TYPE_CHECKING` and within functions: modules, and names in modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def name(path: Path) -> str:
    """The path as documents give it, from the top of the repository."""
    return path.relative_to(ROOT).as_posix()
