"""Transactions of franz-go: protocol 2; opt-in, as Go fetches its modules."""

from __future__ import annotations

from pathlib import Path

from tests.clients.transactions.java import DrivenTransactions
from tests.support.driver import Driver
from tests.support.go import built

SOURCES = Path(__file__).parent / "go"


class GoTransactions(DrivenTransactions):
    """franz-go, by the driver's commands."""

    def __init__(self, bootstrap: str, work: Path) -> None:
        super().__init__(Driver([str(built(SOURCES, work / "transactions")), bootstrap], work / "go.log"))
