"""Counts the records in batches by their headers, for the metrics: nothing is decoded."""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from bridge.telemetry.traffic import Traffic

_HEAD: Final = Struct(">8xi4xB40xi")
"""Kafka's DefaultRecordBatch: the bytes after the length, the magic, and the number of records."""
_BEFORE_LENGTH_ENDS: Final = 12
_BATCHES: Final = 2
_MESSAGE_MAGIC_AT: Final = 16


class Sent:
    """How much of a partition is in an answer."""

    __slots__ = ("records", "size")

    def __init__(self, records: int, size: int) -> None:
        self.records = records
        self.size = size

    def count(self, traffic: Traffic) -> None:
        """It is sent."""
        traffic.records_out += self.records
        traffic.bytes_out += self.size


NOTHING: Final = Sent(0, 0)


def sent(batches: Iterable[bytes]) -> Sent:
    """What these buffers of batches, or of messages of older magics, have. One may be cut."""
    records = size = 0
    for data in batches:
        size += len(data)
        if len(data) < _HEAD.size:
            records += _walked(data)
            continue
        length, magic, count = _HEAD.unpack_from(data)
        records += count if magic == _BATCHES and length + _BEFORE_LENGTH_ENDS >= len(data) else _walked(data)
    return Sent(records, size)


def _walked(data: bytes) -> int:
    """The same of a buffer with more than one batch."""
    records = at = 0
    while at + _MESSAGE_MAGIC_AT < len(data):
        length = int.from_bytes(data[at + 8 : at + _BEFORE_LENGTH_ENDS], "big", signed=True)
        if data[at + _MESSAGE_MAGIC_AT] < _BATCHES:
            records += 1
        elif at + _HEAD.size <= len(data):
            records += _HEAD.unpack_from(data, at)[2]
        if length < 0:
            break
        at += length + _BEFORE_LENGTH_ENDS
    return records
