"""Batches of idempotent producers that were received and not stored: none after them may be, before they come again.

Pulsar takes any sequence that grows. One that is stored ahead of an earlier one would make that a repetition for ever:
it would be answered as stored and be lost. Where the producer's past is known a gap is seen (`sequences`); here is what
its past does not tell: its very first batches, and those that Pulsar has refused while later ones were on their way.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from bridge.storage.append.sequences import SequencePosition

_MOST: Final = 10_000
_SEQUENCES: Final = 1 << 31


class _Missing(NamedTuple):
    """The earliest of one producer in one partition."""

    epoch: int
    sequence: int
    refused: bool
    """Whether Pulsar will not have it: that it knows later ones says nothing then."""


class MissingBatches:
    """Of this process, and forgotten with it as its connections are: on a new one clients begin with the earliest."""

    def __init__(self) -> None:
        self._missing: OrderedDict[tuple[str, int], _Missing] = OrderedDict()

    def note(self, topic: str, producer_id: int, epoch: int, sequence: int, *, refused: bool = False) -> None:
        """A batch that begins here was not stored; `topic`: the partition's; `refused`: Pulsar will never store it."""
        known = self._missing.get((topic, producer_id))
        if known is None or epoch > known.epoch or (epoch == known.epoch and _is_after(known.sequence, sequence)):
            self._missing[topic, producer_id] = _Missing(epoch, sequence, refused)
            if len(self._missing) > _MOST:
                self._missing.popitem(last=False)

    def is_before(self, topic: str, batch: tuple[int, int, int], last: SequencePosition | None) -> bool:
        """Whether one is missing before a batch (id, epoch, sequence); `last`: the last one that Pulsar knows."""
        producer_id, epoch, sequence = batch
        known = self._missing.get((topic, producer_id)) if self._missing else None
        if known is None or epoch != known.epoch or not _is_after(sequence, known.sequence):
            return False
        if known.refused or last is None or last.epoch != epoch or _is_after(known.sequence, last.sequence):
            return True
        del self._missing[topic, producer_id]  # it came again to another bridge
        return False

    def stored(self, topic: str, producer_id: int, epoch: int, sequence: int) -> None:
        """The batch that begins here is stored."""
        known = self._missing.get((topic, producer_id)) if self._missing else None
        if known is None or epoch < known.epoch:
            return
        if epoch > known.epoch or not _is_after(sequence, known.sequence):
            del self._missing[topic, producer_id]


def _is_after(sequence: int, other: int) -> bool:
    """Sequences go round: what is after another is told by the shorter way."""
    return 0 < (sequence - other) % _SEQUENCES < _SEQUENCES // 2
