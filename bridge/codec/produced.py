"""What Kafka demands of the header of a batch that a producer sends (`LogValidator.validateBatch`)."""

from bridge.codec.types import BatchHeader
from bridge.errors import InvalidRecord

_LOG_APPEND_TIME = 0x08
_CONTROL = 0x20


def check_produced(header: BatchHeader) -> None:
    """Refuse what a broker may write and a producer may not; raises InvalidRecord.

    Whether a batch may be transactional, or its producer's epoch and sequence are the next, is not a codec's to know.
    """
    if header.attributes & _CONTROL:
        raise InvalidRecord("clients may not write control batches")
    if header.attributes & _LOG_APPEND_TIME:
        raise InvalidRecord("clients may not write the log's append time")
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise InvalidRecord(f"{header.record_count} records over {header.last_offset_delta + 1} offsets")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecord("a batch of an idempotent producer has no sequence")
