"""What documents refer to exists: links, sections, files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.sources import documents, name

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def prose(path: Path) -> str:
    """A document without its blocks of code."""
    return FENCED.sub("", path.read_text(encoding="utf-8"))


def links(path: Path) -> list[str]:
    return [link for link in LINK.findall(prose(path)) if "://" not in link]


def anchors(path: Path) -> set[str]:
    """The sections of a document as links name them."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", list(documents()), ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in links(path):
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
