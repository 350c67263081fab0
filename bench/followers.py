"""Consumers of one partition, from offset 0 to a given one, in this process: how long they took, as JSON."""

import argparse
import asyncio
import json
import struct
import sys
import time

from bench import wire
from bridge.apis import fetch
from bridge.kafka.fetch_wire import Request, RequestPartition, RequestTopic
from bridge.kafka.primitives import Buffer

READY = "following"
_VERSION = 11
_FETCH_BYTES = 1024 * 1024
_CAPACITY = 2 * _FETCH_BYTES
_TIMEOUT_SECONDS = 60.0
_SENTINEL = 0x1122334455667700
# throttle, error, session, one topic: name, one partition: index, error, watermarks, start, aborted, replica, size
_HEAD = struct.Struct(">ihii")
_OFFSET = struct.Struct(">q")
_PARTITION = struct.Struct(">iihqqqiii")


def after(answer: Buffer, topic: str, offset: int) -> tuple[int, int]:
    """The offset to go on from, and the bytes of records, in an answer of one partition."""
    at = _HEAD.size + 2 + len(topic)
    _, _, error, _, _, _, _, _, size = _PARTITION.unpack_from(answer, at)
    if error:
        raise ValueError(f"a fetch was answered with error {error}")
    start = at = at + _PARTITION.size
    while start + size - at >= 61:
        base, length = struct.unpack_from(">qi", answer, at)
        (delta,) = struct.unpack_from(">i", answer, at + 23)
        offset = base + delta + 1
        at += 12 + length
    return offset, size


def fetch_frame(
    topic: str, partitions: int, max_wait_ms: int, most_bytes: int = _FETCH_BYTES
) -> tuple[bytes, list[int]]:
    """A Fetch of all partitions of a topic, and where in it the offset of each stands."""
    wanted = [
        RequestPartition(partition=number, fetch_offset=_SENTINEL + number, partition_max_bytes=most_bytes)
        for number in range(partitions)
    ]
    request = Request(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=most_bytes,
        topics=[RequestTopic(topic=topic, partitions=wanted)],
    )
    frame = wire.request(fetch.API, _VERSION, request)
    return frame, [frame.index(_OFFSET.pack(_SENTINEL + number)) for number in range(partitions)]


def from_offset(frame: bytes, place: int, offset: int) -> bytes:
    """The same Fetch from this offset on."""
    return frame[:place] + _OFFSET.pack(offset) + frame[place + _OFFSET.size :]


async def follow(client: wire.Client, topic: str, records: int, begun: asyncio.Event) -> int:
    """One consumer; the bytes it had. `begun` is set when the first have come."""
    frame, (place,) = fetch_frame(topic, 1, 500)
    offset = received = 0
    while offset < records:
        body = await client.exchange(from_offset(frame, place, offset))
        offset, size = after(body, topic, offset)
        received += size
        if size:
            begun.set()
    client.close()
    return received


async def main(options: argparse.Namespace) -> dict[str, float]:
    """All consumers; says on standard error when they are connected."""
    begun = asyncio.Event()
    clients = [await wire.Client.connect(options.bootstrap, _CAPACITY) for _ in range(options.consumers)]
    following = asyncio.gather(*(follow(client, options.topic, options.records, begun) for client in clients))
    print(READY, file=sys.stderr, flush=True)
    async with asyncio.timeout(_TIMEOUT_SECONDS):
        await begun.wait()
        start = time.perf_counter()
        received = await following
    return {"seconds": time.perf_counter() - start, "megabytes": sum(received) / 1e6}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--consumers", type=int, required=True)
    print(json.dumps(wire.run(main(parser.parse_args()))))
