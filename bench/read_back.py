"""A Fetch straight after the answer to the Produce, one record after another, in this process: latencies as JSON."""

import argparse
import asyncio
import json
import random
import struct
import time

from bench import wire
from bench.crowd import produce_frame
from bench.followers import after, fetch_frame, from_offset

_TIMEOUT_SECONDS = 30.0
_PAUSE = 0.02  # seconds between two tries at most, drawn at random: not in step with anything


def offset_of(answer: bytes, topic: str) -> int:
    """The offset that a Produce of one partition was answered with."""
    error, offset = struct.unpack_from(">hq", answer, 4 + 2 + len(topic) + 4 + 4)
    if error:
        raise ValueError(f"a produce was answered with error {error}")
    return int(offset)


async def read(consumer: wire.Client, topic: str, max_wait_ms: int, offset: int) -> float:
    """Fetch until the record is there; how long that took."""
    frame, (place,) = fetch_frame(topic, 1, max_wait_ms)
    asked = from_offset(frame, place, offset)
    start = time.perf_counter()
    async with asyncio.timeout(_TIMEOUT_SECONDS):
        while after(await consumer.exchange(asked), topic, offset)[0] == offset:
            pass
    return time.perf_counter() - start


async def main(options: argparse.Namespace) -> list[float]:
    """For so many seconds after the first time, which is not counted."""
    producer, consumer = [await wire.Client.connect(options.bootstrap) for _ in range(2)]
    chance = random.Random(0)  # noqa: S311 - the same in every run
    frame = produce_frame(options.topic, 0, 1024)
    latencies: list[float] = []
    until = float("inf")
    while time.perf_counter() < until:
        offset = offset_of(bytes(await producer.exchange(frame)), options.topic)
        latencies.append(await read(consumer, options.topic, options.wait, offset))
        await asyncio.sleep(chance.uniform(0, _PAUSE))
        until = min(until, time.perf_counter() + options.seconds)
    producer.close()
    consumer.close()
    return latencies[1:]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--wait", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    print(json.dumps(wire.run(main(parser.parse_args()))))
