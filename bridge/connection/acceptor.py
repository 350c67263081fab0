"""Accepts the clients of a listening socket, a few per iteration of the event loop, so that a thousand that connect at
once do not hold up those that are connected."""

import asyncio
import socket
from collections.abc import Callable

from bridge import log

MAX_ACCEPTS = 8
"""Per iteration of the event loop: a millisecond."""
_PAUSE_SECONDS = 1.0
_log = log.get(__name__)


class Acceptor:
    """Owns a listening socket and accepts its clients."""

    def __init__(self, sock: socket.socket, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self._sock = sock
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._accepting: set[asyncio.Task[object]] = set()
        self._paused: asyncio.TimerHandle | None = None
        self._start()

    def close(self) -> None:
        """Accept no more clients."""
        if self._paused is not None:
            self._paused.cancel()
        self._loop.remove_reader(self._sock)
        self._sock.close()

    def _start(self) -> None:
        self._paused = None
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        for _ in range(MAX_ACCEPTS):
            try:
                accepted, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptors left: new clients wait
                _log.warning("! accept failed", extra={"error": error, "seconds": _PAUSE_SECONDS})
                self._loop.remove_reader(self._sock)
                self._paused = self._loop.call_later(_PAUSE_SECONDS, self._start)
                return
            accepted.setblocking(False)
            task: asyncio.Task[object] = self._loop.create_task(self._connect(accepted))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, accepted)
        except OSError as error:  # gone already
            _log.debug("! client lost", extra={"error": error})
            accepted.close()
