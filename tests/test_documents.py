"""What documents refer to exists: links, sections, files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bridge import apis
from tests.support.pages import anchors, prose
from tests.support.sources import ROOT, documents, name, text_files

README = ROOT / "README.md"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
INDEX = ROOT / "docs" / "index.md"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
DESIGN = [ARCHITECTURE, *sorted((ROOT / "docs" / "design").glob("*.md")), *DECISIONS]
COMPATIBILITY = ROOT / "docs" / "compatibility.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = {".conf", ".java", ".py", ".rs", ".toml"}
NOT_IN_THE_CODE = {"__bridge_marks", "__bridge_permissions", "__bridge_producer_ids", "cramjam.lz4.decompress_block"}
"""Names that the code puts together, or has only by another name."""


@pytest.fixture(scope="module")
def words() -> set[str]:
    """All that is a name in the code."""
    sources = (path for path in text_files() if path.suffix in CODE)
    return {word for path in sources for word in re.findall(r"\w+", path.read_text("utf-8"))}


@pytest.fixture(scope="module")
def folders() -> list[Path]:
    """Where a file that a document names may be."""
    return [ROOT, ROOT / "bridge", *(path for path in (ROOT / "bridge").rglob("*") if path.is_dir())]


def links(path: Path) -> list[str]:
    return [link for link in LINK.findall(prose(path)) if "://" not in link]


@pytest.mark.parametrize("path", list(documents()), ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in links(path):
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def linked(page: Path) -> set[Path]:
    return {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}


def test_readme_and_the_index_lead_to_every_document() -> None:
    assert {path for path in documents() if path.parent == ROOT} <= linked(README) | {README}
    assert INDEX in linked(README)
    assert {path for path in documents() if path.parent == ROOT / "docs"} <= linked(INDEX) | {INDEX}
    assert set(DESIGN) <= linked(INDEX) | linked(ARCHITECTURE)


def test_architecture_is_short() -> None:
    assert len(ARCHITECTURE.read_text("utf-8").splitlines()) <= 300


def test_readme_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 100


def test_it_is_said_which_apis_and_versions_there_are() -> None:
    rows = re.findall(
        r"^\| ([A-Z]\w+(?:, \w+)*) \| (\d+(?:–\d+)?(?:, \d+(?:–\d+)?)*) \|", prose(COMPATIBILITY), re.MULTILINE
    )
    said: dict[str, str] = {}
    for names, versions in rows:
        said.update(zip(names.split(", "), versions.split(", "), strict=True))
    assert said == {api.name: _range(api.min_version, api.max_version) for api in apis.load().values()}


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


@pytest.mark.parametrize("path", DESIGN, ids=name)
def test_what_the_design_names_is_in_the_code(path: Path, words: set[str]) -> None:
    spans = set(re.findall(r"`([^`\n]+)`", prose(path))) - NOT_IN_THE_CODE
    names = {span for span in spans if re.fullmatch(r"[a-zA-Z_]\w*(\.[a-zA-Z_]\w*)*", span)}
    assert not {span for span in names if not words.issuperset(span.split("."))}


@pytest.mark.parametrize("path", DESIGN, ids=name)
def test_files_that_the_design_names_exist(path: Path, folders: list[Path]) -> None:
    paths = set(re.findall(r"`([\w./-]+(?:/|\.py|\.proto))`", prose(path)))
    assert not {path for path in paths if not any((folder / path).exists() for folder in folders)}


def test_decisions_are_numbered_dated_and_say_why_and_what_was_tried() -> None:
    assert [path.name[:4] for path in DECISIONS] == [f"{number:03d}-" for number in range(1, len(DECISIONS) + 1)]
    for path in DECISIONS:
        text = path.read_text("utf-8")
        assert re.match(rf"# {path.name[:3]}: .+\n\n20\d\d-\d\d-\d\d\.", text), path.name
        assert "\n**Reason.** " in text, path.name
        assert "\n**Tried.** " in text, path.name


def test_code_cites_decisions_that_are_there() -> None:
    there = {path.name[:3] for path in DECISIONS}
    for path in text_files():
        assert set(re.findall(r"docs/decisions/(\d+)", path.read_text("utf-8"))) <= there, name(path)
