"""Which of a holder's entries are known to lie behind no other holder's marker: only they may be acknowledged.

A receipt proves that an entry is stored, not that it counts. It does where all that lies between the own marker and it
is known. Places of a ledger are dense. So an entry right behind a known one is known by its receipt alone, without any
wait. Over a gap, as after a ledger's end, an entry waits until the slot's reader has come to it.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from bridge.pulsar.types import Position, Receipt


class _Waiting(NamedTuple):
    receipt: Receipt
    known: Callable[[], None]


class ReadBack:
    """One holding's entries, read back from its marker on."""

    def __init__(self, marker: Position) -> None:
        self.known = marker
        """Up to here no other holder's marker lies behind the own one."""
        self._sequence = -1  # of the own entry that was read last
        self._waiting: deque[_Waiting] = deque()

    def stored(self, receipt: Receipt, known: Callable[[], None]) -> None:
        """An entry is stored; receipts come in the order of the entries. `known` is called as soon as that is so."""
        self._waiting.append(_Waiting(receipt, known))
        self._settle()

    def read(self, position: Position, sequence: int | None) -> None:
        """The reader has come here and has met no other holder's marker; the sequence id if the entry is own."""
        self.known = max(self.known, position)
        if sequence is not None:
            self._sequence = max(self._sequence, sequence)
        self._settle()

    def _settle(self) -> None:
        while self._waiting and self._is_known(self._waiting[0].receipt):
            self._waiting.popleft().known()

    def _is_known(self, receipt: Receipt) -> bool:
        if receipt.duplicate:  # it was stored before, somewhere
            return receipt.sequence_id <= self._sequence
        if receipt.position == self.known.after:
            self.known = receipt.position
        return receipt.position <= self.known
