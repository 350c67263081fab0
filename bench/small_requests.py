"""Produce or Fetch of one small record over and over, from a few connections: how many requests, as JSON."""

import argparse
import asyncio
import json
import time
from collections.abc import Callable

from bench import wire
from bench.crowd import produce_frame
from bench.followers import after, fetch_frame, from_offset
from bridge.kafka.primitives import Buffer

CONNECTIONS = 8
RECORD_BYTES = 100


def _written(body: Buffer, topic: str) -> None:
    at = 4 + 2 + len(topic) + 4 + 4  # one topic, its name, one partition, its index
    error = int.from_bytes(bytes(body[at : at + 2]), "big", signed=True)
    if error:
        raise ValueError(f"a produce was answered with error {error}")


def _read(body: Buffer, topic: str) -> None:
    if not after(body, topic, 0)[1]:
        raise ValueError("a fetch was answered without records")


async def ask(client: wire.Client, frame: bytes, check: Callable[[Buffer], None], until: float) -> int:
    """One after another; how many."""
    count = 0
    while time.perf_counter() < until:
        check(await client.exchange(frame))
        count += 1
    return count


async def main(options: argparse.Namespace) -> dict[str, float]:
    """All connections at once."""
    clients = [await wire.Client.connect(options.bootstrap) for _ in range(CONNECTIONS)]
    produce = produce_frame(options.topic, 0, RECORD_BYTES)
    await clients[0].exchange(produce)
    frame, check = produce, _written
    if options.api == "Fetch":
        fetch, (place,) = fetch_frame(options.topic, 1, 500, RECORD_BYTES)
        frame, check = from_offset(fetch, place, 0), _read
    start = time.perf_counter()
    counts = await asyncio.gather(
        *(ask(one, frame, lambda body: check(body, options.topic), start + options.seconds) for one in clients)
    )
    spent = time.perf_counter() - start
    for client in clients:
        client.close()
    return {"requests": sum(counts), "seconds": spent}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--api", choices=["Produce", "Fetch"], required=True)
    parser.add_argument("--seconds", type=float, required=True)
    print(json.dumps(wire.run(main(parser.parse_args()))))
