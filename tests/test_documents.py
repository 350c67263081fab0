"""What documents refer to exists: links, sections, files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bridge import apis
from tests.support.sources import ROOT, documents, name

README = ROOT / "README.md"
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


def test_readme_leads_to_every_document() -> None:
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in links(README)}
    assert {path for path in documents() if path.parent in (ROOT, ROOT / "docs")} <= linked | {README}


def test_readme_says_which_apis_and_versions_there_are() -> None:
    rows = re.findall(r"^\| ([A-Z]\w+(?:, \w+)*) \| (\d+(?:–\d+)?(?:, \d+(?:–\d+)?)*) \|", prose(README), re.MULTILINE)
    said: dict[str, str] = {}
    for names, versions in rows:
        said.update(zip(names.split(", "), versions.split(", "), strict=True))
    assert said == {api.name: _range(api.min_version, api.max_version) for api in apis.load().values()}


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"
