"""The list of modules in ARCHITECTURE.md, of their first sentences: `python -m tests.support.modules` writes it."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from tests.support.pages import put_between
from tests.support.sources import ROOT, python_files

PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- modules: begin, written by `python -m tests.support.modules` -->", "<!-- modules: end -->"
APIS = "bridge/apis"
"""Its files are named after what they are for."""


def listing() -> str:
    """A table for each folder of `bridge` and `pipeline`: one row for each module, the folder's own sentence above."""
    parts = []
    for folder, files in groupby(_modules(), key=lambda path: path.parent):
        modules = {path.stem: purpose(path) for path in files}
        name = folder.relative_to(ROOT).as_posix()
        parts.append(f"### `{name}/`\n\n{modules.pop('__init__')}")
        if name == APIS:
            parts.append(textwrap.fill(", ".join(f"`{module}`" for module in modules) + ".", 120))
        elif modules:
            rows = (f"| `{module}` | {sentence} |" for module, sentence in modules.items())
            parts.append("\n".join(["| module | what it is for |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def _modules() -> Iterator[Path]:
    found = [path for folder in ("bridge", "pipeline") for path in python_files(folder)]
    yield from sorted(found, key=lambda path: (path.parent, path))


def purpose(path: Path) -> str:
    """The first paragraph of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def main() -> None:
    """Write the page's list."""
    put_between(PAGE, BEGIN, END, listing())


if __name__ == "__main__":
    main()
