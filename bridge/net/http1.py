"""HTTP/1.1 over asyncio's streams, for the admin client and the operator's side: h11 knows the protocol.

A library that does all of it (connection pools, cookies, web sockets) took a third of the time that a start takes.
"""

import asyncio
from typing import Any

import h11

_CHUNK = 65536


class HttpError(Exception):
    """What came is not HTTP/1.1, or not all of it."""


async def next_event(connection: h11.Connection, reader: asyncio.StreamReader) -> Any:
    """The next event of h11's, or one of its states where nothing more can come; HttpError."""
    ended = False
    try:
        while (event := connection.next_event()) is h11.NEED_DATA:
            data = await reader.read(_CHUNK)
            ended = not data
            connection.receive_data(data)
    except h11.RemoteProtocolError as error:
        raise HttpError("the connection was closed too early" if ended else str(error)) from None
    return event
