"""What one idempotent producer has appended to one partition: which batch is next, which is a repetition (KIP-98).

    batch                                     verdict
    ───────────────────────────────────────   ─────────────────────────────────────────────
    epoch older than the producer's           INVALID_PRODUCER_EPOCH
    epoch newer, sequence 0                   next; the producer begins anew
    epoch newer, another sequence             OUT_OF_ORDER_SEQUENCE_NUMBER
    nothing known of the producer             next, whatever its sequence (its past has expired)
    sequence follows the last                 next
    begins and ends at or before the last     repetition
    begins before the last and ends beyond    OUT_OF_ORDER_SEQUENCE_NUMBER
    sequence beyond                           OUT_OF_ORDER_SEQUENCE_NUMBER: one was lost in between

Kafka's model is `ProducerAppendInfo` with `ProducerStateEntry`. Pulsar keeps the state: a producer named after the id,
whose sequence ids grow with epoch and sequence, so that the last one the broker knows tells both after any restart.
"""

from dataclasses import dataclass

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode

_SEQUENCES = 1 << 31  # Kafka's go round after 2³¹ − 1
_ERA_BITS, _SEQUENCE_BITS = 16, 31
_ERAS = 1 << _ERA_BITS


@dataclass(frozen=True, slots=True, order=True)
class SequencePosition:
    """A record's place in a producer's life: its epoch, how often the sequence has gone round, the sequence."""

    epoch: int
    era: int
    sequence: int

    def to_pulsar(self) -> int:
        """The Pulsar sequence id: it grows as places do, and fits in 62 bits."""
        return (self.epoch << _ERA_BITS | self.era) << _SEQUENCE_BITS | self.sequence

    @classmethod
    def of_pulsar(cls, sequence_id: int) -> "SequencePosition | None":
        """The place a Pulsar sequence id stands for; −1 stands for none."""
        if sequence_id < 0:
            return None
        era, sequence = sequence_id >> _SEQUENCE_BITS, sequence_id & (_SEQUENCES - 1)
        return cls(era >> _ERA_BITS, era & (_ERAS - 1), sequence)

    def after(self, count: int) -> "SequencePosition":
        """The place `count` records further on."""
        sequence = self.sequence + count
        return SequencePosition(self.epoch, self.era + sequence // _SEQUENCES, sequence % _SEQUENCES)


@dataclass(frozen=True, slots=True)
class SequenceRange:
    """The places of one batch, both ends included; `repeated`: they have been appended before."""

    first: SequencePosition
    last: SequencePosition
    repeated: bool


class Sequences:
    """One producer in one partition."""

    __slots__ = ("_last",)

    def __init__(self, last_sequence_id: int = -1) -> None:
        """`last_sequence_id`: the last one that Pulsar knows under the producer's name, −1 if it knows none."""
        self._last = SequencePosition.of_pulsar(last_sequence_id)

    @property
    def last(self) -> SequencePosition | None:
        """The last place that is taken."""
        return self._last

    @property
    def epoch(self) -> int:
        """The producer's present epoch; −1 where nothing is known of it."""
        return -1 if self._last is None else self._last.epoch

    def is_gap(self, epoch: int, sequence: int) -> bool:
        """Whether something is missing before a batch that begins here, as far as is known."""
        last = self._last
        if last is None or epoch < last.epoch:
            return False
        if epoch > last.epoch:
            return sequence != 0
        return (last.sequence + 1 - sequence) % _SEQUENCES > _SEQUENCES // 2

    def check(self, epoch: int, sequence: int, count: int) -> SequenceRange:
        """Judge a batch of `count` records; KafkaError as in the table above. Says nothing is appended yet."""
        last = self._last
        if last is None or epoch > last.epoch:
            if last is not None and sequence != 0:
                text = f"epoch {epoch} begins with sequence {sequence}, not 0"
                raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
            return _sequence_range(SequencePosition(epoch, 0, sequence), count, repeated=False)
        if epoch < last.epoch:
            text = f"epoch {epoch} is older than {last.epoch}"
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, text)
        expected = last.after(1)
        if sequence == expected.sequence:
            return _sequence_range(expected, count, repeated=False)
        # behind or ahead is told by the shorter way round
        if self.is_gap(epoch, sequence):
            text = f"sequence {sequence} where {expected.sequence} is next"
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
        era = expected.era if sequence < expected.sequence else expected.era - 1
        repeated = _sequence_range(SequencePosition(epoch, max(era, 0), sequence), count, repeated=True)
        if repeated.last > last:
            text = f"a batch of {count} from sequence {sequence} on, of which those up to {last.sequence} are stored"
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
        return repeated

    def append(self, batch: SequenceRange) -> None:
        """Take note that a batch judged to be next is appended."""
        self._last = batch.last


def _sequence_range(first: SequencePosition, count: int, *, repeated: bool) -> SequenceRange:
    return SequenceRange(first, first.after(count - 1), repeated)
