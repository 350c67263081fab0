"""Fetch answers, built byte by byte."""

from bridge.codec import Rebuild, Record, build_batch
from bridge.kafka import fetch_wire
from bridge.kafka.fetch_wire import Response, ResponsePartition, ResponseTopic

NOW = 1_790_000_000_000


def answer(records: list[bytes], error: int = 0) -> bytes:
    partition = ResponsePartition(
        partition_index=0, error_code=error, high_watermark=9, records=records, aborted_transactions=None
    )
    response = Response(responses=[ResponseTopic(topic="topic", partitions=[partition])])
    return b"".join(bytes(buffer) for buffer in fetch_wire.write(response, 11))


def batch(base: int, count: int) -> bytes:
    records = [Record(base + at, NOW, None, b"value", []) for at in range(count)]
    return build_batch(records, Rebuild(base, count, NOW, own=True))
