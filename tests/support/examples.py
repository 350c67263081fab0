"""Examples of a document: the blocks of code that stand under a mark `<!-- tried: NAME -->`."""

from __future__ import annotations

import re
from pathlib import Path

_BLOCK = re.compile(r"^<!-- tried: (?P<name>.+?) -->\n```\w+\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path: Path) -> dict[str, str]:
    """The code of each, by its name."""
    found = list(_BLOCK.finditer(path.read_text("utf-8")))
    names = [match["name"] for match in found]
    assert len(set(names)) == len(names), names
    return {match["name"]: match["code"] for match in found}


def replaced(text: str, values: dict[str, str]) -> str:
    """The text with other values; each must be there."""
    for old, new in values.items():
        assert old in text, f"there is no {old} to replace"
        text = text.replace(old, new)
    return text
