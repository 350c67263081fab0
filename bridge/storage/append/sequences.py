"""What one idempotent producer has appended to one partition: which batch is next, which is a duplicate (KIP-98).

    batch                                     verdict
    ───────────────────────────────────────   ─────────────────────────────────────────────
    epoch older than the producer's           INVALID_PRODUCER_EPOCH
    epoch newer, sequence 0                   next; the producer begins again
    epoch newer, another sequence             OUT_OF_ORDER_SEQUENCE_NUMBER
    nothing known of the producer             next, whatever its sequence (its past has expired)
    sequence follows the last                 next
    begins and ends at or before the last     duplicate
    begins before the last and ends beyond    OUT_OF_ORDER_SEQUENCE_NUMBER
    sequence beyond                           OUT_OF_ORDER_SEQUENCE_NUMBER: one was lost in between

Kafka's model is `ProducerAppendInfo` with `ProducerStateEntry`. Pulsar keeps the state: a producer named after the id,
whose sequence ids grow with epoch and sequence, so that the last one the broker knows tells both after any restart.
"""

from typing import NamedTuple

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode

_SEQUENCES = 1 << 31  # Kafka's wrap after 2³¹ − 1
_WRAP_BITS, _SEQUENCE_BITS = 16, 31
_WRAPS = 1 << _WRAP_BITS


class SequencePosition(NamedTuple):
    """Where a record is among all of its producer: the epoch, how often the sequence has wrapped, the sequence."""

    epoch: int
    wraps: int
    sequence: int

    def to_pulsar(self) -> int:
        """The Pulsar sequence id: it grows with the position, and fits in 62 bits."""
        return (self.epoch << _WRAP_BITS | self.wraps) << _SEQUENCE_BITS | self.sequence

    @classmethod
    def of_pulsar(cls, sequence_id: int) -> "SequencePosition | None":
        """The position a Pulsar sequence id stands for; −1 stands for none."""
        if sequence_id < 0:
            return None
        wraps, sequence = sequence_id >> _SEQUENCE_BITS, sequence_id & (_SEQUENCES - 1)
        return cls(wraps >> _WRAP_BITS, wraps & (_WRAPS - 1), sequence)

    def after(self, count: int) -> "SequencePosition":
        """The position `count` records further on."""
        sequence = self.sequence + count
        return SequencePosition(self.epoch, self.wraps + sequence // _SEQUENCES, sequence % _SEQUENCES)


class SequenceRange(NamedTuple):
    """The positions of one batch, both ends included; `is_duplicate`: they have been appended before."""

    first: SequencePosition
    last: SequencePosition
    is_duplicate: bool


class Sequences:
    """The sequences of one producer in one partition."""

    __slots__ = ("_last",)

    def __init__(self, last_sequence_id: int = -1) -> None:
        """`last_sequence_id`: the last one that Pulsar knows under the producer's name, −1 if it knows none."""
        self._last = SequencePosition.of_pulsar(last_sequence_id)

    @property
    def last(self) -> SequencePosition | None:
        """The last position that is appended."""
        return self._last

    @property
    def epoch(self) -> int:
        """The producer's epoch; −1 where nothing is known of it."""
        return -1 if self._last is None else self._last.epoch

    def is_gap(self, epoch: int, sequence: int) -> bool:
        """Whether a batch is missing before one that begins here, as far as is known."""
        last = self._last
        if last is None or epoch < last.epoch:
            return False
        if epoch > last.epoch:
            return sequence != 0
        return (last.sequence + 1 - sequence) % _SEQUENCES > _SEQUENCES // 2

    def expected(self, epoch: int) -> int:
        """The sequence of the batch that is next in this epoch; 0 where nothing is known."""
        last = self._last
        return 0 if last is None or epoch > last.epoch else last.after(1).sequence

    def check(self, epoch: int, sequence: int, count: int) -> SequenceRange:
        """Judge a batch of `count` records; KafkaError as in the table above. Nothing changes before `append`."""
        last = self._last
        if last is None or epoch > last.epoch:
            if last is not None and sequence != 0:
                text = f"epoch {epoch} begins with sequence {sequence}, not 0"
                raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
            return _sequence_range(SequencePosition(epoch, 0, sequence), count, is_duplicate=False)
        if epoch < last.epoch:
            text = f"epoch {epoch} is older than {last.epoch}"
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, text)
        expected = last.after(1)
        if sequence == expected.sequence:
            return _sequence_range(expected, count, is_duplicate=False)
        # behind or ahead: whichever is nearer, as sequences wrap
        if self.is_gap(epoch, sequence):
            text = f"sequence {sequence} where {expected.sequence} is next"
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
        wraps = expected.wraps if sequence < expected.sequence else expected.wraps - 1
        duplicate = _sequence_range(SequencePosition(epoch, max(wraps, 0), sequence), count, is_duplicate=True)
        if duplicate.last > last:
            text = f"a batch of {count} from sequence {sequence} on, of which those up to {last.sequence} are stored"
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
        return duplicate

    def append(self, batch: SequenceRange) -> None:
        """A batch judged to be next is appended."""
        self._last = batch.last


def _sequence_range(first: SequencePosition, count: int, *, is_duplicate: bool) -> SequenceRange:
    return SequenceRange(first, first.after(count - 1), is_duplicate)
