"""Outcomes of transactions as a test decides them."""

import asyncio
from collections.abc import Callable

from bridge.storage.visibility import Identity, OpenTransaction, Outcome, Transaction


def transaction(number: int) -> Transaction:
    """The first transaction of a producer of its own."""
    return Transaction(0, Identity(number, 0, 1))


class KnownOutcomes:
    """`Outcomes` of which a test knows all: what it has not decided is open."""

    def __init__(self) -> None:
        self.decided: dict[Transaction, Outcome] = {}
        self.named: list[OpenTransaction] = []
        """Those that name the partition, while they are open."""
        self.confirmed = 0
        self._watched: dict[Transaction, list[Callable[[], None]]] = {}

    def decide(self, transaction: Transaction, outcome: Outcome) -> None:
        """It is decided, forever; who watches is told soon."""
        self.decided[transaction] = outcome
        for decided in self._watched.pop(transaction, []):
            asyncio.get_running_loop().call_soon(decided)

    def outcome(self, transaction: Transaction) -> Outcome:
        """As decided."""
        return self.decided.get(transaction, Outcome.OPEN)

    def watch(self, transaction: Transaction, decided: Callable[[], None]) -> None:
        """Until it is decided."""
        self._watched.setdefault(transaction, []).append(decided)

    def open_in(self, topic_id: str, partition: int) -> list[OpenTransaction]:
        """Of any partition."""
        return [one for one in self.named if one.transaction not in self.decided]

    async def confirm(self) -> None:
        """It is counted."""
        self.confirmed += 1
