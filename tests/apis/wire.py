"""One request to a bridge over a socket, in the messages of the API's own file."""

import socket
import struct
import uuid
from typing import Any

from bridge.api import Api, DeferredResponse
from bridge.apis import api_versions
from bridge.kafka import message
from tests.support.bridges import BridgeThread
from tests.support.versions import newest


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def frame(api: Api, request: Any, version: int) -> bytes:
    """A request as it goes over the socket."""
    flexible = api.is_flexible(version)
    header = struct.pack(">hhih", api.key, version, 7, -1) + (b"\0" if flexible else b"")
    body = header + bytes(message.encode(request, version, flexible))
    return struct.pack(">i", len(body)) + body


def ask(bridge: BridgeThread, api: Api, request: Any, version: int | None = None) -> Any:
    """Send a request in this version, the newest by default, and return the answer."""
    return ask_at(bridge.kafka, api, request, version)


def ask_at(address: str, api: Api, request: Any, version: int | None = None) -> Any:
    """The same, of any server."""
    version = newest(api) if version is None else version
    flexible = api.is_flexible(version)
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection, connection.makefile("rb") as answers:
        connection.sendall(frame(api, request, version))
        size = struct.unpack(">i", answers.read(4))[0]
        # the header of ApiVersions' answer never has tags (KIP-511)
        body = answers.read(size)[5 if flexible and api.key != api_versions.KEY else 4 :]
    return message.decode(api.response, body, version, flexible)


async def answer_of(later: DeferredResponse[Any]) -> Any:
    """What the connection would answer, once it can."""
    result = await later.future
    return result if later.make is None else later.make(result)
