"""Keyed records as one Pulsar batch entry, and back.

Each message carries its own key (SingleMessageMetadata.partition_key), which is what Pulsar's compaction goes by: it
keeps the last value of each key inside the batches, at its entry's position, and marks the others as `compacted_out`.
An empty value deletes its key as `null_value` does (RawBatchConverter, AbstractTwoPhaseCompactor).
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from bridge.errors import BridgeError
from bridge.pulsar.pb import PulsarApi_pb2 as pb

_U32: Final = struct.Struct(">I")
OVERHEAD: Final = 24
"""What a record takes in an entry beside its key and value, at most."""


class Record(NamedTuple):
    """A message: its key, and its value or None to delete the key."""

    key: str
    value: bytes | None


class NotABatch(BridgeError):
    """The entry is not a batch as this module packs it."""


def pack(records: Sequence[Record]) -> tuple[pb.MessageMetadata, bytes]:
    """One entry's metadata and payload."""
    payload = bytearray()
    for key, value in records:
        single = pb.SingleMessageMetadata(partition_key=key, payload_size=len(value or b""))
        if not value:
            single.null_value = True
        head = single.SerializeToString()
        payload += _U32.pack(len(head))
        payload += head
        payload += value or b""
    return pb.MessageMetadata(num_messages_in_batch=len(records)), bytes(payload)


def unpack(metadata: pb.MessageMetadata, payload: memoryview) -> Iterator[Record]:
    """The entry's records without those that were compacted out; raises NotABatch."""
    if not metadata.HasField("num_messages_in_batch") or metadata.compression != pb.NONE:
        raise NotABatch("not an uncompressed batch")
    at = 0
    try:
        for _ in range(metadata.num_messages_in_batch):
            (size,) = _U32.unpack_from(payload, at)
            at += 4
            single = pb.SingleMessageMetadata.FromString(bytes(payload[at : at + size]))
            at += size
            value = bytes(payload[at : at + single.payload_size])
            if len(value) != single.payload_size:
                raise NotABatch("cut off")
            at += single.payload_size
            # upb hands out bytes for a string that is not UTF-8, which is no key of ours
            if not single.compacted_out and isinstance(single.partition_key, str):
                yield Record(single.partition_key, None if single.null_value or not value else value)
    except (struct.error, DecodeError) as error:
        raise NotABatch(str(error) or "cut off") from None
