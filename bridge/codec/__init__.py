"""The hot byte work; this file chooses the twin that does it."""

from bridge.codec._python import build_batch, decode_payload, encode_payload, read_header, read_records
from bridge.codec.types import (
    HEADER_SIZE,
    NO_PRODUCER,
    NO_TIMESTAMP,
    BatchHeader,
    Header,
    Payload,
    Rebuild,
    Record,
)

__all__ = [
    "HEADER_SIZE",
    "NO_PRODUCER",
    "NO_TIMESTAMP",
    "BatchHeader",
    "Header",
    "Payload",
    "Rebuild",
    "Record",
    "build_batch",
    "decode_payload",
    "encode_payload",
    "read_header",
    "read_records",
]
