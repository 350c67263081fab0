"""Every notable line that a node or its supervisor writes is explained, and nothing else is."""

from __future__ import annotations

import ast

from bridge.http.status.explanations import EXPLANATIONS
from tests.support.sources import ROOT, python_files

ELSEWHERE = ROOT / "bridge" / "standalone"
"""What it writes goes to a terminal."""


def written() -> set[str]:
    """The texts of all `!` lines in the source."""
    return {
        node.value.removeprefix("! ")
        for path in python_files("bridge")
        if ELSEWHERE not in path.parents
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("! ")
    }


def test_each_is_explained() -> None:
    assert not written() - set(EXPLANATIONS), "say in bridge/http/status/explanations.py what it means"
    assert not set(EXPLANATIONS) - written(), "no line says this any more"
    assert all(text.endswith(".") for text in EXPLANATIONS.values())
