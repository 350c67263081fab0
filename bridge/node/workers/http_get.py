"""Asks a worker's own HTTP side something, in a bounded time and with a bounded answer."""

import asyncio
from typing import NamedTuple

import h11

from bridge.net.http1 import HttpError, next_event

MAX_BYTES = 64 << 20


class Answer(NamedTuple):
    """What came."""

    status: int
    content_type: str
    body: bytes


async def get(
    port: int, path: str, seconds: float, accept: str = "*/*", limit: int = MAX_BYTES, token: str = ""
) -> Answer:
    """The answer of a server on this machine; OSError (TimeoutError is one) where there is none, or it is too long."""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            protocol = h11.Connection(h11.CLIENT)
            head = [("Host", "127.0.0.1"), ("Accept", accept), ("Connection", "close")]
            if token:
                head.append(("Authorization", f"Bearer {token}"))
            writer.write(protocol.send(h11.Request(method="GET", target=path, headers=head)) or b"")
            writer.write(protocol.send(h11.EndOfMessage()) or b"")
            return await _read(protocol, reader, limit)
        except HttpError as error:
            raise ConnectionError(str(error)) from None
        finally:
            writer.transport.abort()


async def _read(protocol: h11.Connection, reader: asyncio.StreamReader, limit: int) -> Answer:
    response = await next_event(protocol, reader)
    if not isinstance(response, h11.Response):
        raise ConnectionError("no HTTP response")
    parts: list[bytes] = []
    size = 0
    while isinstance(event := await next_event(protocol, reader), h11.Data):
        parts.append(bytes(event.data))
        size += len(event.data)
        if size > limit:
            raise ConnectionError(f"an answer of more than {limit} bytes")
    kind = next((value for name, value in response.headers if name == b"content-type"), b"")
    return Answer(response.status_code, kind.decode("latin-1"), b"".join(parts))
