"""Consumers that read far more slowly than they could be served, in this process: what they had, as JSON."""

import argparse
import asyncio
import contextlib
import json
import struct
import time

from bench import wire
from bench.followers import after
from bridge.apis import fetch
from bridge.kafka.fetch_wire import Request, RequestPartition, RequestTopic

_VERSION = 11
_FETCH_BYTES = 1024 * 1024
_READ_BYTES = 64 * 1024
_PAUSE, _SLOWER = 0.1, 0.02  # seconds between two reads, and more for each consumer than for the one before


async def consume(bootstrap: str, topic: str, partition: int, pause: float, until: float) -> int:
    """One consumer, from offset 0 on; the bytes it had. It leaves its answers in the socket for as long as it likes."""
    host, _, port = bootstrap.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=_READ_BYTES)
    offset = received = 0
    try:
        while time.monotonic() < until:
            wanted = RequestPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
            asked = Request(
                max_wait_ms=500, min_bytes=1, max_bytes=_FETCH_BYTES,
                topics=[RequestTopic(topic=topic, partitions=[wanted])],
            )  # fmt: skip
            writer.write(wire.request(fetch.API, _VERSION, asked))
            (left,) = struct.unpack(">i", await reader.readexactly(4))
            answer = bytearray()
            while left and time.monotonic() < until:
                part = await reader.readexactly(min(left, _READ_BYTES))
                answer += part
                left -= len(part)
                await asyncio.sleep(pause)
            if not left:
                offset, size = after(memoryview(answer)[4:], topic, offset)
                received += size
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return received


async def main(options: argparse.Namespace) -> dict[str, float]:
    """All consumers, for so long."""
    until = time.monotonic() + options.seconds
    received = await asyncio.gather(
        *(
            consume(options.bootstrap, options.topic, number % options.partitions, _PAUSE + _SLOWER * number, until)
            for number in range(options.consumers)
        )
    )
    return {"megabytes": sum(received) / 1e6, "least": min(received) / 1e6}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    for name in ("partitions", "consumers"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    print(json.dumps(wire.run(main(parser.parse_args()))))
