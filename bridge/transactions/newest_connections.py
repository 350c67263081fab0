"""Which client connections may speak for a transactional id (protocol 1).

All transactions of an epoch look alike to protocol 1. A request that a client has given up, and that still lies in a
connection, would meet the next one: an EndTxn would end it too early. What a client sends on one connection comes in
its order, and a client goes to another connection only for good. So a connection does not count any more once a newer
one has spoken for the id, nor one that was opened before this node took the id's slot: the client may have spoken to
another node since. It is closed; a client that is there sends again on a new one. One that has spoken since the slot
was taken goes on, whenever it was opened.
"""

from typing import Final, NamedTuple

_MOST: Final = 100_000
"""As many ids as a namespace has, unless its settings say more."""


class Connection(NamedTuple):
    """A client's connection."""

    number: int
    """Grows with each connection of this node."""
    opened_at: float
    """By the loop's time."""


class NewestConnections:
    """The newest connection that has spoken for each transactional id, at one coordinator."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[int, float]] = {}  # its number, and when it spoke first

    def admit(
        self, transactional_id: str, connection: Connection, taken_at: float, now: float, *, is_new: bool = False
    ) -> bool:
        """Whether the connection may speak; then older ones may not any more.

        `taken_at`: when the slot was taken; `now`: by the same clock; `is_new`: nobody has spoken for the id before.
        """
        number, spoke_at = self._newest.get(transactional_id, (-1, taken_at))
        if connection.number == number and spoke_at > taken_at:
            return True
        if connection.number < number or (connection.opened_at <= taken_at and not is_new):
            return False
        self._newest[transactional_id] = connection.number, now
        if len(self._newest) > _MOST:
            self._newest.pop(next(iter(self._newest)))
        return True

    def forget(self, transactional_id: str) -> None:
        """The id is gone, or its slot is: who takes the slot again admits nothing of before."""
        self._newest.pop(transactional_id, None)
