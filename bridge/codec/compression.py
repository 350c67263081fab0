"""Every compression codec of Kafka and of Pulsar, both ways; what is decompressed is bounded before it is made.

Kafka names codecs in the low three bits of a batch's attributes; Pulsar in `MessageMetadata.compression` together
with `uncompressed_size`. Kafka's snappy comes raw or in xerial frames, its lz4 is the frame format; Pulsar's lz4 and
snappy are raw blocks.

Memory follows the bytes received: a claimed size is believed only as far as the codec could make so much of so few
bytes. Kafka's records may be several gzip members, zstd frames or xerial streams: 16, and one more for each KiB that
may be made, for a zstd frame costs 5 us whatever it holds. As by Java's readers, nothing after an lz4 frame is looked
at, nor what is no member after a gzip member.
"""

import sys
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import partial
from itertools import chain
from typing import Protocol, overload

import cramjam
import lz4.block
import lz4.frame

if sys.version_info >= (3, 14):  # pragma: no cover — one of the two on any Python
    from compression import zstd
else:
    from backports import zstd

from bridge.codec.frames import GZIP, LEAST_GZIP, XERIAL, XERIAL_HEADER
from bridge.errors import BatchTooLarge, CorruptBatch, CorruptEntry
from bridge.runtime.memory import mapped

_XERIAL_START = XERIAL + b"\0\0\0\1\0\0\0\1"  # its version, and the oldest that reads it
CODEC_MASK = 0x07
_FEW_STREAMS, _STREAM_BYTES = 16, 1024  # so many streams always; of what may be made, for each beyond
_FIRST_FED = 512  # bytes of a stream behind another, then twice as many: a stream's end copies what it was not fed for
_PIECE = 1024 * 1024
"""What is made at a time: the libraries copy what they have made with the GIL held, 8 ms for 20 MB."""
_LZ4_RATIO = 255  # the most bytes that one byte can stand for
_SNAPPY_RATIO = 22
# Level 6 of deflate, which clients use, takes three times as long as 1 for a tenth less; level 3 of zstd gains nothing.
_DEFLATE_LEVEL = 1
_ZSTD_LEVEL = 1
_XERIAL_CHUNK = 32 * 1024  # snappy-java's


class KafkaCodec(IntEnum):
    """The codecs of a Kafka batch (KIP-110 added zstd)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class PulsarCodec(IntEnum):
    """A codec by its number in Pulsar's `CompressionType`."""

    NONE = 0
    LZ4 = 1
    ZLIB = 2
    ZSTD = 3
    SNAPPY = 4


PULSAR_OF = {
    KafkaCodec.NONE: PulsarCodec.NONE,
    KafkaCodec.GZIP: PulsarCodec.ZLIB,
    KafkaCodec.SNAPPY: PulsarCodec.SNAPPY,
    KafkaCodec.LZ4: PulsarCodec.LZ4,
    KafkaCodec.ZSTD: PulsarCodec.ZSTD,
}
"""Each Kafka codec as Pulsar has it: the same algorithm, framed otherwise."""
KAFKA_OF: dict[int, KafkaCodec] = {int(pulsar): kafka for kafka, pulsar in PULSAR_OF.items()}


def compress_kafka(codec: KafkaCodec, data: bytes) -> bytes:
    """The records section of a batch, compressed as Kafka's own clients do it, which all clients read."""
    return _TO_KAFKA[codec](data)


def compress_pulsar(codec: PulsarCodec, data: bytes) -> bytes:
    """An entry's payload, compressed as Pulsar's own clients do it."""
    return _TO_PULSAR[codec](data)


@overload
def decompress_kafka(attributes: int, data: bytes, limit: int) -> bytes: ...
@overload
def decompress_kafka(attributes: int, data: bytes | memoryview, limit: int) -> bytes | memoryview: ...
def decompress_kafka(attributes: int, data: bytes | memoryview, limit: int) -> bytes | memoryview:
    """The records section of a batch, uncompressed; raises CorruptBatch, BatchTooLarge above `limit` bytes.

    What was never compressed comes back as it is, whatever its size.
    """
    codec = attributes & CODEC_MASK
    if codec == KafkaCodec.NONE:
        return data
    decompress = _KAFKA.get(codec)
    if decompress is None:
        raise CorruptBatch(f"compression codec {codec} is unknown")
    try:
        return decompress(bytes(data), limit)
    except _TooLarge as error:
        raise BatchTooLarge(f"{KafkaCodec(codec).name} data: {error}") from error
    except _LIBRARY_ERRORS as error:
        raise CorruptBatch(f"{KafkaCodec(codec).name} data cannot be decompressed: {error}") from error


def decompress_pulsar(codec: int, data: bytes | memoryview, size: int, limit: int) -> bytes | memoryview:
    """An entry's payload, uncompressed to exactly `size` bytes; raises CorruptEntry otherwise.

    Nothing stays nothing in every codec (Go's zstd writes it so); an uncompressed payload is as long as it is.
    """
    if codec == PulsarCodec.NONE or (size == 0 and not data):
        return data
    decompress = _PULSAR.get(codec)
    if decompress is None:
        raise CorruptEntry(f"compression type {codec} is unknown")
    if not 0 <= size <= limit:
        raise CorruptEntry(f"the entry claims {size} bytes uncompressed, the limit is {limit}")
    try:
        plain = decompress(bytes(data), size)
    except _LIBRARY_ERRORS as error:
        raise CorruptEntry(f"{PulsarCodec(codec).name} data cannot be decompressed: {error}") from error
    if len(plain) != size:
        raise CorruptEntry(f"the entry claims {size} bytes uncompressed and has {len(plain)}")
    return plain


# what the libraries raise for damaged input, and what this module does; all are told above what they mean
_LIBRARY_ERRORS = (
    zlib.error, zstd.ZstdError, cramjam.DecompressionError, lz4.block.LZ4BlockError, RuntimeError, ValueError, EOFError,
)  # fmt: skip


class _TooLarge(ValueError):
    """Data decompress to more than is allowed."""


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise _TooLarge(f"more than {limit} bytes uncompressed")


class _Stream(Protocol):
    """A decompressor of one gzip member, zstd frame or lz4 frame (the methods of `bz2.BZ2Decompressor`)."""

    def decompress(self, data: bytes, max_length: int) -> bytes: ...
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...


class _Inflater:
    """zlib's object, as the others are."""

    def __init__(self, wbits: int) -> None:
        self._stream = zlib.decompressobj(wbits)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._stream.decompress(data or self._stream.unconsumed_tail, max_length)

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def needs_input(self) -> bool:
        return not self._stream.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data


Goes = Callable[[bytes, int], bool]
"""Whether another stream begins in data where one has ended."""


def _pieces(start: Callable[[], _Stream], data: bytes, limit: int, goes_on: Goes) -> Iterator[bytes]:
    """What the streams, one after another, are together, some of it at a time."""
    left, end = limit, 0
    for _ in range(_FEW_STREAMS + limit // _STREAM_BYTES):
        step = _FIRST_FED if end else len(data)
        fed = data[end : end + step]
        end += len(fed)
        stream = start()
        while not stream.eof:
            out = stream.decompress(fed, min(left + 1, _PIECE))  # one byte more than allowed tells
            _check(limit - left + len(out), limit)
            left -= len(out)
            fed = b""
            if out:
                yield out
            elif not stream.eof and stream.needs_input:
                if end == len(data):
                    raise EOFError("the stream ends in the middle")
                step *= 2
                fed = data[end : end + step]
                end += len(fed)
        end -= len(stream.unused_data or b"")
        if not goes_on(data, end):
            return
    raise _TooLarge(f"more than {_FEW_STREAMS + limit // _STREAM_BYTES} streams for {limit} bytes uncompressed")


def _never(data: bytes, end: int) -> bool:
    return False


def _not_at_all(data: bytes, end: int) -> bool:
    if end != len(data):
        raise ValueError("bytes follow the stream")
    return False


def _is_member(data: bytes, end: int) -> bool:
    return data.startswith(GZIP, end) and len(data) - end > LEAST_GZIP


def _is_more(data: bytes, end: int) -> bool:
    return end != len(data)


def _joined(pieces: Iterator[bytes | memoryview], limit: int) -> bytes | memoryview:
    """All of them, without one copy so long that the event loop waits for the GIL."""
    kept, size = [], 0
    for piece in pieces:
        kept.append(piece)
        size += len(piece)
        if size > _PIECE:
            break
    else:
        return kept[0] if len(kept) == 1 else b"".join(kept)
    room = mapped(limit + 1)  # never of no bytes
    end = 0
    for piece in chain(kept, pieces):
        room[end : end + len(piece)] = piece
        end += len(piece)
    return memoryview(room).toreadonly()[:end]


def _gzip(data: bytes, limit: int) -> bytes | memoryview:
    return _joined(_pieces(partial(_Inflater, 31), data, limit, _is_member), limit)


def _zstd(data: bytes, limit: int) -> bytes | memoryview:
    return _joined(_pieces(zstd.ZstdDecompressor, data, limit, _is_more), limit)


def _zlib(data: bytes, limit: int) -> bytes | memoryview:
    return _joined(_pieces(partial(_Inflater, zlib.MAX_WBITS), data, limit, _not_at_all), limit)


def _lz4_frame(data: bytes, limit: int) -> bytes | memoryview:
    limit = min(limit, _LZ4_RATIO * len(data))  # the library allocates all that it may make at once
    return _joined(_pieces(lz4.frame.LZ4FrameDecompressor, data, limit, _never), limit)


def _snappy_block(data: bytes, limit: int) -> bytes | memoryview:
    size = cramjam.snappy.decompress_raw_len(data)
    _check(size, min(limit, _SNAPPY_RATIO * len(data)))
    if size <= _PIECE:
        return bytes(cramjam.snappy.decompress_raw(data))
    room = memoryview(mapped(size))
    return room.toreadonly()[: cramjam.snappy.decompress_raw_into(data, room)]


def _snappy_kafka(data: bytes, limit: int) -> bytes | memoryview:
    if not data.startswith(XERIAL):
        return _snappy_block(data, limit)
    return _joined(_xerial_chunks(data, limit), limit)


def _xerial_chunks(data: bytes, limit: int) -> Iterator[bytes | memoryview]:
    left = limit
    pos = XERIAL_HEADER
    if len(data) < pos:
        raise ValueError("the stream ends in its header")
    while len(data) - pos >= 4:
        if data.startswith(XERIAL, pos):  # another stream
            pos += XERIAL_HEADER
            continue
        size = int.from_bytes(data[pos : pos + 4], "big")
        pos += 4
        if not 0 < size <= len(data) - pos:  # CVE-2023-34455: the chunk length comes from outside
            raise ValueError("a chunk is empty or goes beyond its stream")
        plain = _snappy_block(data[pos : pos + size], left)
        left -= len(plain)
        pos += size
        yield plain


def _lz4_block(data: bytes, size: int) -> bytes:
    _check(size, _LZ4_RATIO * len(data))
    # cramjam would return `size` bytes whatever the block holds
    plain: bytes = lz4.block.decompress(data, uncompressed_size=size)
    return plain


_KAFKA: dict[int, Callable[[bytes, int], bytes | memoryview]] = {
    KafkaCodec.GZIP: _gzip,
    KafkaCodec.SNAPPY: _snappy_kafka,
    KafkaCodec.LZ4: _lz4_frame,
    KafkaCodec.ZSTD: _zstd,
}

_PULSAR: dict[int, Callable[[bytes, int], bytes | memoryview]] = {
    PulsarCodec.LZ4: _lz4_block,
    PulsarCodec.ZLIB: _zlib,
    PulsarCodec.ZSTD: _zstd,
    PulsarCodec.SNAPPY: _snappy_block,
}


def _to_gzip(data: bytes) -> bytes:
    stream = zlib.compressobj(_DEFLATE_LEVEL, wbits=31)
    return stream.compress(data) + stream.flush()


def _to_zlib(data: bytes) -> bytes:
    return zlib.compress(data, _DEFLATE_LEVEL)


def _to_zstd(data: bytes) -> bytes:
    packed: bytes = zstd.compress(data, _ZSTD_LEVEL)
    return packed


def _to_lz4_frame(data: bytes) -> bytes:
    # linked blocks, which are the library's default, are refused by Kafka's Java clients
    packed: bytes = lz4.frame.compress(
        data, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB, store_size=False
    )
    return packed


def _to_lz4_block(data: bytes) -> bytes:
    return bytes(cramjam.lz4.compress_block(data, store_size=False))


def _to_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def _to_xerial(data: bytes) -> bytes:
    out = [_XERIAL_START]
    for at in range(0, len(data), _XERIAL_CHUNK):
        block = _to_snappy(data[at : at + _XERIAL_CHUNK])
        out += (len(block).to_bytes(4, "big"), block)
    return b"".join(out)


_TO_KAFKA: dict[KafkaCodec, Callable[[bytes], bytes]] = {
    KafkaCodec.NONE: lambda data: data,
    KafkaCodec.GZIP: _to_gzip,
    KafkaCodec.SNAPPY: _to_xerial,
    KafkaCodec.LZ4: _to_lz4_frame,
    KafkaCodec.ZSTD: _to_zstd,
}

_TO_PULSAR: dict[PulsarCodec, Callable[[bytes], bytes]] = {
    PulsarCodec.NONE: lambda data: data,
    PulsarCodec.LZ4: _to_lz4_block,
    PulsarCodec.ZLIB: _to_zlib,
    PulsarCodec.ZSTD: _to_zstd,
    PulsarCodec.SNAPPY: _to_snappy,
}
