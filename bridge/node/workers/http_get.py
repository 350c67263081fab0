"""Asks a worker's own HTTP side something, in a bounded time and with a bounded answer."""

import asyncio

from bridge.net.http1 import HttpError
from bridge.net.http_client import HttpClient, Response

MAX_BYTES = 64 << 20


async def get(
    port: int, path: str, seconds: float, accept: str = "*/*", limit: int = MAX_BYTES, token: str = ""
) -> Response:
    """The answer of a server on this machine; OSError (TimeoutError is one) where there is none, or it is too long."""
    client = HttpClient(1, seconds, None, max_body_bytes=limit)
    headers = {"Accept": accept, "Connection": "close", **({"Authorization": f"Bearer {token}"} if token else {})}
    try:
        async with asyncio.timeout(seconds):
            return await client.request("GET", f"http://127.0.0.1:{port}{path}", headers)
    except HttpError as error:
        raise ConnectionError(str(error)) from None
    finally:
        await client.close()
