"""Every compression codec of Kafka and of Pulsar, each output bounded before it is made.

Kafka names codecs in the low three bits of a batch's attributes; Pulsar in `MessageMetadata.compression` together
with `uncompressed_size`. Kafka's snappy comes raw or in xerial frames, its lz4 is the frame format; Pulsar's lz4 and
snappy are raw blocks.
"""

import struct
import sys
import zlib
from collections.abc import Callable
from enum import IntEnum

import cramjam
import lz4.frame

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from bridge.errors import CorruptBatch, CorruptEntry

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_CODEC_MASK = 0x07


class KafkaCodec(IntEnum):
    """The codecs of a Kafka batch (KIP-110 added zstd)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class PulsarCodec(IntEnum):
    """Pulsar's `CompressionType`."""

    NONE = 0
    LZ4 = 1
    ZLIB = 2
    ZSTD = 3
    SNAPPY = 4


def decompress_kafka(attributes: int, data: bytes | memoryview, limit: int) -> bytes:
    """The records section of a batch, uncompressed; raises CorruptBatch if damaged or above `limit` bytes."""
    codec = attributes & _CODEC_MASK
    if codec == KafkaCodec.NONE:
        return bytes(data)
    decompress = _KAFKA.get(codec)
    if decompress is None:
        raise CorruptBatch(f"compression codec {codec} is unknown")
    try:
        return decompress(bytes(data), limit)
    except _LIBRARY_ERRORS as error:
        raise CorruptBatch(f"{KafkaCodec(codec).name} data cannot be decompressed: {error}") from error


def decompress_pulsar(codec: int, data: bytes | memoryview, size: int, limit: int) -> bytes:
    """An entry's payload, uncompressed to exactly `size` bytes; raises CorruptEntry otherwise."""
    if codec == PulsarCodec.NONE:
        return bytes(data)
    decompress = _PULSAR.get(codec)
    if decompress is None:
        raise CorruptEntry(f"compression type {codec} is unknown")
    if size > limit:
        raise CorruptEntry(f"the entry claims {size} bytes uncompressed, the limit is {limit}")
    try:
        plain = decompress(bytes(data), size)
    except _LIBRARY_ERRORS as error:
        raise CorruptEntry(f"{PulsarCodec(codec).name} data cannot be decompressed: {error}") from error
    if len(plain) != size:
        raise CorruptEntry(f"the entry claims {size} bytes uncompressed and has {len(plain)}")
    return plain


class _TooLarge(ValueError):
    pass


# what the libraries raise for damaged input; all of them are told here what they mean
_LIBRARY_ERRORS = (
    _TooLarge, zlib.error, zstd.ZstdError, cramjam.DecompressionError, RuntimeError, ValueError, EOFError, struct.error,
)  # fmt: skip


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise _TooLarge(f"more than {limit} bytes uncompressed")


def _gzip(data: bytes, limit: int) -> bytes:
    out = bytearray()
    while data:  # gzip allows several members one after another
        member = zlib.decompressobj(wbits=31)
        out += member.decompress(data, limit + 1 - len(out))
        _check(len(out), limit)
        if not member.eof:
            raise EOFError("the stream ends in the middle")
        data = member.unused_data
    return bytes(out)


def _zlib(data: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj()
    out = stream.decompress(data, limit + 1)
    _check(len(out), limit)
    if not stream.eof:
        raise EOFError("the stream ends in the middle")
    return out


def _zstd(data: bytes, limit: int) -> bytes:
    out = bytearray()
    while data:  # frames may follow one another
        frame = zstd.ZstdDecompressor()
        out += frame.decompress(data, max_length=limit + 1 - len(out))
        _check(len(out), limit)
        if not frame.eof:
            raise EOFError("the frame ends in the middle")
        data = frame.unused_data
    return bytes(out)


def _lz4_frame(data: bytes, limit: int) -> bytes:
    out = bytearray()
    while data:
        frame = lz4.frame.LZ4FrameDecompressor()
        out += frame.decompress(data, max_length=limit + 1 - len(out))
        _check(len(out), limit)
        if not frame.eof:
            raise EOFError("the frame ends in the middle")
        data = frame.unused_data or b""
    return bytes(out)


def _snappy_block(data: bytes, limit: int) -> bytes:
    _check(cramjam.snappy.decompress_raw_len(data), limit)
    return bytes(cramjam.snappy.decompress_raw(data))


def _snappy_kafka(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL):
        return _snappy_block(data, limit)
    out = bytearray()
    pos = _XERIAL_HEADER
    while pos < len(data):
        (size,) = struct.unpack_from(">i", data, pos)
        pos += 4
        if size < 0 or pos + size > len(data):  # CVE-2023-34455: the chunk length comes from outside
            raise ValueError("a chunk goes beyond its stream")
        out += _snappy_block(data[pos : pos + size], limit - len(out))
        pos += size
    return bytes(out)


def _lz4_block(data: bytes, size: int) -> bytes:
    return bytes(cramjam.lz4.decompress_block(data, output_len=size))


_KAFKA: dict[int, Callable[[bytes, int], bytes]] = {
    KafkaCodec.GZIP: _gzip,
    KafkaCodec.SNAPPY: _snappy_kafka,
    KafkaCodec.LZ4: _lz4_frame,
    KafkaCodec.ZSTD: _zstd,
}

_PULSAR: dict[int, Callable[[bytes, int], bytes]] = {
    PulsarCodec.LZ4: _lz4_block,
    PulsarCodec.ZLIB: _zlib,
    PulsarCodec.ZSTD: _zstd,
    PulsarCodec.SNAPPY: _snappy_block,
}
