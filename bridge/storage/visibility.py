"""Transactions as entries name them, and what is known of their outcomes: by it readers of committed records go.

A transactional entry carries the identity of its transaction and the slot of `__bridge_transactions` in which that
one's outcome is recorded (`entries`, the mark `x`). No marker stands in a partition: who serves a read looks the
outcome up. An outcome that is not known yet is open, and open is decided once: so an old view delays and never shows
what is wrong.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol


class Identity(NamedTuple):
    """What names one transaction, forever."""

    producer_id: int
    epoch: int
    n: int
    """Counts the transactions of an epoch from 1; 0 where each epoch is one transaction (KIP-890)."""


class Transaction(NamedTuple):
    """A transaction, and the slot in which its outcome is recorded."""

    slot: int
    identity: Identity


class Outcome(Enum):
    """How a transaction stands, as far as this node knows."""

    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


class OpenTransaction(NamedTuple):
    """An open transaction that names a partition."""

    transaction: Transaction
    first: int | None
    """An offset at or below its first one in the partition; None: not known."""
    begun_ms: int
    """When it began, by the clock of the node that coordinates it."""


class Outcomes(Protocol):
    """What this node knows of the transactions of one namespace."""

    def outcome(self, transaction: Transaction) -> Outcome:
        """How it stands, from memory: OPEN where that is not known yet."""

    def watch(self, transaction: Transaction, decided: Callable[[], None]) -> None:
        """Call `decided` once `outcome` is not OPEN any more, on the event loop and soon: never within this call.

        What is not known is asked for meanwhile.
        """

    def open_in(self, topic_id: str, partition: int) -> Sequence[OpenTransaction]:
        """The open transactions that name a partition; `topic_id`: in hexadecimal digits, without hyphens."""

    async def confirm(self) -> None:
        """Return when all is known that any node had recorded before the call; KafkaError if that cannot be: try again.

        At once where the namespace has had no transactions.
        """


class NoOutcomes:
    """`Outcomes` where nobody keeps them: what is stored counts as committed."""

    def outcome(self, transaction: Transaction) -> Outcome:
        """All are committed."""
        return Outcome.COMMITTED

    def watch(self, transaction: Transaction, decided: Callable[[], None]) -> None:
        """None is open."""

    def open_in(self, topic_id: str, partition: int) -> Sequence[OpenTransaction]:
        """None is."""
        return ()

    async def confirm(self) -> None:
        """There is nothing to wait for."""
