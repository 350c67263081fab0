"""The attacker and the well-behaved client, each in a process of its own: neither may slow down the other."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from typing import Any, cast

from bridge.apis import api_versions, find_coordinator, list_offsets, metadata
from bridge.kafka import message
from bridge.requests.api import Api

_PAUSE = 0.01
_POLITE = 10  # of nice: the attacker's own work is meant to be another machine's


def frame(api: Api, version: int, request: object, correlation_id: int = 1) -> bytes:
    """A whole request."""
    flexible = api.is_flexible(version)
    head = struct.pack(">hhih", api.key, version, correlation_id, 4) + b"evil" + (b"\0" if flexible else b"")
    body = head + bytes(message.encode(request, version, flexible))
    return struct.pack(">i", len(body)) + body


@dataclass(frozen=True)
class Load:
    """What an attacker does: each connection sends its frames as fast as they are taken."""

    connections: Sequence[Sequence[bytes]]
    answers: int
    """How many answers a connection waits for before it hangs up; 0: it sends and hangs up."""
    seconds: float = 8.0
    """When it gives up."""


@dataclass
class Spent:
    """What an attack cost its attacker, and what came of it."""

    sent: int = 0
    cpu: float = 0.0
    seconds: float = 0.0
    answered: int = 0
    closed: int = 0
    """Connections that the bridge closed."""
    last: bytes = b""
    """An answer."""


@dataclass
class Waits:
    """How long a well-behaved client waited, in seconds, for each kind of request."""

    of: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @property
    def longest(self) -> float:
        """Of all."""
        return max(max(waits, default=0.0) for waits in self.of.values())


async def _attack(address: str, load: Load) -> Spent:
    host, _, port = address.rpartition(":")
    spent = Spent()
    began, cpu = time.monotonic(), time.process_time()

    async def one(frames: Sequence[bytes]) -> None:
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 20)

        async def send() -> None:
            for data in frames:
                writer.write(data)
                spent.sent += len(data)
                if writer.transport.get_write_buffer_size() > 1 << 16:
                    await writer.drain()
            await writer.drain()

        sending = asyncio.ensure_future(send())
        try:
            if not load.answers:
                await sending
            for _ in range(load.answers):
                spent.last = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                spent.answered += 1
            await sending
        except (ConnectionError, asyncio.IncompleteReadError):
            spent.closed += 1
        finally:
            sending.cancel()
            with suppress(ConnectionError, asyncio.CancelledError):
                await sending
            writer.transport.abort() if load.answers else writer.close()

    with suppress(TimeoutError):
        async with asyncio.timeout(load.seconds):
            await asyncio.gather(*map(one, load.connections))
    spent.seconds, spent.cpu = time.monotonic() - began, time.process_time() - cpu
    return spent


def attacker(pipe: Connection) -> None:
    """The attacker's process: gets (address, load), tells what it spent; None ends it."""
    os.nice(_POLITE)
    while (order := pipe.recv()) is not None:
        pipe.send(asyncio.run(_attack(*order)))


async def _behave(address: str, topic: str, over: Callable[[], bool]) -> Waits:
    host, _, port = address.rpartition(":")
    partition = list_offsets.RequestPartition(partition_index=0, timestamp=list_offsets.LATEST)
    requests = {
        "ApiVersions": frame(api_versions.API, 0, api_versions.Request()),
        "Metadata": frame(metadata.API, 8, metadata.Request(topics=[metadata.RequestTopic(name=topic)])),
        "FindCoordinator": frame(find_coordinator.API, 2, find_coordinator.Request(key="canary", key_type=0)),
        "ListOffsets": frame(
            list_offsets.API,
            5,
            list_offsets.Request(replica_id=-1, topics=[list_offsets.RequestTopic(name=topic, partitions=[partition])]),
        ),
    }
    waits = Waits({name: [] for name in requests})
    reader, writer = await asyncio.open_connection(host, int(port))
    while not over():
        for name, data in requests.items():
            began = time.perf_counter()
            writer.write(data)
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            waits.of[name].append(time.perf_counter() - began)
            await asyncio.sleep(_PAUSE)
    writer.transport.abort()
    return waits


def canary(pipe: Connection) -> None:
    """The well-behaved client's process: gets (address, topic), behaves until told something; None ends it."""
    with suppress(PermissionError):
        os.nice(-_POLITE)
    while (order := pipe.recv()) is not None:
        try:
            address, topic = order
            waits = asyncio.run(_behave(address, topic, pipe.poll))
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            waits = Waits({"": [0.0]}, [repr(error)])
        pipe.recv()
        pipe.send(waits)


class Process:
    """One of the two, and the pipe to it."""

    def __init__(self, context: SpawnContext, main: Callable[[Connection], None]) -> None:
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=main, args=(theirs,), daemon=True)
        self._process.start()
        self.pid = cast(int, self._process.pid)

    def ask(self, order: Any) -> Any:
        """Give an order and wait for what came of it."""
        self.pipe.send(order)
        return self.pipe.recv()

    def stop(self) -> None:
        """End it."""
        self.pipe.send(None)
        self._process.join()
