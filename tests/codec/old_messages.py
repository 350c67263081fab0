"""Messages of magic 0 and 1, built byte by byte."""

import struct
import zlib

from tests.codec.samples import NOW

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
"""Their codecs, as the attributes name them."""


def message(
    value: bytes | None, magic: int = 1, attributes: int = 0, *, key: bytes | None = None, timestamp: int = NOW
) -> bytes:
    """One message of given parts."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for field in (key, value):
        body += b"\xff\xff\xff\xff" if field is None else struct.pack(">i", len(field)) + field
    return struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body


WHOLE = message(b"value", key=b"key")
