"""What compressed records say of themselves: what no Kafka client reads is refused, and nothing that they do read."""

import gzip
import random
import struct
import sys

import cramjam
import lz4.block
import lz4.frame
import pytest

from bridge.codec.compression import KafkaCodec, compress_kafka, decompress_kafka
from bridge.codec.frames import check_frames, xxh32
from bridge.errors import BridgeError, InvalidRecord
from tests.codec.damage import mutated

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CHANCE = random.Random("frames")
PLAIN = b"".join(CHANCE.randbytes(50) + b"some words, some words" for _ in range(3000))
SKIPPABLE = struct.pack("<II", 0x184D2A5F, 3) + b"abc"


def lz4_frame(**options: object) -> bytes:
    packed: bytes = lz4.frame.compress(PLAIN, **{"block_linked": False, "store_size": False, **options})
    return packed


def lz4_header(flags: int = 0x60, sizes: int = 0x40, more: bytes = b"") -> bytes:
    """A frame with this header, whose checksum fits."""
    header = bytes([flags, sizes]) + more
    return b"\x04\x22\x4d\x18" + header + bytes([xxh32(header) >> 8 & 0xFF]) + lz4_frame()[7:]


def zstd_header(flags: int, *more: int) -> bytes:
    """A frame with one raw block of three bytes."""
    return b"\x28\xb5\x2f\xfd" + bytes([flags, *more]) + (3 << 3 | 1).to_bytes(3, "little") + b"abc"


def streams(codec: KafkaCodec) -> bytes:
    return b"".join(compress_kafka(codec, PLAIN[at : at + 5000]) for at in range(0, len(PLAIN), 5000))


READ: dict[str, tuple[KafkaCodec, bytes]] = {
    **{f"{codec.name} as we write it": (codec, compress_kafka(codec, PLAIN)) for codec in KafkaCodec},
    "no codec": (KafkaCodec.NONE, b"anything"),
    "gzip members": (KafkaCodec.GZIP, streams(KafkaCodec.GZIP)),
    "xerial streams": (KafkaCodec.SNAPPY, streams(KafkaCodec.SNAPPY)),
    "bytes after xerial": (KafkaCodec.SNAPPY, compress_kafka(KafkaCodec.SNAPPY, PLAIN) + b"two"),
    "snappy alone": (KafkaCodec.SNAPPY, bytes(cramjam.snappy.compress_raw(PLAIN))),
    "lz4 with everything": (KafkaCodec.LZ4, lz4_frame(block_checksum=True, content_checksum=True, store_size=True)),
    "lz4, small blocks": (KafkaCodec.LZ4, lz4_frame(block_size=lz4.frame.BLOCKSIZE_MAX64KB)),
    "lz4, large blocks": (KafkaCodec.LZ4, lz4_frame(block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
    "lz4, other sizes said": (KafkaCodec.LZ4, lz4_header(sizes=0x70)),
    "bytes after lz4": (KafkaCodec.LZ4, lz4_frame() + b"more"),
    "zstd frames": (KafkaCodec.ZSTD, streams(KafkaCodec.ZSTD)),
    "zstd with a checksum": (
        KafkaCodec.ZSTD,
        zstd.compress(PLAIN, options={zstd.CompressionParameter.checksum_flag: 1}) * 2,
    ),
    "zstd, skippable": (KafkaCodec.ZSTD, SKIPPABLE + zstd.compress(PLAIN) + SKIPPABLE),
    "zstd runs": (KafkaCodec.ZSTD, zstd.compress(bytes(500_000))),
    "zstd, no dictionary said": (KafkaCodec.ZSTD, zstd_header(1, 0, 0)),
    "zstd, window of 128 MiB": (KafkaCodec.ZSTD, zstd_header(0, 17 << 3)),
    "zstd, size said in 8 bytes": (KafkaCodec.ZSTD, zstd_header(0xE0, 3, *bytes(7))),
}

REFUSED: dict[str, tuple[KafkaCodec, bytes, str]] = {
    "no gzip": (KafkaCodec.GZIP, b"none" * 9, "no gzip"),
    "short gzip": (KafkaCodec.GZIP, gzip.compress(b"")[:17], "no gzip"),
    "no snappy": (KafkaCodec.SNAPPY, b"", "no snappy"),
    "snappy's frames": (KafkaCodec.SNAPPY, bytes(cramjam.snappy.compress(PLAIN)), "no snappy"),
    "xerial header": (KafkaCodec.SNAPPY, compress_kafka(KafkaCodec.SNAPPY, PLAIN)[:15], "header"),
    "xerial chunk of nothing": (KafkaCodec.SNAPPY, compress_kafka(KafkaCodec.SNAPPY, PLAIN) + bytes(4), "empty"),
    "xerial cut": (KafkaCodec.SNAPPY, compress_kafka(KafkaCodec.SNAPPY, PLAIN)[:-1], "beyond"),
    "lz4 linked": (KafkaCodec.LZ4, lz4_frame(block_linked=True), "linked"),
    "lz4 version": (KafkaCodec.LZ4, lz4_header(0xA0), "version"),
    "lz4 dictionary": (KafkaCodec.LZ4, lz4_header(0x61, more=b"\1\0\0\0"), "dictionary"),
    "lz4 reserved": (KafkaCodec.LZ4, lz4_header(sizes=0xC0), "bit"),
    "lz4 sizes": (KafkaCodec.LZ4, lz4_header(sizes=0x30), "bit"),
    "lz4 header": (KafkaCodec.LZ4, lz4_frame()[:6] + b"\0" + lz4_frame()[7:], "checksum"),
    "lz4 alone": (KafkaCodec.LZ4, lz4.block.compress(PLAIN, store_size=False), "no LZ4"),
    "lz4 skippable": (KafkaCodec.LZ4, SKIPPABLE + lz4_frame(), "no LZ4"),
    "lz4 frames": (KafkaCodec.LZ4, lz4_frame() * 2, "several"),
    "lz4 cut": (KafkaCodec.LZ4, lz4_frame()[:-5], "middle"),
    "lz4 without its checksum": (KafkaCodec.LZ4, lz4_frame(content_checksum=True)[:-1], "middle"),
    "lz4 too large": (KafkaCodec.LZ4, lz4_header() [:7] + struct.pack("<I", 65537) + bytes(65541), "larger"),
    "no lz4": (KafkaCodec.LZ4, b"", "middle"),
    "no zstd": (KafkaCodec.ZSTD, zstd.compress(PLAIN)[4:], "no zstd"),
    "bytes after zstd": (KafkaCodec.ZSTD, zstd.compress(PLAIN) + bytes(8), "no zstd"),
    "zstd dictionary": (KafkaCodec.ZSTD, zstd_header(1, 0, 7), "dictionary"),
    "zstd window": (KafkaCodec.ZSTD, zstd_header(0, 17 << 3 | 1), "window"),
    "zstd block": (KafkaCodec.ZSTD, b"\x28\xb5\x2f\xfd\0\0\x07\0\0", "kind"),
    "zstd cut": (KafkaCodec.ZSTD, zstd.compress(PLAIN)[:-1], "middle"),
    "zstd frames, the last cut": (KafkaCodec.ZSTD, zstd.compress(PLAIN) * 2 + zstd.compress(PLAIN)[:3], "middle"),
}  # fmt: skip


@pytest.mark.parametrize("kind", READ)
def test_what_clients_read_passes(kind: str) -> None:
    codec, data = READ[kind]
    check_frames(codec, memoryview(data))


@pytest.mark.parametrize("kind", REFUSED)
def test_what_no_client_reads_is_refused(kind: str) -> None:
    codec, data, text = REFUSED[kind]
    with pytest.raises(InvalidRecord, match=text):
        check_frames(codec, memoryview(data))


@pytest.mark.parametrize("codec", [one for one in KafkaCodec if one])
def test_any_cut_is_read_or_refused(codec: KafkaCodec) -> None:
    packed = compress_kafka(codec, PLAIN[:500])
    for end in range(len(packed)):
        assert is_refused(codec, packed[:end]) or codec == KafkaCodec.GZIP or codec == KafkaCodec.SNAPPY


@pytest.mark.parametrize("codec", [KafkaCodec.GZIP, KafkaCodec.SNAPPY, KafkaCodec.ZSTD])
def test_what_can_be_decompressed_is_not_refused(codec: KafkaCodec) -> None:
    """Of LZ4 the library reads more than Kafka's clients."""
    packed = streams(codec)[:3000]
    for _ in range(300):
        damaged = mutated(packed, CHANCE)
        try:
            decompress_kafka(codec, damaged, 1 << 20)
        except BridgeError:
            is_refused(codec, damaged)
        else:
            assert not is_refused(codec, damaged)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (KafkaCodec.LZ4, lz4_frame()[:7] + b"\1\0\0\x80x" * 50_000),  # without an end
        (KafkaCodec.ZSTD, b"\x28\xb5\x2f\xfd\0\0" + bytes(300_000)),
        (KafkaCodec.ZSTD, SKIPPABLE * 30_000 + b"wrong"),
        (KafkaCodec.SNAPPY, compress_kafka(KafkaCodec.SNAPPY, b"") + b"\0\0\0\1\0" * 50_000 + b"wrong"),
    ],
)
def test_no_more_than_ten_thousand_blocks_are_looked_at(codec: KafkaCodec, data: bytes) -> None:
    assert not is_refused(codec, data)
    assert is_refused(codec, data[:25] + data[-25:])


def is_refused(codec: KafkaCodec, data: bytes) -> bool:
    try:
        check_frames(codec, memoryview(data))
    except InvalidRecord:
        return True
    return False
