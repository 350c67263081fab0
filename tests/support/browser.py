"""A real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.programs import require
from tests.support.sources import ROOT

_PATIENCE_MS = 30_000
"""Playwright's own five seconds are not enough where the machine has other things to do."""
AXE = ROOT / "tests" / "http" / "status" / "vendor" / "axe.min.js"


@contextmanager
def started() -> Iterator[Browser]:
    """Without a screen. Tests beside it must be no coroutines: Playwright has the thread's event loop until the end."""
    program = require("chromium")
    expect.set_options(timeout=_PATIENCE_MS)
    with sync_playwright() as playwright:
        # --no-sandbox: in a container, as root, Chromium has none
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page, and what goes wrong in it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.wrong: list[str] = []
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda message: self.wrong.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: self.wrong.append(dialog.message))

    def findings(self) -> list[str]:
        """What axe-core finds, however slight, each with the elements."""
        page = self.page
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [f"{one['id']}: {one['help']}: {[node['html'] for node in one['nodes']]}" for one in found["violations"]]

    def shoot(self, path: Path) -> None:
        """A picture of what is seen."""
        self.page.screenshot(path=path)
