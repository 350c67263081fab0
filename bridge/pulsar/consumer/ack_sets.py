"""Ack sets: which messages of a batch are acknowledged (PIP-54, batch index acknowledgment).

A bit stands for each message of the batch and is set until the message is acknowledged. The words are Java's longs, the
lowest index in the lowest bit of the first word. The broker takes ack sets where its setting
`acknowledgmentAtBatchIndexLevelEnabled` is true; elsewhere it ignores the acknowledgement.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from bridge.pulsar.types import signed

_WORD_BITS: Final = 64
_WORD_MASK: Final = (1 << _WORD_BITS) - 1


def ack_set(batch_size: int, acknowledged: Iterable[int]) -> tuple[int, ...]:
    """The set that acknowledges these messages of a batch, by their indexes."""
    bits = (1 << batch_size) - 1
    for index in acknowledged:
        if not 0 <= index < batch_size:
            raise ValueError(f"a batch of {batch_size} has no message {index}")
        bits &= ~(1 << index)
    words = range(0, batch_size, _WORD_BITS)
    return tuple(signed(bits >> shift & _WORD_MASK) for shift in words)


def unacknowledged(words: Sequence[int], batch_size: int) -> list[int]:
    """The indexes that are still to be acknowledged; an empty set stands for a batch of which none is."""
    if not words:
        return list(range(batch_size))
    return [
        index
        for index in range(batch_size)
        if index // _WORD_BITS < len(words) and words[index // _WORD_BITS] >> index % _WORD_BITS & 1
    ]


def count(words: Sequence[int]) -> int:
    """How many messages are still to be acknowledged."""
    return sum((word & _WORD_MASK).bit_count() for word in words)
