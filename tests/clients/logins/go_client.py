"""Our program that logs in with franz-go."""

from __future__ import annotations

from pathlib import Path

from tests.support.driver import Driver
from tests.support.go import built

SOURCES = Path(__file__).parent / "go"


def go_driver(work: Path) -> Driver:
    """Build it, and start it."""
    return Driver([str(built(SOURCES, work / "login"))], work / "go.log")
