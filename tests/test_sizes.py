"""Files and functions stay short: CONVENTIONS, rule 6."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.support.sources import name, python_files

FOLDERS = ("bench", "bridge", "config", "maven_jars", "pipeline", "tests")
LINES_OF_A_FILE = 399
MEDIAN_LINES_OF_A_FILE = 150
LINES_OF_A_FUNCTION = 39
MEDIAN_LINES_OF_A_FUNCTION = 8

LONG_FUNCTIONS = {
    "_python.py encode_payload",
    "_python.py decode_payload",
    "server.py __init__",
    "attacks.py every",
}
"""Functions whose parts would be harder to read than the whole: one loop over fields, or one list."""


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def functions(folder: str) -> Iterator[tuple[str, int]]:
    """Each function of a folder, and its lines with those of its signature and docstring."""
    for path in python_files(folder):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                yield f"{path.name} {node.name}", node.end_lineno - node.lineno + 1


def test_no_file_is_longer_than_one_reads_at_a_time() -> None:
    files = [path for folder in FOLDERS for path in python_files(folder)]
    assert not {name(path) for path in files if lines_of(path) > LINES_OF_A_FILE}


def test_no_function_is_longer_than_a_screen() -> None:
    too_long = {what for folder in FOLDERS for what, lines in functions(folder) if lines > LINES_OF_A_FUNCTION}
    assert too_long <= LONG_FUNCTIONS


def test_the_usual_file_and_function_of_the_bridge_are_short() -> None:
    assert median(lines_of(path) for path in python_files("bridge")) <= MEDIAN_LINES_OF_A_FILE
    assert median(lines for _, lines in functions("bridge")) <= MEDIAN_LINES_OF_A_FUNCTION
