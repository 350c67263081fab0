"""Which client connections may speak for a transactional id (protocol 1).

All transactions of an epoch look alike to protocol 1. A request that a client has given up, and that still lies in a
connection, would meet the next one: an EndTxn would end it too early. What a client sends on one connection comes in
its order, and a client goes to another connection only for good. So a connection does not count any more once a newer
one has spoken for the id, nor one that was opened before this node took the id's slot: the client may have spoken to
another node since. It is closed; a client that is there sends again on a new one.

Whoever begins an epoch may speak in it on whichever connection: nothing of that epoch was sent before.
"""

from collections.abc import Callable
from typing import NamedTuple


class Connection(NamedTuple):
    """A client's connection, perhaps to another node that passes its requests on."""

    number: int
    """Of its node's: those that were opened at one time differ in it."""
    opened_at: float
    """By this node's loop's time."""

    @property
    def age(self) -> tuple[float, int]:
        """Greater of the newer one."""
        return self.opened_at, self.number


class NewestConnections:
    """The newest connection that has spoken for each transactional id since a slot was taken."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[float, int]] = {}

    def admit(self, transactional_id: str, connection: Connection, taken_at: float) -> bool:
        """Whether the connection may speak; then older ones may not any more. `taken_at`: when the slot was taken."""
        newest = self._newest.get(transactional_id)
        if connection.opened_at <= taken_at if newest is None else connection.age < newest:
            return False
        self._newest[transactional_id] = connection.age
        return True

    def begin(self, transactional_id: str, connection: Connection) -> None:
        """An epoch has begun by a request of this connection."""
        self._newest[transactional_id] = connection.age

    def __len__(self) -> int:
        return len(self._newest)

    def keep(self, is_known: Callable[[str], bool]) -> None:
        """Forget all ids but those."""
        self._newest = {one: age for one, age in self._newest.items() if is_known(one)}

    def forget(self, transactional_id: str) -> None:
        """The id is gone."""
        self._newest.pop(transactional_id, None)
