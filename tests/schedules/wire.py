"""A Kafka client on a whole connection of the bridge: frames over the network in memory, answers in their order."""

import asyncio
import struct
from collections import deque
from typing import Any

from bridge.connection import Listener, SharedResources
from bridge.kafka import message
from bridge.requests.api import Api
from tests.schedules.world import Bridge, World
from tests.support.versions import newest


def listener(bridge: Bridge) -> Listener:
    """As `node/server.py` makes it."""
    return Listener(bridge.handlers, SharedResources(bridge.settings.kafka, bridge.metrics))


class WireClient:
    """One connection; requests may be pipelined."""

    def __init__(self, world: World, listening: Listener) -> None:
        self.closed = False
        self._world = world
        self._endpoint = world.network.admit(listening)
        self._endpoint.received = self._received
        self._endpoint.ended = self._ended
        self._buffer = b""
        self._numbers = 0
        self._asked: deque[tuple[int, Api, int, asyncio.Future[Any]]] = deque()
        self._sent = 0
        self._ends: list[tuple[int, asyncio.Future[Any]]] = []

    def ask(self, api: Api, request: Any, version: int | None = None) -> "asyncio.Future[Any]":
        """The answer; ConnectionError where the bridge hangs up instead."""
        version = newest(api) if version is None else version
        answer: asyncio.Future[Any] = self._world.loop.create_future()
        if self.closed:
            answer.set_exception(ConnectionResetError("closed"))
            return answer
        self._numbers += 1
        flexible = api.is_flexible(version)
        header = struct.pack(">hhih", api.key, version, self._numbers, -1) + (b"\0" if flexible else b"")
        body = header + bytes(message.encode(request, version, flexible))
        self._asked.append((self._numbers, api, version, answer))
        self._sent += 4 + len(body)
        self._ends.append((self._sent, answer))
        self._endpoint.write(struct.pack(">i", len(body)) + body)
        return answer

    def received(self) -> "list[asyncio.Future[Any]]":
        """The answers to all requests that the bridge has wholly received by now."""
        taken = 0 if self._endpoint.transport is None else self._endpoint.transport.taken
        return [answer for end, answer in self._ends if end <= taken]

    def hang_up(self) -> None:
        """Close in order."""
        self._endpoint.close()

    def _received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            (size,) = struct.unpack_from(">i", self._buffer)
            if len(self._buffer) < 4 + size:
                return
            frame, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
            number, api, version, answer = self._asked.popleft()
            assert struct.unpack_from(">i", frame) == (number,), "answers come in the order of the requests"
            flexible = api.is_flexible(version)
            found = message.decode(api.response, frame[5 if flexible else 4 :], version, flexible)
            self._world.loop.arrive(_resolve, answer, found)

    def _ended(self) -> None:
        self.closed = True
        self._endpoint.close()
        asked, self._asked = self._asked, deque()
        for _, _, _, answer in asked:
            self._world.loop.arrive(_lose, answer)


def _resolve(answer: "asyncio.Future[Any]", found: Any) -> None:
    if not answer.done():
        answer.set_result(found)


def _lose(answer: "asyncio.Future[Any]") -> None:
    if not answer.done():
        answer.set_exception(ConnectionResetError("closed by the bridge"))
