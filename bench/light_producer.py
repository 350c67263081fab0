"""Produces made once and sent again and again, each to its partition's leader: `python -m bench.light_producer`."""

import argparse
import asyncio
import json
import struct
import time

from bench import wire
from bridge.apis import metadata, produce
from bridge.codec import Rebuild, Record, build_batch
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import Buffer
from bridge.kafka.produce_wire import Request, RequestPartition, RequestTopic

_NOW = 1_700_000_000_000
_PRODUCE, _METADATA = 8, 1
_RECORD_BYTES = 1024
_TRIES = 50
"""Of a first request, until its partition has a leader that stays."""
IN_FLIGHT = 3
"""Of each partition."""
_ERROR = struct.Struct(">ih")


def produce_frame(topic: str, partition: int, size: int) -> bytes:
    """A produce of one batch of records of 1 KB, acks=all, that is of about this size."""
    records = [Record(at, _NOW, None, b"x" * _RECORD_BYTES, []) for at in range(max(size // (_RECORD_BYTES + 10), 1))]
    batch = build_batch(records, Rebuild(0, len(records), _NOW, own=True))
    data = [RequestTopic(name=topic, partition_data=[RequestPartition(index=partition, records=batch)])]
    return wire.request(produce.API, _PRODUCE, Request(acks=-1, timeout_ms=30_000, topic_data=data))


async def leaders(bootstrap: str, topic: str) -> list[str]:
    """The address of each partition's leader."""
    client = await wire.Client.connect(bootstrap)
    asked = metadata.Request(topics=[metadata.RequestTopic(name=topic)])
    body = await client.exchange(wire.request(metadata.API, _METADATA, asked))
    found = wire.response(metadata.API, _METADATA, body)
    client.close()
    brokers = {one.node_id: f"{one.host}:{one.port}" for one in found.brokers}
    return [brokers[one.leader_id] for one in sorted(found.topics[0].partitions, key=lambda one: one.partition_index)]


async def connected(options: argparse.Namespace, partition: int, frame: bytes) -> wire.Client:
    """A connection to the partition's leader, which has answered a first request: workers share a new topic out."""
    for _ in range(_TRIES):
        client = await wire.Client.connect((await leaders(options.bootstrap, options.topic))[partition])
        body = await client.exchange(frame)
        if error_in(body, options.topic) != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            break
        client.close()
        await asyncio.sleep(0.1)
    check(body, options.topic)
    return client


async def main(options: argparse.Namespace) -> dict[str, float]:
    """A connection for each partition; counted once every partition was answered."""
    frames, clients, counted = [], [], [0]
    for partition in range(len(await leaders(options.bootstrap, options.topic))):
        frames.append(produce_frame(options.topic, partition, options.size))
        clients.append(await connected(options, partition, frames[-1]))
    start, used = time.perf_counter(), time.process_time()
    end = start + options.seconds

    def keep_sending(client: wire.Client, frame: bytes) -> None:
        def told(body: Buffer | None) -> None:
            check(body, options.topic)
            counted[0] += len(frame)
            if time.perf_counter() < end:
                client.send(frame, told)

        client.send(frame, told)

    for client, frame in zip(clients, frames, strict=True):
        for _ in range(IN_FLIGHT):
            keep_sending(client, frame)
    await asyncio.sleep(options.seconds)
    taken, sent = time.perf_counter() - start, counted[0]
    for client in clients:
        client.close()
    return {"megabytes": sent / 1e6, "seconds": taken, "cpu": time.process_time() - used}


def error_in(body: Buffer | None, topic: str) -> int:
    """One topic, its name, one partition, its index; then the error."""
    if body is None:
        raise ConnectionError("the bridge hung up")
    _, error = _ERROR.unpack_from(body, 4 + 2 + len(topic) + 4)
    return int(error)


def check(body: Buffer | None, topic: str) -> None:
    """Raise what an answer that is none of success tells."""
    error = error_in(body, topic)
    if error:
        raise ValueError(f"a produce was answered with error {error}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    print(json.dumps(wire.run(main(parser.parse_args()))))
