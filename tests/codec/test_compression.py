"""Each codec of both sides: what others write is read, damage and bombs are refused within bounds."""

import gzip
import random
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable

import cramjam
import lz4.block
import lz4.frame
import pytest

from bridge.codec.compression import KafkaCodec, PulsarCodec, decompress_kafka, decompress_pulsar
from bridge.errors import BatchTooLarge, CorruptBatch, CorruptEntry
from tests.codec.damage import mutated

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PLAIN = b"".join(b'{"id": %d, "name": "some name"}' % at for at in range(3000))
LIMIT = 1 << 20
XERIAL = b"\x82SNAPPY\x00" + b"\0\0\0\x01" * 2


def snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def xerial(data: bytes, chunk: int = 32 * 1024) -> bytes:
    out = XERIAL
    for at in range(0, len(data), chunk):
        block = snappy(data[at : at + chunk])
        out += len(block).to_bytes(4, "big") + block
    return out


def lz4_block(data: bytes) -> bytes:
    out: bytes = lz4.block.compress(data, store_size=False)
    return out


def lz4_linked(data: bytes) -> bytes:
    out: bytes = lz4.frame.compress(data, block_linked=True, content_checksum=True, store_size=True)
    return out


def zstd_streamed(data: bytes) -> bytes:
    stream = zstd.ZstdCompressor(level=19)  # writes no content size and a large window
    out: bytes = stream.compress(data) + stream.flush()
    return out


KAFKA: dict[str, tuple[KafkaCodec, Callable[[bytes], bytes]]] = {
    "gzip": (KafkaCodec.GZIP, gzip.compress),
    "snappy": (KafkaCodec.SNAPPY, snappy),
    "xerial": (KafkaCodec.SNAPPY, xerial),
    "lz4": (KafkaCodec.LZ4, lz4.frame.compress),
    "lz4 linked": (KafkaCodec.LZ4, lz4_linked),
    "cramjam lz4": (KafkaCodec.LZ4, lambda data: bytes(cramjam.lz4.compress(data))),
    "zstd": (KafkaCodec.ZSTD, zstd.compress),
    "zstd streamed": (KafkaCodec.ZSTD, zstd_streamed),
}
PULSAR: dict[PulsarCodec, Callable[[bytes], bytes]] = {
    PulsarCodec.LZ4: lz4_block,
    PulsarCodec.ZLIB: zlib.compress,
    PulsarCodec.ZSTD: zstd.compress,
    PulsarCodec.SNAPPY: snappy,
}


@pytest.mark.parametrize("kind", KAFKA)
@pytest.mark.parametrize("plain", [b"x", PLAIN, bytes(200_000)])
def test_kafka_codecs_to_the_very_limit(kind: str, plain: bytes) -> None:
    codec, compress = KAFKA[kind]
    packed = compress(plain)
    assert decompress_kafka(codec | 0x10, memoryview(packed), len(plain)) == plain
    with pytest.raises(BatchTooLarge):
        decompress_kafka(codec, packed, len(plain) - 1)


@pytest.mark.parametrize("kind", KAFKA)
@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5 << 20])
def test_what_is_large_is_made_in_parts(kind: str, size: int) -> None:
    codec, compress = KAFKA[kind]
    plain = (PLAIN * (1 + size // len(PLAIN)))[:size]
    made = decompress_kafka(codec, compress(plain), size)
    assert made == plain
    assert isinstance(made, bytes) or made.readonly
    with pytest.raises(BatchTooLarge, match="more than"):
        decompress_kafka(codec, compress(plain), size - 1)
    with pytest.raises(CorruptBatch):
        decompress_kafka(codec, compress(plain)[:-9], size)


@pytest.mark.parametrize("kind", KAFKA)
@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: d[: len(d) // 2], lambda d: d[:3], lambda d: b"noise" + d]
)
def test_cut_or_foreign_kafka_data(kind: str, damage: Callable[[bytes], bytes]) -> None:
    codec, compress = KAFKA[kind]
    with pytest.raises(CorruptBatch):
        decompress_kafka(codec, damage(compress(PLAIN)), LIMIT)


@pytest.mark.parametrize("kind", KAFKA)
@pytest.mark.parametrize("more", [b"\0more", b"\x1f\x8b\x08more"])
def test_bytes_after_the_end(kind: str, more: bytes) -> None:
    """Java's readers of gzip and LZ4 do not look at what follows; those of snappy and zstd fail at it."""
    codec, compress = KAFKA[kind]
    if codec in (KafkaCodec.GZIP, KafkaCodec.LZ4):
        assert decompress_kafka(codec, compress(PLAIN) + more, LIMIT) == PLAIN
    else:
        with pytest.raises(CorruptBatch):
            decompress_kafka(codec, compress(PLAIN) + more, LIMIT)


def test_no_compression_and_unknown_codecs() -> None:
    assert decompress_kafka(0x10, memoryview(b"plain"), 3) == b"plain"
    for codec in (5, 6, 7):
        with pytest.raises(CorruptBatch, match="unknown"):
            decompress_kafka(codec, b"plain", LIMIT)
    assert decompress_pulsar(0, memoryview(b"plain"), 0, 3) == b"plain"
    for codec in (5, -1):
        with pytest.raises(CorruptEntry, match="unknown"):
            decompress_pulsar(codec, b"plain", 5, LIMIT)


STREAMS: dict[str, tuple[KafkaCodec, Callable[[bytes], bytes]]] = {
    "gzip": (KafkaCodec.GZIP, gzip.compress),
    "xerial": (KafkaCodec.SNAPPY, xerial),
    "zstd": (KafkaCodec.ZSTD, zstd.compress),
}


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("size", [45_000, 9000, 500])
def test_streams_one_after_another(kind: str, size: int) -> None:
    codec, compress = STREAMS[kind]
    plain = PLAIN[:90_000]
    parts = b"".join(compress(plain[at : at + size]) for at in range(0, 90_000, size))
    assert decompress_kafka(codec, parts, LIMIT) == plain
    with pytest.raises(CorruptBatch):
        decompress_kafka(codec, parts, 89_999)
    with pytest.raises(CorruptBatch):
        decompress_kafka(codec, parts[:-9], LIMIT)


@pytest.mark.parametrize("kind", STREAMS)
def test_empty_streams(kind: str) -> None:
    codec, compress = STREAMS[kind]
    assert decompress_kafka(codec, compress(b"") * 15 + compress(b"x"), 1) == b"x"
    assert decompress_kafka(codec, compress(b"x") + compress(b"") * 40, 50_000) == b"x"


def test_what_streams_cost_is_bounded_by_what_they_may_make() -> None:
    with pytest.raises(BatchTooLarge, match="more than 20 streams"):
        decompress_kafka(KafkaCodec.ZSTD, zstd.compress(b"") * 21, 4096)


def test_the_first_lz4_frame_is_read() -> None:
    assert decompress_kafka(KafkaCodec.LZ4, lz4.frame.compress(b"a") * 2, LIMIT) == b"a"


@pytest.mark.parametrize(
    "data",
    [XERIAL[:8], XERIAL[:15], XERIAL + b"\0\0\0\0", XERIAL + b"\0\0\0\1", XERIAL + b"\xff\xff\xff\xff" + snappy(b"a"),
     XERIAL + b"\x7f\xff\xff\xff" + snappy(b"a"), XERIAL + b"\0\0\0\x04" + snappy(b"a"),
     xerial(b"a") + XERIAL + b"\0\0\0\5a"],
)  # fmt: skip
def test_xerial_chunks_that_lie(data: bytes) -> None:
    """CVE-2023-34455: snappy-java believed a chunk's length."""
    with pytest.raises(CorruptBatch):
        decompress_kafka(KafkaCodec.SNAPPY, data, LIMIT)


def test_xerial_chunks_share_one_limit() -> None:
    packed = xerial(PLAIN, 1000)
    assert decompress_kafka(KafkaCodec.SNAPPY, packed, len(PLAIN)) == PLAIN
    assert decompress_kafka(KafkaCodec.SNAPPY, XERIAL, LIMIT) == b""
    assert decompress_kafka(KafkaCodec.SNAPPY, packed + b"\0\0\0", LIMIT) == PLAIN  # no chunk: as snappy-java
    with pytest.raises(CorruptBatch):
        decompress_kafka(KafkaCodec.SNAPPY, packed, len(PLAIN) - 1)


@pytest.mark.parametrize("codec", PULSAR)
@pytest.mark.parametrize("plain", [b"", b"x", PLAIN])
def test_pulsar_codecs_hold_to_their_size(codec: PulsarCodec, plain: bytes) -> None:
    packed = PULSAR[codec](plain)
    assert decompress_pulsar(codec, memoryview(packed), len(plain), len(plain)) == plain
    for size in (len(plain) - 1, len(plain) + 1, 2 * len(plain) + 9, 0xFFFFFFFF):
        with pytest.raises(CorruptEntry):
            decompress_pulsar(codec, packed, size, LIMIT)
    with pytest.raises(CorruptEntry):
        decompress_pulsar(codec, packed[:-1], len(plain) or 1, LIMIT)
    with pytest.raises(CorruptEntry):
        decompress_pulsar(codec, packed + b"\0more", len(plain), LIMIT)


@pytest.mark.parametrize("codec", PULSAR)
def test_nothing_stays_nothing(codec: PulsarCodec) -> None:
    assert decompress_pulsar(codec, b"", 0, LIMIT) == b""
    with pytest.raises(CorruptEntry):
        decompress_pulsar(codec, b"", 1, LIMIT)


ZEROS = bytes(64 << 20)
TERA = (1 << 40).to_bytes(8, "little")
BOMBS: dict[str, tuple[KafkaCodec, Callable[[], bytes]]] = {
    "gzip": (KafkaCodec.GZIP, lambda: gzip.compress(ZEROS, 6)),
    "snappy": (KafkaCodec.SNAPPY, lambda: snappy(ZEROS)),
    "xerial": (KafkaCodec.SNAPPY, lambda: xerial(ZEROS[: 8 << 20])),
    "lz4": (KafkaCodec.LZ4, lambda: lz4.frame.compress(ZEROS)),
    "zstd with its size": (KafkaCodec.ZSTD, lambda: zstd.compress(ZEROS)),
    "zstd streamed": (KafkaCodec.ZSTD, lambda: zstd_streamed(ZEROS[: 8 << 20])),
    "zstd claims 2^40": (KafkaCodec.ZSTD, lambda: b"\x28\xb5\x2f\xfd\xe0" + TERA + b"\x01\0\0"),
    "snappy claims 2^32-1": (KafkaCodec.SNAPPY, lambda: b"\xff\xff\xff\xff\x0f\0a"),
    "snappy claims the limit": (KafkaCodec.SNAPPY, lambda: b"\x80\x80\x40\0a"),
    "many empty gzip members": (KafkaCodec.GZIP, lambda: gzip.compress(b"") * 200_000),
    "many empty zstd frames": (KafkaCodec.ZSTD, lambda: zstd.compress(b"") * 300_000),
    "many small zstd frames": (KafkaCodec.ZSTD, lambda: zstd.compress(b"x") * 300_000),
}  # fmt: skip


@pytest.mark.parametrize("kind", BOMBS)
def test_bombs_are_bounded_in_memory_and_time(kind: str) -> None:
    codec, make = BOMBS[kind]
    bomb = make()
    started = time.thread_time()
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch):
            decompress_kafka(codec, bomb, LIMIT)
        assert tracemalloc.get_traced_memory()[1] < 3 * (LIMIT + len(bomb))
    finally:
        tracemalloc.stop()
    assert time.thread_time() - started < 3


@pytest.mark.parametrize("codec", [KafkaCodec.LZ4, KafkaCodec.SNAPPY])
def test_a_generous_limit_is_not_allocated_for_few_bytes(codec: KafkaCodec) -> None:
    packed = lz4.frame.compress(b"few") if codec == KafkaCodec.LZ4 else snappy(b"few")
    tracemalloc.start()
    try:
        assert decompress_kafka(codec, packed, 1 << 30) == b"few"
        with pytest.raises(CorruptEntry):
            decompress_pulsar(PulsarCodec.LZ4, lz4_block(b"few"), 1 << 30, 1 << 30)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", KAFKA)
def test_damaged_kafka_data_is_read_or_refused(kind: str) -> None:
    codec, compress = KAFKA[kind]
    chance = random.Random(kind)
    packed = compress(PLAIN[:3000])
    for _ in range(300):
        try:
            decompress_kafka(codec, mutated(packed, chance), LIMIT)
        except CorruptBatch:
            continue


@pytest.mark.parametrize("codec", PULSAR)
def test_damaged_pulsar_data_is_read_or_refused(codec: PulsarCodec) -> None:
    chance = random.Random(int(codec))
    packed = PULSAR[codec](PLAIN[:3000])
    for _ in range(300):
        try:
            assert len(decompress_pulsar(codec, mutated(packed, chance), 3000, LIMIT)) == 3000
        except CorruptEntry:
            continue
