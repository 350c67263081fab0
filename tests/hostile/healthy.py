"""The well-behaved client beside a scene, in a process of its own: it asks, writes and logs in, one after the other."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import NamedTuple

from bridge.apis import sasl_authenticate, sasl_handshake
from tests.fuzz import wire
from tests.hostile.clients import frame

ADDRESS = "127.0.0.2"
"""Where it comes from: no attacker has this address."""
USERS = 1000
"""Each logs in once: a password that was right before costs the bridge no hash."""
KINDS = ("asks", "writes", "logs in")
_PAUSE, _LOGIN_PAUSE = 0.005, 0.04
_POLITE = 10


class Where(NamedTuple):
    """What it talks to; `logins`: whether it logs in as well."""

    plaintext: str
    with_login: str
    topic: str
    logins: bool


@dataclass
class Sample:
    """How long it waited, in seconds, with the time of the answer; and what went wrong."""

    waits: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    errors: list[str] = field(default_factory=list)

    def between(self, kind: str, begin: float, end: float) -> list[float]:
        """Those that were waited for in this time, in order."""
        return sorted(wait for at, wait in self.waits[kind] if at >= begin and at - wait <= end)


def user_name(number: int) -> str:
    """Of one of the users."""
    return f"user-{number}"


def password(number: int) -> str:
    """Of one of the users."""
    return f"password of {number}"


def login_frames(mechanism: str, data: bytes) -> bytes:
    """The two requests of a log-in by one message."""
    begin = frame(sasl_handshake.API, 1, sasl_handshake.Request(mechanism=mechanism))
    return begin + frame(sasl_authenticate.API, 0, sasl_authenticate.Request(auth_bytes=data))


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    """The next one, without its length."""
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def connected(address: str, source: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection from this address."""
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port), local_addr=(source, 0))


async def _ask(where: Where, sample: Sample, over: Callable[[], bool]) -> None:
    reader, writer = await connected(where.plaintext, ADDRESS)
    requests: Sequence[tuple[str, bytes]] = (
        ("asks", wire.metadata_request(where.topic)),
        ("writes", wire.produce(where.topic.encode(), wire.batch([bytes(100)]))),
        ("asks", wire.list_offsets_request(where.topic)),
    )
    while not over():
        for kind, request in requests:
            began = time.monotonic()
            writer.write(request)
            answer = await read_answer(reader)
            now = time.monotonic()
            sample.waits[kind].append((now, now - began))
            if kind == "writes" and wire.produce_answer(answer)[0]:
                sample.errors.append(f"a record was refused: {wire.produce_answer(answer)[0]}")
            await asyncio.sleep(_PAUSE)
    writer.transport.abort()


async def _log_in(where: Where, sample: Sample, over: Callable[[], bool]) -> None:
    number = 0
    while not over():
        began = time.monotonic()
        reader, writer = await connected(where.with_login, ADDRESS)
        name = user_name(number % USERS)
        writer.write(login_frames("PLAIN", f"\0{name}\0{password(number % USERS)}".encode()))
        await read_answer(reader)
        (error,) = struct.unpack_from(">h", await read_answer(reader), 4)
        now = time.monotonic()
        sample.waits["logs in"].append((now, now - began))
        if error:
            sample.errors.append(f"{name} was refused: {error}")
        writer.transport.abort()
        number += 1
        await asyncio.sleep(_LOGIN_PAUSE)


async def _behave(where: Where, over: Callable[[], bool]) -> Sample:
    sample = Sample()
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_ask(where, sample, over))
            if where.logins:
                tasks.create_task(_log_in(where, sample, over))
    except* (OSError, asyncio.IncompleteReadError) as errors:
        sample.errors += map(repr, errors.exceptions)
    return sample


def behave(pipe: Connection) -> None:
    """The process: gets a `Where`, behaves until it is told something, tells a `Sample`; None ends it."""
    with suppress(PermissionError):
        os.nice(-_POLITE)
    while (where := pipe.recv()) is not None:
        sample = asyncio.run(_behave(where, pipe.poll))
        pipe.recv()
        pipe.send(sample)
