"""Takes in the clients of a listening socket, a few at each turn of the event loop: a thousand who come at once do not
keep up those who are there."""

import asyncio
import socket
from collections.abc import Callable

from bridge import log

AT_ONCE = 8
"""A millisecond."""
_PAUSE_SECONDS = 1.0
_log = log.get(__name__)


class Acceptor:
    """Of one socket, which is its own from now on."""

    def __init__(self, sock: socket.socket, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self._sock = sock
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._taking: set[asyncio.Task[object]] = set()
        self._paused: asyncio.TimerHandle | None = None
        self._start()

    def close(self) -> None:
        """Accept no client any more."""
        if self._paused is not None:
            self._paused.cancel()
        self._loop.remove_reader(self._sock)
        self._sock.close()

    def _start(self) -> None:
        self._paused = None
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                taken, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptors left: those who are there go on, and the others wait
                _log.warning("! no client taken in", extra={"error": error, "seconds": _PAUSE_SECONDS})
                self._loop.remove_reader(self._sock)
                self._paused = self._loop.call_later(_PAUSE_SECONDS, self._start)
                return
            taken.setblocking(False)
            task: asyncio.Task[object] = self._loop.create_task(self._take(taken))
            self._taking.add(task)
            task.add_done_callback(self._taking.discard)

    async def _take(self, taken: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, taken)
        except OSError as error:  # gone already
            _log.debug("! client lost", extra={"error": error})
            taken.close()
