"""No two files of the bridge import each other, not even through others, nor for the type checker alone.

`lint-imports` keeps folders in layers; this keeps the files of one folder in an order, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.sources import ROOT, imported_names, python_files


def modules() -> dict[str, Path]:
    """Each module of the bridge by its dotted name."""
    return {module_name(path): path for path in python_files("bridge")}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, known: Mapping[str, object]) -> Iterator[str]:
    """The known modules that a module imports, also for a name in them."""
    for found in imported_names(tree):
        module = found if found in known else found.rpartition(".")[0]
        if module in known:
            yield module


def graph() -> dict[str, set[str]]:
    found = modules()
    return {
        name: set(imported(ast.parse(path.read_text(encoding="utf-8")), found)) - {name} for name, path in found.items()
    }


def cycles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules that all reach each other, each in the order of their names."""
    reach = {name: reached(imports, name) for name in imports}
    groups = {tuple(sorted(other for other in reach[name] if name in reach[other])) for name in imports}
    return sorted(list(group) for group in groups if len(group) > 1)


def reached(imports: Mapping[str, set[str]], start: str) -> set[str]:
    met, left = {start}, [start]
    while left:
        left += (new := imports[left.pop()] - met)
        met |= new
    return met


def test_no_files_import_each_other() -> None:
    found = cycles(graph())
    assert not found, "\n" + "\n".join(" <-> ".join(group) for group in found)


def test_a_cycle_over_three_files_is_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]


def test_imports_are_found_wherever_they_stand() -> None:
    source = "import a\nfrom b import c, d\nif TYPE_CHECKING:\n    from e import F\ndef f():\n    import g\n"
    known = dict.fromkeys(["a", "b", "b.c", "e", "g"])
    assert list(imported(ast.parse(source), known)) == ["a", "b.c", "b", "e", "g"]
