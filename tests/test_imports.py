"""Helpers of tests live in modules of their own: nothing imports from a module of tests.

One may run the tests of others once more, in other circumstances.
"""

from __future__ import annotations

import ast

from tests.support.sources import imported_names, name, python_files

RUN_ONCE_MORE = dict.fromkeys(
    (
        "tests/connection/test_long_polls.py",
        "tests/connection/test_runner.py",
        "tests/connection/listeners/test_tls.py",
    ),
    "tests.connection.test_",
)
"""Where a folder's tests are run again: over TLS, with requests that need no task, and with polls that need none."""
FOLDERS = ("bench", "bridge", "tests")


def test_nothing_is_imported_from_a_module_of_tests() -> None:
    found = [
        f"{name(path)}: {module}"
        for folder in FOLDERS
        for path in python_files(folder)
        for module in imported_names(ast.parse(path.read_text(encoding="utf-8")))
        if module.startswith("tests.") and any(part.startswith("test_") for part in module.split("."))
        if not module.startswith(RUN_ONCE_MORE.get(name(path), "-"))
    ]
    assert not found
