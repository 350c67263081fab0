"""A TCP relay before a server: it can hold the bytes, as a network that drops packets does, delay or reset them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any, cast

from bridge.standalone.ports import HOST

_RESET = struct.pack("ii", 1, 0)
_CALL_SECONDS = 10.0


class Relay:
    """Passes bytes between clients and `HOST:target` until it is told to hold or to cut them.

    Held: connections stay open and no byte passes, in either direction; what was sent meanwhile arrives after `heal`,
    late. New connections are accepted by the kernel and meet silence. Cut: every connection is reset, new ones too.

    Delayed: what arrives from now on passes `delay_seconds` later, in each direction, at any rate and in order. What is
    on its way when the bytes are held still arrives.

    One connection alone can be held or delayed in one direction. All can be held once clients have sent so much.
    """

    def __init__(self, target: int, port: int = 0) -> None:
        self._target = target
        self._listener = socket.create_server((HOST, port))
        self.port = int(self._listener.getsockname()[1])
        self.delay_seconds = 0.0
        self._ends: set[_End] = set()
        self._newest: _Client | None = None
        self._is_held = False
        self._is_cut = False
        self._passes = inf
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"relay-{self.port}", daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(_CALL_SECONDS)

    def hold(self) -> None:
        """Let no byte pass."""
        self._call(self._hold)

    def hold_after(self, count: int) -> None:
        """Let no byte pass any more once clients have sent about so many from now on."""
        self._passes = count

    def cut(self) -> None:
        """Reset every connection, and those to come."""
        self._call(self._cut)

    def reset(self) -> int:
        """Reset the connections that are open, and let new ones pass; how many pairs there were."""
        open_now = len(self._ends)
        self._call(self._reset)
        return open_now // 2

    def newest(self) -> tuple[_End, _End]:
        """The connection that was made last: the end of its client, and of the server."""
        client = self._newest
        assert client is not None and client.peer is not None
        return client, client.peer

    def hold_from(self, end: _End) -> None:
        """Let no byte pass that comes from there."""
        end.is_held = True
        self._call(end.pause)

    def heal(self) -> None:
        """Pass everything again."""
        self._call(self._heal)

    def close(self) -> None:
        """Reset what is open, and end."""
        if not self._loop.is_closed():
            self._call(self._close)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CALL_SECONDS)
            self._loop.close()

    # ---- on the relay's loop -----------------------------------------------------------------------------------------

    async def _serve(self) -> asyncio.Server:
        return await self._loop.create_server(lambda: _Client(self), sock=self._listener)

    def _hold(self) -> None:
        self._is_held = True
        for end in self._ends:
            end.pause()

    def _cut(self) -> None:
        self._is_cut = True
        self._reset()

    def _reset(self) -> None:
        for end in list(self._ends):
            end.reset()

    def _heal(self) -> None:
        self._is_held = self._is_cut = False
        self._passes = inf
        for end in list(self._ends):
            end.is_held, end.delay_seconds = False, 0.0
            end.resume()

    def _close(self) -> None:
        self._server.close()
        self._cut()

    def _call(self, what: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            what()
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(_CALL_SECONDS), "the relay hangs"

    @property
    def is_held(self) -> bool:
        return self._is_held

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    def sent(self, count: int) -> None:
        """So many bytes more have come from a client."""
        self._passes -= count
        if self._passes <= 0:
            self._passes = inf
            self._hold()

    def made(self, end: _End) -> None:
        self._ends.add(end)

    def gone(self, end: _End) -> None:
        self._ends.discard(end)

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Call it then."""
        self._loop.call_later(seconds, what)

    async def reach(self, client: _Client) -> None:
        """Connect a client to the server; the server refusing is what the client meets."""
        try:
            _, server = await self._loop.create_connection(lambda: _End(self), HOST, self._target)
        except OSError:
            client.reset()
            return
        if client not in self._ends:
            server.reset()
            return
        server.peer, client.peer = client, server
        if not self._is_held:
            client.resume()
            server.resume()

    def start(self, client: _Client) -> None:
        """A client has come."""
        self._newest = client
        task = self._loop.create_task(self.reach(client))
        client.task = task


class _End(asyncio.Protocol):
    """One of the two connections of a pair."""

    def __init__(self, relay: Relay) -> None:
        self.peer: _End | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_held = False
        self.delay_seconds = 0.0
        self._relay = relay
        self._is_full = False  # the peer's buffer
        self._on_its_way: deque[bytes | None] = deque()  # delayed; None: the end
        self._early: deque[bytes] = deque()  # that came before there was a peer, or although reading was paused
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.pause_reading()
        self._relay.made(self)

    def data_received(self, data: bytes) -> None:
        # asyncio of Python 3.11.2 reads on at the beginning
        if self.peer is None or self._early or self._relay.is_held or self.is_held:
            self._early.append(data)
        else:
            self._pass(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._relay.gone(self)
        if self.peer is not None:
            self._pass(None)

    def _pass(self, data: bytes | None) -> None:
        delay = self._relay.delay_seconds + self.delay_seconds
        self._on_its_way.append(data)
        if delay or len(self._on_its_way) > 1:
            self._relay.later(delay, self._arrive)
        else:
            self._arrive()

    def _arrive(self) -> None:
        assert self.peer is not None
        data = self._on_its_way.popleft()
        if data is None:
            self.peer.transport.close()
        else:
            self.peer.transport.write(data)

    def pause_writing(self) -> None:
        if self.peer is not None:
            self.peer._is_full = True
            self.peer.pause()

    def resume_writing(self) -> None:
        if self.peer is not None:
            self.peer._is_full = False
            self.peer.resume()

    def pause(self) -> None:
        """Read no more."""
        self.transport.pause_reading()

    def resume(self) -> None:
        """Read on, unless something else speaks against it."""
        if self.peer is not None and not (self._is_full or self.is_held or self._relay.is_held):
            while self._early:
                self._pass(self._early.popleft())
            self.transport.resume_reading()

    def reset(self) -> None:
        """End with a RST."""
        connection = self.transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            cast(Any, connection).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()


class _Client(_End):
    """The connection that a client has made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._relay.is_cut:
            self.reset()
        else:
            self._relay.start(self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._relay.sent(len(data))
