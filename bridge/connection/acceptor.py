"""Accepts the clients of a listening socket, a few per iteration of the event loop, so that a thousand that connect at
once do not hold up those that are connected."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from bridge import log
from bridge.connection.parts import address_of
from bridge.security.quotas.usage import ClientQuotas

MAX_TURNED_AWAY = 1000
"""Connections of addresses above their rate that wait to be closed: more are closed at once."""
MAX_ACCEPTS = 8
"""Per iteration of the event loop: a millisecond."""
_PAUSE_SECONDS = 1.0
_log = log.get(__name__)


class Acceptor:
    """Owns a listening socket and accepts its clients."""

    def __init__(
        self,
        sock: socket.socket,
        protocol: Callable[[], asyncio.BaseProtocol],
        is_behind: Callable[[], bool] = lambda: False,
        quotas: ClientQuotas | None = None,
        is_blocked: Callable[[str], bool] = lambda host: False,
    ) -> None:
        """`is_behind`: whether the loop is to work on those that were accepted before it accepts more; `quotas`: how
        many connections an address may open; `is_blocked`: whether one may open none now, which is counted there."""
        self._is_blocked = is_blocked
        self._is_behind = is_behind
        self._quotas = quotas
        self._turned_away: dict[socket.socket, asyncio.TimerHandle] = {}
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
        for sock, timer in self._turned_away.items():
            timer.cancel()
            sock.close()
        self._turned_away.clear()

    def _start(self) -> None:
        self._paused = None
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        if self._is_behind():  # asked again in the next iteration
            return
        for _ in range(MAX_ACCEPTS):
            try:
                accepted, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptors left: new clients wait
                _log.warning("! accept failed", extra={"error": error, "seconds": _PAUSE_SECONDS})
                self._loop.remove_reader(self._sock)
                self._paused = self._loop.call_later(_PAUSE_SECONDS, self._start)
                return
            if self._is_blocked(address[0]):
                accepted.close()
                continue
            if self._quotas is not None and self._quotas.of_addresses and self._is_above_rate(accepted, address):
                continue
            accepted.setblocking(False)
            task: asyncio.Task[object] = self._loop.create_task(self._connect(accepted))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)

    def _is_above_rate(self, accepted: socket.socket, address: Any) -> bool:
        """Whether its address opens too many connections: then it is closed when the next one may come (KIP-612)."""
        quotas = self._quotas
        assert quotas is not None  # noqa: S101 - it was asked for
        delay = quotas.connect(address[0], self._loop.time())
        if not delay:
            return False
        quotas.metrics.throttle("connection", delay)
        _log.debug("! connection turned away", extra={"peer": address_of(address), "seconds": round(delay, 3)})
        if len(self._turned_away) < MAX_TURNED_AWAY:
            self._turned_away[accepted] = self._loop.call_later(delay, self._end, accepted)
        else:
            accepted.close()
        return True

    def _end(self, sock: socket.socket) -> None:
        del self._turned_away[sock]
        sock.close()

    async def _connect(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, accepted)
        except OSError as error:  # gone already
            _log.debug("! client lost", extra={"error": error})
            accepted.close()
