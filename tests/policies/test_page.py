"""docs/policies.md names the tests that show what it says, and all of them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.sources import ROOT


def test_the_page_names_the_tests_there_are() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "policies.md").read_text("utf-8")))
    here = Path(__file__)
    others = (path.read_text("utf-8") for path in here.parent.glob("test_*.py") if path != here)
    assert named == {name for text in others for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}
