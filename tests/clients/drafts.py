"""The records that every client writes and every client reads back: each varies one field."""

from __future__ import annotations

import random

from tests.clients.model import CODECS, Codec, Draft

PARTITIONS = 3
BINARY = bytes(range(256))
BIG = random.Random(900).randbytes(900_000)
MORNING = 1_600_000_000_123  # a time far from now: no server may replace it


def _number(drafts: list[Draft]) -> list[Draft]:
    spread = [(draft, position % PARTITIONS) for position, draft in enumerate(drafts)]
    return [
        Draft(draft.name, draft.value, draft.key, draft.headers, draft.timestamp, partition)
        for draft, partition in spread
    ]


def all_fields() -> list[Draft]:
    """Return one record for each variety of each field, spread over the partitions."""
    return _number(
        [
            Draft("text", b"value", b"key"),
            Draft("key-null", b"value"),
            Draft("key-empty", b"value", b""),
            Draft("key-unicode", b"value", "schlüssel 🔑".encode()),
            Draft("key-binary", b"value", b"\x00\xff\xfe\x80key\r\n"),
            Draft("key-looks-like-base64", b"value", b"a2V5"),
            Draft("value-null", None, b"gone"),
            Draft("value-null-key-null", None),
            Draft("value-null-key-empty", None, b""),
            Draft("value-empty", b"", b"key"),
            Draft("value-empty-key-null", b""),
            Draft("value-empty-key-empty", b"", b""),
            Draft("value-unicode", "größer als 🐘\n".encode(), b"key"),
            Draft("value-binary", BINARY, b"key"),
            Draft("value-900kB", BIG, b"big"),
            Draft("headers-one", b"v", b"k", (("a", b"1"),)),
            Draft("headers-many", b"v", b"k", tuple((f"header-{n}", str(n).encode()) for n in range(20))),
            Draft("headers-duplicate", b"v", b"k", (("a", b"1"), ("b", b"2"), ("a", b"3"), ("a", b"1"))),
            Draft("headers-binary", b"v", b"k", (("bin", b"\xff\xfe\x80\x01"), ("text", b"t"))),
            Draft("headers-zero-byte", b"v", b"k", (("bin", BINARY),)),
            Draft("headers-empty-value", b"v", b"k", (("e", b""), ("f", b"1"))),
            Draft("headers-null-value", b"v", b"k", (("n", None), ("f", b"1"), ("n", b""))),
            Draft("headers-unicode-name", b"v", b"k", (("überschrift", "größe".encode()),)),
            Draft("headers-on-tombstone", None, b"k", (("why", b"deleted"),)),
            Draft("headers-without-key", b"v", None, (("a", b"1"),)),
            Draft("time-old", b"v", b"k", (), MORNING),
            Draft("time-zero", b"v", b"k", (), 0),
            Draft("time-older-than-the-one-before", b"v", b"k", (), MORNING - 1000),
        ]
    )


def compressible(codec: Codec) -> list[Draft]:
    """Return records worth compressing, all in the partition of their codec."""
    partition = CODECS.index(codec)
    filler = b"the same words again and again; " * 30
    return [
        Draft(f"{codec}-{n}", b"%d " % n + filler, b"key-%d" % (n % 3), (("n", b"%d" % n),), None, partition)
        for n in range(40)
    ]


def keyed() -> list[Draft]:
    """Return records whose partition the client chooses by the key, each key several times."""
    return [
        Draft(f"keyed-{n}", b"%d" % n, key, partition=None)
        for n, key in enumerate([b"user-%d" % (n % 20) for n in range(40)] + [b"\xff\x00", "ü".encode()])
    ]


def timed(start: int, count: int) -> list[Draft]:
    """Return records a second apart."""
    return [Draft(f"timed-{n}", b"%d" % n, b"k", (), start + 1000 * n) for n in range(count)]
