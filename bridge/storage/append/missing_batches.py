"""Batches of idempotent producers that were received and not stored: no later one may be stored before they are.

Pulsar accepts any sequence that grows. A batch stored ahead of an earlier one makes the earlier one a duplicate
forever: it would be answered as stored, and lost. If the producer's past is known, the gap is noticed (`sequences`).
This module knows the rest: a producer's very first batches, and those that Pulsar refused while later ones were in
flight.

As long as the missing batch may come again, a later one is told NOT_LEADER_OR_FOLLOWER: its client sends both again, in
their order. Kafka says OUT_OF_ORDER_SEQUENCE_NUMBER. But librdkafka then raises its epoch, for all partitions, and
sends under the new one whatever has no answer. A node that died may have stored that: it would be there twice.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.futures import loop_time
from bridge.storage.append.sequences import SequencePosition, Sequences

_MAX_PRODUCERS: Final = 10_000
_COMES_AGAIN_SECONDS: Final = 60.0
"""After it was last refused. Clients send a batch again within seconds; one that does not has given it up."""
_SEQUENCES: Final = 1 << 31


class _Missing(NamedTuple):
    """The earliest missing batch of one producer in one partition."""

    epoch: int
    sequence: int
    refused: bool
    """Whether Pulsar refused it: that Pulsar knows later ones says nothing then."""
    at: float
    """When it was last noted, by the loop's time."""

    @property
    def may_come_again(self) -> bool:
        """Whether its client may still be sending it."""
        return not self.refused and loop_time() - self.at < _COMES_AGAIN_SECONDS


class MissingBatches:
    """The missing batches that this process knows. They may be forgotten with it: on a new connection clients begin
    with the earliest.
    """

    def __init__(self) -> None:
        self._missing: OrderedDict[tuple[str, int], _Missing] = OrderedDict()
        self._failed_at: OrderedDict[tuple[str, int], float] = OrderedDict()
        """When a batch of a producer in a partition failed last: others may have failed with it."""

    def note_missing(self, topic: str, producer_id: int, epoch: int, sequence: int, *, refused: bool = False) -> None:
        """A batch that begins here was not stored; `topic`: the partition's; `refused`: Pulsar never stores it."""
        known = self._missing.get((topic, producer_id))
        if not refused:
            self._failed_at[topic, producer_id] = loop_time()
            if len(self._failed_at) > _MAX_PRODUCERS:
                self._failed_at.popitem(last=False)
        if known is not None and (epoch, sequence) == (known.epoch, known.sequence):
            self._missing[topic, producer_id] = known._replace(refused=refused or known.refused, at=loop_time())
        elif known is None or epoch > known.epoch or (epoch == known.epoch and _is_after(known.sequence, sequence)):
            self._missing[topic, producer_id] = _Missing(epoch, sequence, refused, loop_time())
            if len(self._missing) > _MAX_PRODUCERS:
                self._missing.popitem(last=False)

    def check_order(
        self, topic: str, batch: tuple[int, int, int], sequences: Sequences, has_moved: Callable[[], bool]
    ) -> None:
        """Raise KafkaError where an earlier batch of the producer comes before this one (id, epoch, sequence).

        `has_moved`: whether another node led the partition a moment ago; the client may wait for answers of that one.
        """
        producer_id, epoch, sequence = batch
        if self._is_any_before(topic, batch, sequences.last):
            may_come = self._missing[topic, producer_id].may_come_again
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if may_come else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            raise KafkaError(code, "an earlier batch was not stored, and must come again first")
        if sequences.last is None:
            # stored ahead of those before it, it would be their end
            is_too_early = sequence > 0 and has_moved()
        else:
            is_too_early = sequences.is_gap(epoch, sequence) and (has_moved() or self._has_failed(topic, producer_id))
            if is_too_early:
                self.note_missing(topic, producer_id, epoch, sequences.expected(epoch))
        if is_too_early:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, "an earlier batch may come again, or be under way to another node"
            )

    def _has_failed(self, topic: str, producer_id: int) -> bool:
        failed_at = self._failed_at.get((topic, producer_id))
        return failed_at is not None and loop_time() - failed_at < _COMES_AGAIN_SECONDS

    def _is_any_before(self, topic: str, batch: tuple[int, int, int], last: SequencePosition | None) -> bool:
        """Whether a batch is missing before this one; `last`: the last that Pulsar knows."""
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
