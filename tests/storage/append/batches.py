"""Batches as clients send them."""

from hypothesis import strategies as st

from bridge import codec
from bridge.codec import NO_PRODUCER, Rebuild, Record
from bridge.codec.compression import KafkaCodec
from bridge.codec.packing import pack

LIMIT = 1 << 20
NOW = 1_700_000_000_000
EVER = (1 << 63) - 1
codecs = st.sampled_from(KafkaCodec)


def batch_of(
    records: list[Record], codec_of_client: KafkaCodec = KafkaCodec.NONE, producer: tuple[int, int, int] = NO_PRODUCER
) -> memoryview:
    """A batch as a client sends it."""
    return memoryview(pack(codec.build_batch(records, Rebuild(0, len(records), 0, producer=producer)), codec_of_client))


def numbered(count: int, size: int = 100) -> list[Record]:
    return [Record(at, NOW + at, b"%d" % at, b"%0*d" % (size, at), []) for at in range(count)]
