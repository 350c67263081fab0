"""Transactions of Go's clients; opt-in, as Go fetches its modules."""

from __future__ import annotations

from pathlib import Path

from tests.clients.transactions.java import DrivenTransactions
from tests.support.driver import Driver
from tests.support.go import built

SOURCES = Path(__file__).parent / "go"


class GoTransactions(DrivenTransactions):
    """A client of Go, by the driver's commands: `franz`, of protocol 2, or `sarama`, of protocol 1."""

    def __init__(self, client: str, bootstrap: str, work: Path) -> None:
        program = built(SOURCES / client, work / client)
        super().__init__(Driver([str(program), bootstrap], work / f"{client}.log"))
