"""Refuses compressed records that no Kafka client reads, by what their frames say: nothing is decompressed.

A producer's own library decides what it writes: linked blocks, a dictionary, another framing. Java's consumers fail at
such a batch, every time, and do not get past it. What they read is what Kafka's broker takes: `Lz4BlockInputStream`,
snappy-java's `SnappyInputStream`, zstd-jni (RFC 8878) and `GZIPInputStream`. What is within the blocks is not looked
at, nor any block after the first ten thousand.
"""

import struct
from collections.abc import Callable
from functools import lru_cache

from bridge.errors import InvalidRecord

XERIAL = b"\x82SNAPPY\x00"
XERIAL_HEADER = 16
GZIP = b"\x1f\x8b\x08"
LEAST_GZIP = 18
_LZ4, _LZ4_SMALLEST = b"\x04\x22\x4d\x18", 7
_SNAPPY_FRAMES = b"\xff\x06\x00\x00sNaPpY"
_ZSTD, _SKIPPABLE = 0xFD2FB528, 0x184D2A50
_ZSTD_WINDOW = (1 << 27) + 1  # what its library allows where it is not asked for more
_MAX_BLOCKS = 10_000
_U32 = struct.Struct("<I")


def check_frames(codec: int, data: memoryview) -> None:
    """Raise InvalidRecord if clients cannot read what is compressed so; all other codecs are no matter of this."""
    check = _CHECKS.get(codec)
    if check is None:
        return
    try:
        check(data)
    except (IndexError, struct.error):
        raise InvalidRecord("the compressed records end in the middle") from None


def _gzip(data: memoryview) -> None:
    if data[:3] != GZIP or len(data) < LEAST_GZIP:
        raise InvalidRecord("the records are no gzip member")


def _snappy(data: memoryview) -> None:
    if data[: len(XERIAL)] != XERIAL:
        if not data or data[: len(_SNAPPY_FRAMES)] == _SNAPPY_FRAMES:
            raise InvalidRecord("the records are no snappy block, and not in snappy-java's frames")
        return
    pos = XERIAL_HEADER
    if len(data) < pos:
        raise InvalidRecord("the header of the snappy stream ends in the middle")
    for _ in range(_MAX_BLOCKS):
        if len(data) - pos < 4:
            break
        if data[pos : pos + len(XERIAL)] == XERIAL:  # another stream follows
            pos += XERIAL_HEADER
            continue
        size = int.from_bytes(data[pos : pos + 4], "big")
        pos += 4 + size
        if not size or pos > len(data):
            raise InvalidRecord("a snappy chunk is empty or goes beyond its stream")


def _lz4(data: memoryview) -> None:
    flags, sizes = data[4], data[5]
    if data[:4] != _LZ4 or flags >> 6 != 1:
        raise InvalidRecord("the records are no LZ4 frame, version 1")
    if not flags & 0x20:
        raise InvalidRecord("the LZ4 frame has linked blocks, which no Java client reads: write independent ones")
    if flags & 0x03 or sizes & 0x8F or not 4 <= sizes >> 4 <= 7:
        raise InvalidRecord("the LZ4 frame needs a dictionary, or has another bit that no Java client reads")
    end = 14 if flags & 0x08 else 6  # with its content's size
    if xxh32(bytes(data[4:end])) >> 8 & 0xFF != data[end]:
        raise InvalidRecord("the checksum of the LZ4 frame's header does not match")
    pos = _lz4_end(data, end + 1, 1 << 8 + 2 * (sizes >> 4), 4 if flags & 0x10 else 0)
    if pos and flags & 0x04 and len(data) < pos + 4:
        raise InvalidRecord("the LZ4 frame ends in the middle")
    if pos and data[pos + (flags & 0x04) :][:4] == _LZ4:
        raise InvalidRecord("there are several LZ4 frames, of which Java clients read the first")


def _lz4_end(data: memoryview, pos: int, most: int, checksum: int) -> int:
    """Where the blocks end; 0 where that is too far."""
    for _ in range(_MAX_BLOCKS):
        size = _U32.unpack_from(data, pos)[0] & 0x7FFFFFFF
        pos += 4
        if not size:
            return pos
        pos += size + checksum
        if size > most:
            raise InvalidRecord("an LZ4 block is larger than its frame says")
    return 0


def _zstd(data: memoryview) -> None:
    if not data:
        raise InvalidRecord("the records are no zstd frame")
    pos, left = 0, _MAX_BLOCKS
    while pos < len(data) and left:
        left -= 1
        (magic,) = _U32.unpack_from(data, pos)
        if magic & ~0xF == _SKIPPABLE:
            pos += 8 + int(_U32.unpack_from(data, pos + 4)[0])
        elif magic == _ZSTD:
            pos, left = _zstd_end(data, _zstd_blocks(data, pos + 4), left, 4 if data[pos + 4] & 0x04 else 0)
        else:
            raise InvalidRecord("the records are no zstd frame")
    if left and pos > len(data):
        raise InvalidRecord("the zstd frame ends in the middle")


def _zstd_blocks(data: memoryview, pos: int) -> int:
    """Where the blocks of a frame begin whose header does."""
    flags = data[pos]
    single = flags & 0x20
    dictionary = (0, 1, 2, 4)[flags & 3]
    pos += 1
    if not single:
        exponent, mantissa = data[pos] >> 3, data[pos] & 7
        if (1 << 10 + exponent) // 8 * (8 + mantissa) > _ZSTD_WINDOW:
            raise InvalidRecord("the zstd frame has a window above 128 MiB, which clients do not open")
        pos += 1
    if any(data[pos : pos + dictionary]):
        raise InvalidRecord("the zstd frame needs a dictionary, which clients do not have")
    return pos + dictionary + (0, 2, 4, 8)[flags >> 6] + (1 if single and flags < 0x40 else 0)


def _zstd_end(data: memoryview, pos: int, left: int, checksum: int) -> tuple[int, int]:
    """Where a frame ends, and how many blocks more are looked at."""
    while left:
        left -= 1
        head = data[pos] | data[pos + 1] << 8 | data[pos + 2] << 16
        kind = head >> 1 & 3
        if kind == 3:
            raise InvalidRecord("a zstd block is of a kind that there is not")
        pos += 3 + (1 if kind == 1 else head >> 3)
        if head & 1:
            return pos + checksum, left
    return pos, 0


_CHECKS: dict[int, Callable[[memoryview], None]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
"""By Kafka's numbers (`compression.KafkaCodec`)."""


@lru_cache(maxsize=64)  # nearly all headers are one of a few
def xxh32(data: bytes) -> int:
    """The xxHash of less than 16 bytes, seed 0."""
    mask = 0xFFFFFFFF
    value = (374761393 + len(data)) & mask
    whole = len(data) // 4 * 4
    for (lane,) in struct.iter_unpack("<I", data[:whole]):
        value = (value + lane * 3266489917) & mask
        value = ((value << 17 | value >> 15) & mask) * 668265263 & mask
    for byte in data[whole:]:
        value = (value + byte * 374761393) & mask
        value = ((value << 11 | value >> 21) & mask) * 2654435761 & mask
    value = (value ^ value >> 15) * 2246822519 & mask
    value = (value ^ value >> 13) * 3266489917 & mask
    return value ^ value >> 16
