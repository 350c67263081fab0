"""Words that an engineer who knows Kafka, Pulsar and asyncio would have to guess at are not used: tests/words.txt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import re2

from tests.support.sources import ROOT, name, text_files

LIST = ROOT / "tests" / "words.txt"
GAP = r"[\s#/*_]+"


def words() -> dict[str, str]:
    """The list: what to look for, and what is written instead.

    A space of an expression fits what separates words in prose, in a comment that goes on, and in a name.
    """
    lines = (line for line in LIST.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#"))
    pairs = (line.split(" -> ") for line in lines)
    return {expression.replace(" ", GAP): instead for expression, instead in pairs}


def _pattern(expression: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z])(?:{expression})(?![a-z])", re.IGNORECASE)


def _any(expressions: Iterable[str]) -> Callable[[str], object]:
    """What finds at least all texts with one of them, at once: it looks at nothing before or behind a word."""
    bare = "|".join(re.sub(r"\(\?![^)]*\)", "", expression) for expression in expressions)
    search: Callable[[str], object] = re2.compile(f"(?i)(?:{bare})").search
    return search


def found(text: str) -> list[str]:
    """The words of the list that the text has, each with its line and what to write."""
    if not MAY_HAVE(text):
        return []
    hits = [
        (text.count("\n", 0, match.start()) + 1, match[0], instead)
        for pattern, instead in WORDS.items()
        for match in pattern.finditer(text)
    ]
    return [f"{line}: {' '.join(word.split())!r}: write {instead}" for line, word, instead in sorted(hits)]


WORDS = {_pattern(expression): instead for expression, instead in words().items()}
MAY_HAVE = _any(words())


def to_read() -> list[Path]:
    """All text files but the list itself and this test."""
    return [path for path in text_files() if path not in (LIST, Path(__file__))]


def test_no_file_has_a_word_of_the_list() -> None:
    hits = [f"{name(path)}:{hit}" for path in to_read() for hit in found(path.read_text(encoding="utf-8"))]
    assert not hits, "\n" + "\n".join(hits)


@pytest.mark.parametrize(
    "text",
    [
        "Nobody waits.",
        "for\n    # ever",
        "test_nobody_waits",
        "self._patience = 1",
        "a pool that mends itself",
        "See (D4).",
    ],
)
def test_a_word_is_found(text: str) -> None:
    assert found(text)


@pytest.mark.parametrize("text", ["amendment", "recommended", "forever", "design", "LockKeeper"])
def test_other_words_are_left_alone(text: str) -> None:
    assert not found(text)
