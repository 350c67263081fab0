"""A whole uncompressed batch, made smaller: its records compressed, its header told so."""

from bridge.codec import crc32c
from bridge.codec.compression import KafkaCodec, compress_kafka
from bridge.codec.types import HEADER_SIZE

_ATTRIBUTES_AT, _ATTRIBUTES_END = 21, 23


def pack(batch: bytes, codec: KafkaCodec) -> bytes:
    """The batch (v2, as `build_batch` makes it) with its records compressed; as it is where that gains nothing."""
    packed = compress_kafka(codec, batch[HEADER_SIZE:])
    if len(packed) >= len(batch) - HEADER_SIZE:
        return batch
    attributes = int.from_bytes(batch[_ATTRIBUTES_AT:_ATTRIBUTES_END], "big") | codec
    head = attributes.to_bytes(2, "big") + batch[_ATTRIBUTES_END:HEADER_SIZE]
    checksum = crc32c(packed, crc32c(head))
    size = len(packed) + HEADER_SIZE - 12
    return b"".join((batch[:8], size.to_bytes(4, "big"), batch[12:17], checksum.to_bytes(4, "big"), head, packed))
