"""Batches of idempotent producers that were received and not stored: no later one may be stored before they are.

Pulsar accepts any sequence that grows. A batch stored ahead of an earlier one makes the earlier one a duplicate
forever: it would be answered as stored, and lost. If the producer's past is known, the gap is noticed (`sequences`).
This module knows the rest: a producer's very first batches, and those that Pulsar refused while later ones were in
flight.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from bridge.storage.append.sequences import SequencePosition

_MAX_PRODUCERS: Final = 10_000
_SEQUENCES: Final = 1 << 31


class _Missing(NamedTuple):
    """The earliest missing batch of one producer in one partition."""

    epoch: int
    sequence: int
    refused: bool
    """Whether Pulsar refused it: that Pulsar knows later ones says nothing then."""


class MissingBatches:
    """Those of this process. They may be forgotten with it: on a new connection clients begin with the earliest."""

    def __init__(self) -> None:
        self._missing: OrderedDict[tuple[str, int], _Missing] = OrderedDict()

    def note_missing(self, topic: str, producer_id: int, epoch: int, sequence: int, *, refused: bool = False) -> None:
        """A batch that begins here was not stored; `topic`: the partition's; `refused`: Pulsar never stores it."""
        known = self._missing.get((topic, producer_id))
        if known is None or epoch > known.epoch or (epoch == known.epoch and _is_after(known.sequence, sequence)):
            self._missing[topic, producer_id] = _Missing(epoch, sequence, refused)
            if len(self._missing) > _MAX_PRODUCERS:
                self._missing.popitem(last=False)

    def is_any_before(self, topic: str, batch: tuple[int, int, int], last: SequencePosition | None) -> bool:
        """Whether a batch is missing before this one (id, epoch, sequence); `last`: the last that Pulsar knows."""
        producer_id, epoch, sequence = batch
        known = self._missing.get((topic, producer_id)) if self._missing else None
        if known is None or epoch != known.epoch or not _is_after(sequence, known.sequence):
            return False
        if known.refused or last is None or last.epoch != epoch or _is_after(known.sequence, last.sequence):
            return True
        del self._missing[topic, producer_id]  # another bridge has stored it
        return False

    def note_stored(self, topic: str, producer_id: int, epoch: int, sequence: int) -> None:
        """The batch that begins here is stored."""
        known = self._missing.get((topic, producer_id)) if self._missing else None
        if known is None or epoch < known.epoch:
            return
        if epoch > known.epoch or not _is_after(sequence, known.sequence):
            del self._missing[topic, producer_id]


def _is_after(sequence: int, other: int) -> bool:
    """Sequences wrap: of two, the one that is nearer ahead is the later."""
    return 0 < (sequence - other) % _SEQUENCES < _SEQUENCES // 2
