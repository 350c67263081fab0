"""A cheap Kafka client for loads of many connections: frames are made once, answers come in order and mostly unread."""

import asyncio
import resource
import struct
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import uvloop

from bridge.kafka import message
from bridge.kafka.primitives import Buffer
from bridge.requests.api import Api

_COPIED = 64 * 1024
_int32 = struct.Struct(">i")
_Result = TypeVar("_Result")


class Client(asyncio.BufferedProtocol):
    """One connection; requests may follow one another without waiting."""

    def __init__(self, capacity: int = _COPIED) -> None:
        """`capacity`: the largest answer."""
        self._memory = memoryview(bytearray(capacity + 4))
        self._filled = 0
        self._waiting: deque[Callable[[Buffer | None], None]] = deque()
        self._transport: asyncio.Transport

    @classmethod
    async def connect(cls, bootstrap: str, capacity: int = _COPIED) -> "Client":
        """Open a connection."""
        host, _, port = bootstrap.rpartition(":")
        _, client = await asyncio.get_running_loop().create_connection(lambda: cls(capacity), host, int(port))
        return client

    def exchange(self, frame: Buffer) -> "asyncio.Future[Buffer]":
        """Send a whole request; the answer behind its correlation id. A large one is valid until the next request."""
        answer: asyncio.Future[Buffer] = asyncio.get_running_loop().create_future()

        def told(body: Buffer | None) -> None:
            if answer.done():
                return
            if body is None:
                answer.set_exception(ConnectionError("the server hung up"))
            else:
                answer.set_result(body)

        self.send(frame, told)
        return answer

    def send(self, frame: Buffer, told: Callable[[Buffer | None], None]) -> None:
        """The same for loads whose futures would cost more than the rest; None: the server has hung up."""
        self._waiting.append(told)
        self._transport.write(frame)

    def close(self) -> None:
        """Hang up."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready to send."""
        self._transport = transport  # type: ignore[assignment] # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more comes."""
        while self._waiting:
            self._waiting.popleft()(None)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Behind what is there."""
        return self._memory[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Hand out the answers that are whole."""
        self._filled += nbytes
        at = 0
        while self._filled - at >= 4:
            (size,) = _int32.unpack_from(self._memory, at)
            if self._filled - at < 4 + size:
                break
            body = self._memory[at + 8 : at + 4 + size]
            at += 4 + size
            self._waiting.popleft()(body if size > _COPIED else bytes(body))
        rest = self._filled - at
        if at and rest:
            self._memory[:rest] = bytes(self._memory[at : self._filled])
        self._filled = rest


def frame(api: Api, version: int, body: Sequence[Buffer]) -> bytes:
    """A request with an empty client id, of a version that is not flexible."""
    content = b"".join((struct.pack(">hhih", api.key, version, 1, 0), *body))
    return _int32.pack(len(content)) + content


def request(api: Api, version: int, value: object) -> bytes:
    """The same, of a message."""
    return frame(api, version, [message.encode(value, version, False)])


def response(api: Api, version: int, body: Buffer) -> Any:
    """An answer as a message."""
    return message.decode(api.response, body, version, False)


def run(main: Coroutine[Any, Any, _Result]) -> _Result:
    """On uvloop, with as many sockets as this user may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
