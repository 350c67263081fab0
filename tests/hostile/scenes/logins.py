"""Clients that are not let in: noise instead of a log-in, requests before it, and wrong passwords by the thousand."""

from __future__ import annotations

import asyncio
import random
import struct
import time
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

from bridge import apis
from bridge.apis import sasl_authenticate, sasl_handshake
from bridge.kafka.error_codes import ErrorCode
from tests.fuzz import wire
from tests.hostile.clients import frame
from tests.hostile.healthy import connected, login_frames, read_answer, user_name
from tests.hostile.scene import Seen, Target, again

GUESSES: Final = 1000
"""A second, and at once."""
_SOURCE: Final = "127.0.0.3"
_AT_ONCE: Final = 20
_A_SECOND: Final = 10
"""Failed log-ins of an address that the bridge looks at (`kafka.max_failed_logins_per_ip_per_second`)."""
_LATE: Final = 20
"""Log-ins that had begun when their address was blocked."""


def before_login(target: Target) -> Seen:
    """Every API before the log-in."""
    sent = served = 0
    for _ in again(target):
        for api in apis.load().values():
            if api.name in ("ApiVersions", "SaslHandshake"):
                continue
            request = wire.framed(wire.header(api.key, api.min_version, flexible=api.is_flexible(api.min_version)))
            sent += 1
            served += wire.ask(target.with_login, request) is not None
    return Seen(f"{sent - served:,} of {sent:,} closed", not served)


def noise(target: Target) -> Seen:
    """Bytes of any length and kind for each mechanism, and claims of more than 512 KiB."""
    chance = random.Random(1)
    codes: Counter[object] = Counter()
    for _ in again(target):
        mechanism = chance.choice(("PLAIN", "SCRAM-SHA-512"))
        data = chance.randbytes(chance.choice((0, 1, 100, 100_000)))
        codes[_outcome(target, login_frames(mechanism, data))] += 1
        begin = frame(sasl_handshake.API, 1, sasl_handshake.Request(mechanism=mechanism))
        codes[_outcome(target, begin + struct.pack(">i", (512 << 10) + 1) + data)] += 1
    told = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(codes.items(), key=str))
    return Seen(told, codes.keys() <= {"closed", "refused"})


def _outcome(target: Target, data: bytes) -> str:
    with wire.connect(target.with_login) as opened:
        with suppress(ConnectionError):
            opened.sendall(data)
        if wire.receive(opened) is None:
            return "closed"
        answer = wire.receive(opened)
    return _named(answer)


def _named(answer: bytes | None) -> str:
    if answer is None:
        return "closed"
    (code,) = struct.unpack_from(">h", answer, 4)
    return {0: "let in", int(ErrorCode.SASL_AUTHENTICATION_FAILED): "refused"}.get(code, f"error {code}")


def guesses(target: Target) -> Seen:
    """1,000 wrong passwords a second from one address, each on a connection of its own."""
    return asyncio.run(_guess(target, _steadily))


def guesses_at_once(target: Target) -> Seen:
    """1,000 connections of one address that log in wrongly at the same moment, over and over."""
    return asyncio.run(_guess(target, _at_once))


async def _guess(target: Target, how: Any) -> Seen:
    seen: Counter[str] = Counter()
    began = time.monotonic()
    await how(target, seen)
    most = _AT_ONCE + _A_SECOND * (time.monotonic() - began) + _LATE
    total = sum(seen.values())
    text = f"{total:,} tried: {seen['refused']:,} looked at and refused, {seen['closed']:,} closed"
    return Seen(text, total == seen["refused"] + seen["closed"] and seen["refused"] <= most)


async def _steadily(target: Target, seen: Counter[str]) -> None:
    began, sent = time.monotonic(), 0
    async with asyncio.TaskGroup() as tasks:
        while (passed := time.monotonic() - began) < target.seconds or not sent:
            while sent < passed * min(GUESSES, target.connections):
                tasks.create_task(_one(target.with_login, sent, seen))
                sent += 1
            await asyncio.sleep(0.005)


async def _at_once(target: Target, seen: Counter[str]) -> None:
    for _ in again(target):
        opened = await asyncio.gather(
            *(connected(target.with_login, _SOURCE) for _ in range(min(GUESSES, target.connections)))
        )
        async with asyncio.TaskGroup() as tasks:
            for number, (reader, writer) in enumerate(opened):
                tasks.create_task(_log_in(reader, writer, number, seen))


async def _one(address: str, number: int, seen: Counter[str]) -> None:
    try:
        reader, writer = await connected(address, _SOURCE)
    except OSError:
        seen["closed"] += 1
        return
    await _log_in(reader, writer, number, seen)


async def _log_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int, seen: Counter[str]) -> None:
    try:
        wrong: Coroutine[Any, Any, str] = (
            _scram(reader, writer, number) if number % 2 else _plain(reader, writer, number)
        )
        outcome = await wrong
    except (OSError, asyncio.IncompleteReadError):
        outcome = "closed"
    seen[outcome] += 1
    writer.transport.abort()


async def _plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> str:
    writer.write(login_frames("PLAIN", f"\0{user_name(number % 100)}\0guess {number}".encode()))
    await read_answer(reader)
    return _named(await read_answer(reader))


async def _scram(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> str:
    """A proof of noise: whom it costs nothing to make."""
    writer.write(login_frames("SCRAM-SHA-512", f"n,,n={user_name(number % 100)},r=nonce{number}".encode()))
    await read_answer(reader)
    answer = await read_answer(reader)
    if _named(answer) != "let in":
        return _named(answer)
    nonce = answer[answer.index(b"r=") :].split(b",")[0]
    final = b"c=biws," + nonce + b",p=" + b"A" * 86 + b"=="
    writer.write(frame(sasl_authenticate.API, 0, sasl_authenticate.Request(auth_bytes=final)))
    return _named(await read_answer(reader))
