"""Many connections that each send one record after another, in this process: rate and latencies as JSON."""

import argparse
import asyncio
import json
import time

from bench import wire
from bench.measure import percentile
from bridge.apis import produce
from bridge.codec import Rebuild, Record, build_batch
from bridge.kafka.produce_wire import Request, RequestPartition, RequestTopic

_VERSION = 8
_NOW = 1_700_000_000_000
_AT_ONCE = 100  # connections made side by side


def produce_frame(topic: str, partition: int, size: int) -> bytes:
    """A produce of one record, acks=all."""
    batch = build_batch([Record(0, _NOW, None, b"x" * size, [])], Rebuild(0, 1, _NOW, own=True))
    data = [RequestTopic(name=topic, partition_data=[RequestPartition(index=partition, records=batch)])]
    return wire.request(produce.API, _VERSION, Request(acks=-1, timeout_ms=30_000, topic_data=data))


async def send(client: wire.Client, frame: bytes, topic: str, until: float) -> list[float]:
    """One after another; the latencies."""
    latencies = []
    while (start := time.perf_counter()) < until:
        body = await client.exchange(frame)
        latencies.append(time.perf_counter() - start)
        at = 4 + 2 + len(topic) + 4 + 4  # one topic, its name, one partition, its index
        error = int.from_bytes(bytes(body[at : at + 2]), "big", signed=True)
        if error:
            raise ValueError(f"a produce was answered with error {error}")
    return latencies


async def main(options: argparse.Namespace) -> dict[str, float]:
    """All connections: made first, then used for so long."""
    clients: list[wire.Client] = []
    while len(clients) < options.connections:
        count = min(_AT_ONCE, options.connections - len(clients))
        clients += await asyncio.gather(*(wire.Client.connect(options.bootstrap) for _ in range(count)))
    frames = [produce_frame(options.topic, number, options.size) for number in range(options.partitions)]
    for frame in frames:  # the topic is open then
        await clients[0].exchange(frame)
    start = time.perf_counter()
    until = start + options.seconds
    found = await asyncio.gather(
        *(send(client, frames[at % len(frames)], options.topic, until) for at, client in enumerate(clients))
    )
    spent = time.perf_counter() - start
    for client in clients:
        client.close()
    latencies = [latency for one in found for latency in one]
    return {
        "rate": len(latencies) / spent,
        "requests": len(latencies),
        "p50": percentile(latencies, 50) * 1000,
        "p99": percentile(latencies, 99) * 1000,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    for name in ("connections", "partitions", "size"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    print(json.dumps(wire.run(main(parser.parse_args()))))
