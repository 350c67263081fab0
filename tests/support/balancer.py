"""A TCP load balancer: one address before several servers, each new connection at a random one; it can cut any."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from bridge.standalone.ports import HOST

_T = TypeVar("_T")
_CALL_SECONDS = 10.0
_CHUNK = 64 * 1024


class _Pair:
    """A client's connection and the one to the server that was chosen for it."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter, port: int) -> None:
        self.ends = (client, server)
        self.port = port

    def cut(self) -> None:
        for end in self.ends:
            end.transport.abort()


class Balancer:
    """Passes bytes between clients and one of the servers at `HOST:port`."""

    def __init__(self, ports: Sequence[int] = (), seed: int = 0) -> None:
        self.targets = list(ports)
        """Where connections to come may go."""
        self.random = random.Random(seed)
        self.cuts = 0
        """Connections that were cut."""
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="balancer", daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(_CALL_SECONDS)
        self.port = int(self._server.sockets[0].getsockname()[1])

    @property
    def address(self) -> str:
        """What clients are given."""
        return f"{HOST}:{self.port}"

    def used(self) -> set[int]:
        """The servers that have a connection now."""
        return self._call(lambda: {pair.port for pair in self._pairs})

    def cut(self, share: float = 1.0) -> int:
        """Cut each connection with this probability; how many were."""
        return self._call(lambda: self._cut(share))

    def close(self) -> None:
        """Cut everything and listen no more."""
        if self._loop.is_closed():
            return
        self._call(self._server.close)
        self._call(lambda: self._cut(1.0))
        asyncio.run_coroutine_threadsafe(self._ended(), self._loop).result(_CALL_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_SECONDS)
        self._loop.close()

    def _cut(self, share: float) -> int:
        chosen = [pair for pair in self._pairs if self.random.random() < share]
        for pair in chosen:
            pair.cut()
        self.cuts += len(chosen)
        return len(chosen)

    async def _ended(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accepted, HOST, 0)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._serve(reader, writer)
        finally:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for port in self.random.sample(self.targets, len(self.targets)):
            with contextlib.suppress(OSError):
                from_server, to_server = await asyncio.open_connection(HOST, port)
                break
        else:
            return
        pair = _Pair(writer, to_server, port)
        self._pairs.add(pair)
        try:  # a reset of one side is one of the other, as of any load balancer that is fit for this
            with contextlib.suppress(OSError):
                await asyncio.gather(_pass(reader, to_server), _pass(from_server, writer))
        finally:
            self._pairs.discard(pair)
            pair.cut()

    def _call(self, what: Callable[[], _T]) -> _T:
        async def run() -> _T:
            return what()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_CALL_SECONDS)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
