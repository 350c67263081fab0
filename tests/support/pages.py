"""The parts of documents: those that are made, between two marks, prose, and sections."""

from __future__ import annotations

import re
from pathlib import Path

_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def put_between(path: Path, begin: str, end: str, text: str) -> None:
    """Put the text between the marks of a document; ValueError where it has none."""
    old = path.read_text(encoding="utf-8")
    place = _place(path, begin, end, old)
    path.write_text(f"{old[: place.start()]}{begin}\n\n{text.strip()}\n\n{end}{old[place.end() :]}", encoding="utf-8")


def between(path: Path, begin: str, end: str) -> str:
    """What stands there."""
    return _place(path, begin, end, path.read_text(encoding="utf-8"))[1].strip()


def _place(path: Path, begin: str, end: str, text: str) -> re.Match[str]:
    found = re.search(f"{re.escape(begin)}(.*?){re.escape(end)}", text, re.DOTALL)
    if found is None:
        raise ValueError(f"{path} has no place for it: {begin} … {end}")
    return found


def prose(path: Path) -> str:
    """A document without its blocks of code."""
    return _FENCED.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """The sections of a document as links name them."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
