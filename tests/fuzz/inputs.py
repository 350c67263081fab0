"""What a hostile client sends: bytes that are no requests, names that lead elsewhere, damaged batches of records."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Callable

import crc32c

from tests.fuzz import wire

NOT_KAFKA = {
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n" + bytes(64),
    "tls": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "negative": struct.pack(">i", -1) + bytes(8),
    "zero": struct.pack(">i", 0) + bytes(8),
    "smallest": struct.pack(">i", -(2**31)) + bytes(8),
    "largest": struct.pack(">i", 2**31 - 1) + bytes(8),
    "100 MiB + 1": struct.pack(">i", 100 * 2**20 + 1) + bytes(8),
}

NAMES = [b"..", b".", b"", b"a/b", b"persistent://other/ns/t", b"a%2Fb", b"a\0b", b"a\r\nb", b"x" * 250, b"x" * 32000,
         b"__change_events", b"t-partition-1", "ключ".encode(), b"\xff\xfe", b"${jndi:ldap://x}", b"a?b=c",
         b"a#b"]  # fmt: skip


def patched(at: int, data: bytes, *, checksum: bool = True) -> Callable[[], bytes]:
    def make() -> bytes:
        found = bytearray(wire.batch())
        found[at : at + len(data)] = data
        return with_checksum(found) if checksum else bytes(found)

    return make


def with_checksum(batch: bytes | bytearray) -> bytes:
    checksum: int = crc32c.crc32c(bytes(batch[21:]))
    return bytes(batch[:17]) + checksum.to_bytes(4, "big") + bytes(batch[21:])


def with_records(records: bytes, attributes: int, count: int = 3) -> bytes:
    found = bytearray(wire.batch()[:61] + records)
    found[8:12] = struct.pack(">i", len(found) - 12)
    found[21:23] = struct.pack(">h", attributes)
    found[57:61] = struct.pack(">i", count)
    return with_checksum(found)


BATCHES: dict[str, Callable[[], bytes]] = {
    "checksum": patched(17, bytes(4), checksum=False),
    "a bit": lambda: wire.batch()[:-2] + bytes([wire.batch()[-2] ^ 1]) + wire.batch()[-1:],
    "length 0": patched(8, struct.pack(">i", 0)),
    "length -1": patched(8, struct.pack(">i", -1)),
    "length large": patched(8, struct.pack(">i", 1 << 30)),
    "length one less": patched(8, struct.pack(">i", len(wire.batch()) - 13)),
    "cut": lambda: wire.batch()[:-5],
    "half a header": lambda: wire.batch()[:30],
    "bytes after": lambda: wire.batch() + b"\0",
    "empty": lambda: b"",
    "magic 0": patched(16, b"\0"),
    "magic 1": patched(16, b"\1"),
    "magic 3": patched(16, b"\3"),
    "magic -1": patched(16, b"\xff"),
    "count 0": patched(57, struct.pack(">i", 0)),
    "count -1": patched(57, struct.pack(">i", -1)),
    "count low": patched(57, struct.pack(">i", 2)),
    "count high": patched(57, struct.pack(">i", 4)),
    "count huge": patched(57, struct.pack(">i", 2**31 - 1)),
    "last delta low": patched(23, struct.pack(">i", 1)),
    "last delta huge": patched(23, struct.pack(">i", 2**31 - 1)),
    "last delta -1": patched(23, struct.pack(">i", -1)),
    "control": patched(21, struct.pack(">h", 0x20)),
    "transactional": patched(21, struct.pack(">h", 0x10)),
    "log append time": patched(21, struct.pack(">h", 0x08)),
    "codec 7": patched(21, struct.pack(">h", 7)),
    "gzip that is none": patched(21, struct.pack(">h", 1)),
    "snappy that is none": patched(21, struct.pack(">h", 2)),
    "lz4 that is none": patched(21, struct.pack(">h", 3)),
    "zstd that is none": patched(21, struct.pack(">h", 4)),
    "id without epoch": patched(43, struct.pack(">q", 7)),
    "noise": lambda: random.Random(1).randbytes(300),
    "gzip bomb": lambda: with_records(gzip.compress(bytes(1 << 28), 9), 1),
    "snappy chunk of 2 GiB": lambda: with_records(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1\x7f\xff\xff\xff" + bytes(9), 2),
    "zstd claims 2^40": lambda: with_records(b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 40) + bytes(9), 4),
    "many empty records": lambda: with_records(bytes(200_000), 0, 200_000),
}
