"""A path to a broker that can hold its bytes, in both directions, and let them go later."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

from bridge.standalone.ports import HOST


class HalfOpenPath:
    """Listens; each connection goes on to the broker. An async context manager."""

    def __init__(self, service_url: str) -> None:
        self._target = urlsplit(service_url)
        self._flows = asyncio.Event()
        self._flows.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server

    @property
    def service_url(self) -> str:
        """What to connect to instead of the broker."""
        return f"pulsar://{HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> HalfOpenPath:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hold(self) -> None:
        """Neither side hears of the other any more; what they write is kept."""
        self._flows.clear()

    def release(self) -> None:
        """All that was kept arrives, late."""
        self._flows.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(self._target.hostname, self._target.port)
        for source, sink in ((reader, there[1]), (there[0], writer)):
            self._tasks.add(asyncio.get_running_loop().create_task(self._copy(source, sink)))

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            try:
                while data := await source.read(1 << 16):
                    await self._flows.wait()
                    sink.write(data)
                    await sink.drain()
                await self._flows.wait()
            finally:
                sink.close()
