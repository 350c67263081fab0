"""One request to a bridge over a socket, in the messages of the API's own file."""

import socket
import ssl
import struct
import uuid
from typing import Any, Self

from bridge.apis import api_versions
from bridge.kafka import message
from bridge.requests.api import Api
from bridge.requests.responses import DeferredResponse
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
    with Connection(address) as connection:
        return connection.ask(api, request, version)


class Connection:
    """A client's connection to any server, for one request at a time."""

    def __init__(
        self, address: str, seconds: float = 30.0, source: str = "", tls: ssl.SSLContext | None = None
    ) -> None:
        """`seconds`: an answer that takes longer is a TimeoutError. `source`: the client's own address."""
        host, _, port = address.rpartition(":")
        own = (source, 0) if source else None
        self._socket = socket.create_connection((host, int(port)), timeout=seconds, source_address=own)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        self._answers = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self) -> None:
        """Be gone: the server is not told that nothing more comes."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._answers.close()
        self._socket.close()

    def send(self, api: Api, request: Any, version: int | None = None) -> None:
        """Send a request that has no answer."""
        self._socket.sendall(frame(api, request, newest(api) if version is None else version))

    def send_bytes(self, frames: bytes) -> None:
        """Send whole requests, as `frame` makes them."""
        self._socket.sendall(frames)

    def ask(self, api: Api, request: Any, version: int | None = None) -> Any:
        """Send a request in this version, the newest by default, and return the answer."""
        version = newest(api) if version is None else version
        self.send(api, request, version)
        return self.receive(api, version)

    def receive(self, api: Api, version: int) -> Any:
        """The next answer, to a request that was sent in this version."""
        flexible = api.is_flexible(version)
        length = self._answers.read(4)
        if len(length) < 4:
            raise ConnectionError("the server has hung up")
        size = struct.unpack(">i", length)[0]
        # the header of ApiVersions' answer never has tags (KIP-511)
        body = self._answers.read(size)[5 if flexible and api.key != api_versions.KEY else 4 :]
        return message.decode(api.response, body, version, flexible)


async def answer_of(later: DeferredResponse[Any]) -> Any:
    """What the connection would answer, once it can."""
    result = await later.future
    return result if later.make is None else later.make(result)
