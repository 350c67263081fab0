"""What ShareFetch and ShareAcknowledge have in common (KIP-932)."""

from bridge.kafka.message import Int8, Int64, message


@message
class AcknowledgementBatch:
    """Offsets, both within, and the types of their acknowledgements: one for all, or one for each."""

    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]
